// Grouped-query self-attention with rotary positions, behind a norm and beside a residual.
#pragma once

#include <mlx/array.h>

#include <memory>
#include <string>

#include "tessera/artifacts/model_config.h"
#include "tessera/kernels/fused_halves.h"
#include "tessera/layers/linear.h"
#include "tessera/layers/norm.h"
#include "tessera/layers/rope.h"
#include "tessera/models/causal_model.h"
#include "tessera/models/weights.h"

namespace tessera::models {

/// norm, q, k, v projections, rotation, append, attend, output projection. Immutable.
class Attention {
 public:
  /// Reads `path`.{q,k,v,o}_proj, with biases as `config.attention_bias` says.
  Attention(Weights& weights, const std::string& path, const artifacts::ModelConfig& config,
            layers::RmsNorm norm, layers::Rope rope);

  /// hidden [B, L, E] -> hidden + attention(norm(hidden)); appends L positions to `state`. One fused kernel
  /// where weights and state allow it, else composed operations.
  mlx::core::array add_to(const mlx::core::array& hidden, state::AttentionState& state,
                          const ForwardContext& context) const;

 private:
  mlx::core::array composed(const mlx::core::array& hidden, state::AttentionState& state,
                            state::Phase phase) const;

  int n_heads_, n_kv_heads_, head_dim_;
  float scale_;
  layers::RmsNorm norm_;
  layers::Linear q_proj_, k_proj_, v_proj_, o_proj_;
  layers::Rope rope_;
  std::shared_ptr<const kernels::AttentionHalf>
      fused_;  // absent when a weight is not packed or the rotation is scaled or interleaved
};

}  // namespace tessera::models
