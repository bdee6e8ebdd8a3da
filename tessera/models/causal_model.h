// A loaded causal language model: what execution/, scoring/ and training/ see of any family.
#pragma once

#include <mlx/array.h>

#include <memory>
#include <stop_token>

#include "tessera/artifacts/model_config.h"
#include "tessera/models/composition.h"
#include "tessera/state/sequence_state.h"

namespace tessera::models {

/// What a forward is for. Lives for the call only.
struct ForwardContext {
  state::Phase phase = state::Phase::kDecode;
  /// Runs a layer as separate operations where a fused kernel would fit: for tests.
  bool is_composed = false;
  /// When this token can be triggered, a window forward evaluates after every layer and throws
  /// Error(kCancelled) between two of them; the caller rolls the state back.
  std::stop_token cancel = {};

  /// The evaluation point between layers; see `cancel`.
  void between_layers(const mlx::core::array& hidden) const;
};

/// Immutable after load and shared. Belongs to the engine's thread, as MLX does.
class CausalModel {
 public:
  virtual ~CausalModel() = default;

  /// ids [B, L] int32 -> hidden states behind the final norm [B, L, E]; appends to `state`.
  /// Nothing is evaluated unless the context says so.
  virtual mlx::core::array forward_hidden(const mlx::core::array& ids, state::SequenceState& state,
                                          const ForwardContext& context) const = 0;
  /// hidden [B, L, E] -> logits [B, L, V].
  virtual mlx::core::array logits(const mlx::core::array& hidden) const = 0;

  /// An empty sequence, composed as composition() says.
  virtual state::SequenceState new_state() const = 0;

  virtual const artifacts::ModelConfig& config() const = 0;
  virtual const Composition& composition() const = 0;
};

}  // namespace tessera::models
