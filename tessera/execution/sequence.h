// One sequence on the engine's thread: its tokens, what the model remembers of them, and the steps
// that move it forward.
#pragma once

#include <mlx/array.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <vector>

#include "tessera/models/causal_model.h"
#include "tessera/state/sequence_state.h"

namespace tessera::execution {

/// Tokens that the state holds are `tokens()`. Logits are handed out where the model's last operation left
/// them: they hold until the next step or the end of the sequence, and the caller may overwrite them.
/// Belongs to the engine's thread. A cancelled prompt leaves a prefix of it; any other exception leaves
/// an empty sequence.
class Sequence {
 public:
  explicit Sequence(std::shared_ptr<const models::CausalModel> model);

  /// Makes the sequence hold exactly `tokens` and returns the logits [V] that follow them. Keeps the
  /// longest common prefix with what it holds, at most all but the last token. The rest goes through
  /// in chunks down to one token, which goes alone: the first logits then have the arithmetic of a
  /// decode step (spec of the reference system 2.16).
  /// Throws Error(kCancelled) when `cancel` is triggered; a layer at a time is the most it finishes.
  /// REQUIRES: 1 <= tokens.size() <= the composition's context length, ids in the vocabulary.
  std::span<float> prefill(std::span<const int32_t> tokens, std::stop_token cancel);

  /// Appends one token and returns the logits [V] that follow it.
  std::span<float> decode(int32_t token);

  /// Prompt tokens that the last prefill() found already there.
  int64_t cached_tokens() const { return cached_tokens_; }
  const std::vector<int32_t>& tokens() const { return tokens_; }

 private:
  /// The named evaluation point: one forward over `tokens`, appended and evaluated.
  /// Returns the last position's logits if `with_logits`.
  std::span<float> step(std::span<const int32_t> tokens, const models::ForwardContext& context,
                        bool with_logits);

  /// Makes state and tokens agree again after a forward that did not end.
  void recover(bool is_cancelled);

  std::shared_ptr<const models::CausalModel> model_;
  state::SequenceState state_;
  std::vector<int32_t> tokens_;
  std::optional<mlx::core::array> logits_;  // of the last step, [1, 1, V] float32; owns what was handed out
  int64_t cached_tokens_ = 0;
};

}  // namespace tessera::execution
