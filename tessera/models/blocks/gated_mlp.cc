#include "tessera/models/blocks/gated_mlp.h"

#include <utility>

#include "tessera/kernels/activation.h"

namespace tessera::models {

GatedMlp::GatedMlp(Weights& weights, const std::string& path, const artifacts::ModelConfig& config,
                   layers::RmsNorm norm)
    : runtime_(weights.runtime()),
      norm_(std::move(norm)),
      gate_proj_(
          weights.linear(path + ".gate_proj", config.hidden_size, config.intermediate_size, config.mlp_bias)),
      up_proj_(
          weights.linear(path + ".up_proj", config.hidden_size, config.intermediate_size, config.mlp_bias)),
      down_proj_(weights.linear(path + ".down_proj", config.intermediate_size, config.hidden_size,
                                config.mlp_bias)) {
  auto gate = gate_proj_.projection(), up = up_proj_.projection(), down = down_proj_.projection();
  if (!gate || !up || !down) return;
  fused_ = kernels::make_mlp_half({.norm = norm_.weight(),
                                   .norm_eps = norm_.eps(),
                                   .gate = std::move(*gate),
                                   .up = std::move(*up),
                                   .down = std::move(*down)});
}

mlx::core::array GatedMlp::add_to(const mlx::core::array& hidden, const ForwardContext& context) const {
  if (fused_ && !context.is_composed && hidden.dtype() == mlx::core::float32)
    return kernels::mlp_half(hidden, fused_, hidden);
  const auto projected = layers::Linear::forward_together(norm_.forward(hidden), {&gate_proj_, &up_proj_});
  return down_proj_.forward(kernels::swiglu(projected[0], projected[1], runtime_), hidden);
}

}  // namespace tessera::models
