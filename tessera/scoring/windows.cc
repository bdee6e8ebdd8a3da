#include "tessera/scoring/windows.h"

#include "tessera/base/check.h"

namespace tessera::scoring {

std::optional<int32_t> window_start(const Tokenizer& tokenizer) {
  const auto bos = tokenizer.bos_id();
  const std::vector<int32_t> some_text = tokenizer.encode("a");
  return bos && !some_text.empty() && some_text.front() == *bos ? bos : std::nullopt;
}

int64_t count_windows(int64_t n_tokens, int64_t window_tokens) { return n_tokens / window_tokens; }

std::vector<int32_t> window_at(std::span<const int32_t> tokens, int64_t window_tokens, int64_t index,
                               std::optional<int32_t> start) {
  TESSERA_CHECK(index >= 0 && index < count_windows(static_cast<int64_t>(tokens.size()), window_tokens));
  const auto window = tokens.subspan(static_cast<std::size_t>(index * window_tokens),
                                     static_cast<std::size_t>(window_tokens));
  std::vector<int32_t> result(window.begin(), window.end());
  if (start) result.front() = *start;
  return result;
}

ScoredPositions scored_positions(int64_t window_tokens) {
  return {.first = window_tokens / 2, .last = window_tokens - 1};
}

}  // namespace tessera::scoring
