#include "tessera/artifacts/config_checks.h"

#include <cmath>

#include "tessera/base/check.h"

namespace tessera::artifacts {
namespace {

using base::fail_artifact;

void check_positive(double value, const char* name, const std::string& at) {
  if (!std::isfinite(value) || value <= 0)
    fail_artifact(at, ": ", name, "; expected a positive number, got ", value);
}

void check_rope_scaling(const RopeScaling& rope, const std::string& at) {
  check_positive(rope.factor, "rope scaling factor", at);
  check_positive(rope.low_freq_factor, "low_freq_factor", at);
  check_positive(rope.high_freq_factor, "high_freq_factor", at);
  if (rope.low_freq_factor >= rope.high_freq_factor) {
    fail_artifact(at, ": low_freq_factor ", rope.low_freq_factor, "; expected less than high_freq_factor ",
                  rope.high_freq_factor);
  }
}

}  // namespace

void check_model_config(const ModelConfig& config, const std::string& at) {
  if (config.n_heads % config.n_kv_heads != 0) {
    fail_artifact(at, ": ", config.n_heads, " query heads; expected a multiple of the ", config.n_kv_heads,
                  " key heads");
  }
  if (config.rope_dims < 2 || config.rope_dims > config.head_dim || config.rope_dims % 2 != 0) {
    fail_artifact(at, ": ", config.rope_dims, " rotated dims; expected an even number up to head_dim ",
                  config.head_dim);
  }
  check_positive(config.rms_norm_eps, "rms_norm_eps", at);
  check_positive(config.rope_theta, "rope_theta", at);
  check_rope_scaling(config.rope_scaling, at);
}

}  // namespace tessera::artifacts
