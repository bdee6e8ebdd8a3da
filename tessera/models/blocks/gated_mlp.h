// The gated feed-forward block, behind a norm and beside a residual.
#pragma once

#include <mlx/array.h>

#include <memory>
#include <string>

#include "tessera/artifacts/model_config.h"
#include "tessera/kernels/fused_halves.h"
#include "tessera/layers/linear.h"
#include "tessera/layers/norm.h"
#include "tessera/models/causal_model.h"
#include "tessera/models/weights.h"

namespace tessera::models {

/// norm, then down(silu(gate(x)) * up(x)). Immutable.
class GatedMlp {
 public:
  /// Reads `path`.{gate,up,down}_proj, with biases as `config.mlp_bias` says.
  GatedMlp(Weights& weights, const std::string& path, const artifacts::ModelConfig& config,
           layers::RmsNorm norm);

  /// hidden [B, L, E] -> hidden + mlp(norm(hidden)). One fused kernel where the weights allow it.
  mlx::core::array add_to(const mlx::core::array& hidden, const ForwardContext& context) const;

 private:
  kernels::Runtime runtime_;
  layers::RmsNorm norm_;
  layers::Linear gate_proj_, up_proj_, down_proj_;
  std::shared_ptr<const kernels::MlpHalf> fused_;  // absent when a weight is not packed
};

}  // namespace tessera::models
