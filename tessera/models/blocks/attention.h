// Grouped-query self-attention with rotary positions.
#pragma once

#include <mlx/array.h>

#include "tessera/artifacts/model_config.h"
#include "tessera/layers/linear.h"
#include "tessera/layers/rope.h"
#include "tessera/models/weights.h"
#include "tessera/state/layer_state.h"

namespace tessera::models {

/// q, k, v projections, rotation, append, attend, output projection. Immutable.
class Attention {
 public:
  /// Reads `path`.{q,k,v,o}_proj, with biases as `config.attention_bias` says.
  Attention(Weights& weights, const std::string& path, const artifacts::ModelConfig& config,
            layers::Rope rope);

  /// x [B, L, E] -> [B, L, E]; appends L positions to `state`.
  mlx::core::array forward(const mlx::core::array& x, state::AttentionState& state, state::Phase phase) const;

 private:
  int n_heads_, n_kv_heads_, head_dim_;
  float scale_;
  layers::Linear q_proj_, k_proj_, v_proj_, o_proj_;
  layers::Rope rope_;
};

}  // namespace tessera::models
