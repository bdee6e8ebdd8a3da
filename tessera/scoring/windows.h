// Which pieces of a text are scored, and which of their positions: the convention of llama.cpp's
// perplexity program, whose figures ours stand beside.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "tessera/tokenizer.h"

namespace tessera::scoring {

/// The smallest window that has a scored position.
inline constexpr int64_t kMinWindowTokens = 3;

/// The token that every window begins with: BOS, where the tokenizer puts it before a text.
std::optional<int32_t> window_start(const Tokenizer& tokenizer);

/// Whole windows in `n_tokens` tokens.
int64_t count_windows(int64_t n_tokens, int64_t window_tokens);

/// Window `index` of `tokens`, its first token replaced by `start` if there is one.
/// REQUIRES: 0 <= index < count_windows(tokens.size(), window_tokens).
std::vector<int32_t> window_at(std::span<const int32_t> tokens, int64_t window_tokens, int64_t index,
                               std::optional<int32_t> start);

/// The positions of a window that are scored, [first, last): each predicts the token behind it. Half of
/// the window goes before them, so that none is predicted from little.
struct ScoredPositions {
  int64_t first = 0;
  int64_t last = 0;
};
ScoredPositions scored_positions(int64_t window_tokens);

}  // namespace tessera::scoring
