#include "tessera/artifacts/config_checks.h"

#include <charconv>
#include <iterator>
#include <string>
#include <vector>

#include "tessera/base/check.h"

namespace tessera::artifacts {
namespace {

using base::fail_artifact;

// Of anything that scales a frequency.
constexpr double kLeastFactor = 1e-6;
constexpr double kMostFactor = 1e6;

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

void check_longrope(const RopeScaling& rope, int64_t rope_dims, const std::string& at) {
  const auto check_factors = [&](const char* name, const std::vector<double>& factors) {
    if (static_cast<int64_t>(factors.size()) != rope_dims / 2) {
      fail_artifact(at, ": ", name, " has ", factors.size(), " numbers; expected ", rope_dims / 2,
                    ", one for each pair of rotated dims");
    }
    for (const double factor : factors) check_number(factor, kLeastFactor, kMostFactor, name, at);
  };
  check_factors("short_factor", rope.short_factors);
  check_factors("long_factor", rope.long_factors);
  check_number(static_cast<double>(rope.original_context_length), 2, kMostPositions,
               "original_max_position_embeddings", at);
}

void check_yarn(const RopeScaling& rope, double theta, const std::string& at) {
  check_number(rope.beta_fast, kLeastFactor, kMostFactor, "beta_fast", at);
  check_number(rope.beta_slow, kLeastFactor, kMostFactor, "beta_slow", at);
  if (rope.beta_slow >= rope.beta_fast) {
    fail_artifact(at, ": beta_slow ", to_text(rope.beta_slow), "; expected less than beta_fast ",
                  to_text(rope.beta_fast));
  }
  check_number(rope.mscale, 0, kMostFactor, "mscale", at);
  check_number(rope.mscale_all_dim, 0, kMostFactor, "mscale_all_dim", at);
  check_number(theta, 1.001, 1e30, "rope_theta with rope type yarn", at);  // divides by its logarithm
}

void check_rope_scaling(const ModelConfig& config, const std::string& at) {
  const RopeScaling& rope = config.rope_scaling;
  check_number(rope.factor, kLeastFactor, kMostFactor, "rope scaling factor", at);
  check_number(rope.low_freq_factor, kLeastFactor, kMostFactor, "low_freq_factor", at);
  check_number(rope.high_freq_factor, kLeastFactor, kMostFactor, "high_freq_factor", at);
  if (rope.low_freq_factor >= rope.high_freq_factor) {
    fail_artifact(at, ": low_freq_factor ", to_text(rope.low_freq_factor),
                  "; expected less than high_freq_factor ", to_text(rope.high_freq_factor));
  }
  if (rope.attention_factor) check_number(*rope.attention_factor, 1e-3, 1e3, "attention_factor", at);
  if (rope.kind == "yarn") check_yarn(rope, config.rope_theta, at);
  if (rope.kind == "longrope") check_longrope(rope, config.rope_dims, at);
  if (rope.kind == "dynamic" && config.rope_dims < 4) {
    fail_artifact(at, ": rope type dynamic with ", config.rope_dims, " rotated dims; expected at least 4");
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
  check_rope_scaling(config, at);
}

}  // namespace tessera::artifacts
