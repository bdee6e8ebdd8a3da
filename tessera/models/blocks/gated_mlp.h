// The gated feed-forward block.
#pragma once

#include <mlx/array.h>

#include <string>

#include "tessera/artifacts/model_config.h"
#include "tessera/layers/linear.h"
#include "tessera/models/weights.h"

namespace tessera::models {

/// down(silu(gate(x)) * up(x)). Immutable.
class GatedMlp {
 public:
  /// Reads `path`.{gate,up,down}_proj, with biases as `config.mlp_bias` says.
  GatedMlp(Weights& weights, const std::string& path, const artifacts::ModelConfig& config);

  /// x [B, L, E] -> [B, L, E].
  mlx::core::array forward(const mlx::core::array& x) const;

 private:
  layers::Linear gate_proj_, up_proj_, down_proj_;
};

}  // namespace tessera::models
