#include "tessera/artifacts/config_checks.h"

#include <charconv>
#include <iterator>
#include <string>

#include "tessera/base/check.h"

namespace tessera::artifacts {
namespace {

using base::fail_artifact;

/// The shortest text of a number; to_string would print 1e-30 as 0.000000.
std::string to_text(double value) {
  char buffer[32];
  const auto result = std::to_chars(std::begin(buffer), std::end(buffer), value);
  return {std::begin(buffer), result.ptr};
}

/// Bounds keep the arithmetic, which is float32, away from 0, infinity and NaN.
void check_number(double value, double least, double most, const char* name, const std::string& at) {
  if (value >= least && value <= most) return;  // false for NaN
  fail_artifact(at, ": ", name, "; expected ", to_text(least), " to ", to_text(most), ", got ",
                to_text(value));
}

void check_rope_scaling(const RopeScaling& rope, const std::string& at) {
  constexpr double kLeast = 1e-6;
  constexpr double kMost = 1e6;
  check_number(rope.factor, kLeast, kMost, "rope scaling factor", at);
  check_number(rope.low_freq_factor, kLeast, kMost, "low_freq_factor", at);
  check_number(rope.high_freq_factor, kLeast, kMost, "high_freq_factor", at);
  if (rope.low_freq_factor >= rope.high_freq_factor) {
    fail_artifact(at, ": low_freq_factor ", to_text(rope.low_freq_factor),
                  "; expected less than high_freq_factor ", to_text(rope.high_freq_factor));
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
  check_number(config.rms_norm_eps, 1e-30, 1, "rms_norm_eps", at);
  check_number(config.rope_theta, 1, 1e30, "rope_theta", at);
  check_rope_scaling(config.rope_scaling, at);
}

}  // namespace tessera::artifacts
