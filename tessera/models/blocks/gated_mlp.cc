#include "tessera/models/blocks/gated_mlp.h"

#include "tessera/kernels/activation.h"

namespace tessera::models {

GatedMlp::GatedMlp(Weights& weights, const std::string& path, const artifacts::ModelConfig& config)
    : gate_proj_(
          weights.linear(path + ".gate_proj", config.hidden_size, config.intermediate_size, config.mlp_bias)),
      up_proj_(
          weights.linear(path + ".up_proj", config.hidden_size, config.intermediate_size, config.mlp_bias)),
      down_proj_(weights.linear(path + ".down_proj", config.intermediate_size, config.hidden_size,
                                config.mlp_bias)) {}

mlx::core::array GatedMlp::forward(const mlx::core::array& x) const {
  const auto projected = layers::Linear::forward_together(x, {&gate_proj_, &up_proj_});
  return down_proj_.forward(kernels::swiglu(projected[0], projected[1]));
}

}  // namespace tessera::models
