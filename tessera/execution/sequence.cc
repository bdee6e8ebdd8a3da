#include "tessera/execution/sequence.h"

#include <mlx/ops.h>
#include <mlx/transforms.h>

#include <algorithm>
#include <utility>

#include "tessera/base/check.h"

namespace tessera::execution {
namespace {

namespace mx = mlx::core;

std::size_t common_prefix(std::span<const int32_t> a, std::span<const int32_t> b) {
  const std::size_t shorter = std::min(a.size(), b.size());
  return static_cast<std::size_t>(
      std::mismatch(a.begin(), a.begin() + static_cast<std::ptrdiff_t>(shorter), b.begin()).first -
      a.begin());
}

}  // namespace

Sequence::Sequence(std::shared_ptr<const models::CausalModel> model)
    : model_(std::move(model)), state_(model_->new_state()) {}

std::span<float> Sequence::step(std::span<const int32_t> tokens, const models::ForwardContext& context,
                                bool with_logits) {
  logits_.reset();  // its memory serves the next ones
  try {
    const auto length = static_cast<int>(tokens.size());
    const mx::array ids(tokens.data(), {1, length}, mx::int32);
    const mx::array hidden = model_->forward_hidden(ids, state_, context);
    std::vector<mx::array> outputs = state_.pending();
    if (with_logits) {
      const mx::array last = mx::slice(hidden, {0, length - 1, 0}, {1, length, hidden.shape(2)});
      outputs.push_back(mx::contiguous(mx::astype(model_->logits(last), mx::float32)));
    } else {
      outputs.push_back(hidden);
    }
    mx::eval(outputs);
    tokens_.insert(tokens_.end(), tokens.begin(), tokens.end());
    if (!with_logits) return {};
    logits_ = std::move(outputs.back());
    return {logits_->data<float>(), logits_->size()};
  } catch (const Error& error) {
    recover(error.kind() == ErrorKind::kCancelled);
    throw;
  } catch (...) {
    recover(false);
    throw;
  }
}

void Sequence::recover(bool is_cancelled) {
  if (is_cancelled) {
    // Layers have come to different lengths; they all hold what the tokens say.
    state_.rollback(static_cast<int>(tokens_.size()));
    return;
  }
  // What a failed evaluation has written is not known.
  state_ = model_->new_state();
  tokens_.clear();
}

std::span<float> Sequence::prefill(std::span<const int32_t> tokens, std::stop_token cancel) {
  TESSERA_CHECK(!tokens.empty() &&
                static_cast<int64_t>(tokens.size()) <= model_->composition().context_length);
  const std::size_t kept = std::min(common_prefix(tokens_, tokens), tokens.size() - 1);
  state_.rollback(static_cast<int>(kept));
  tokens_.resize(kept);
  cached_tokens_ = static_cast<int64_t>(kept);

  const models::ForwardContext window{.phase = state::Phase::kWindow, .cancel = cancel};
  const auto chunk = static_cast<std::size_t>(model_->composition().prefill_chunk_tokens);
  for (std::size_t start = kept; start + 1 < tokens.size();) {
    if (cancel.stop_requested()) base::fail(ErrorKind::kCancelled, "[execution.prefill] cancelled");
    const std::size_t length = std::min(chunk, tokens.size() - 1 - start);
    step(tokens.subspan(start, length), window, false);
    start += length;
  }
  return decode(tokens.back());
}

std::span<float> Sequence::decode(int32_t token) {
  return step(std::span(&token, 1), {.phase = state::Phase::kDecode}, true);
}

}  // namespace tessera::execution
