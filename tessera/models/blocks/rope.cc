#include "tessera/models/blocks/rope.h"

namespace tessera::models {

layers::RopeConfig rope_config(const artifacts::ModelConfig& config, int64_t context_length) {
  const artifacts::RopeScaling& scaling = config.rope_scaling;
  return {
      .dims = static_cast<int>(config.rope_dims),
      .theta = config.rope_theta,
      .scaling = scaling.kind,
      .factor = scaling.factor,
      .low_freq_factor = scaling.low_freq_factor,
      .high_freq_factor = scaling.high_freq_factor,
      .original_context_length = static_cast<double>(scaling.original_context_length),
      .context_length = static_cast<double>(context_length),
      .beta_fast = scaling.beta_fast,
      .beta_slow = scaling.beta_slow,
      .is_ramp_truncated = scaling.is_ramp_truncated,
      .mscale = scaling.mscale,
      .mscale_all_dim = scaling.mscale_all_dim,
      .attention_factor = scaling.attention_factor,
      .short_factors = scaling.short_factors,
      .long_factors = scaling.long_factors,
      .proportion = scaling.proportion,
      .pairs = config.is_rope_interleaved ? kernels::RopePairs::kInterleaved : kernels::RopePairs::kHalves};
}

}  // namespace tessera::models
