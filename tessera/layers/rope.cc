#include "tessera/layers/rope.h"

#include <mlx/ops.h>
#include <mlx/transforms.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "tessera/base/check.h"

namespace tessera::layers {
namespace {

namespace mx = mlx::core;

mx::array scalar(double value) { return mx::array(static_cast<float>(value), mx::float32); }

/// theta^(2i / dims) for i < pairs, by float32 array operations: tables computed in host doubles
/// differ in the last bit from those of the reference implementations.
mx::array periods_of(double theta, int dims, int pairs) {
  const mx::array exponents =
      mx::divide(mx::arange(0.0, 2.0 * pairs, 2.0, mx::float32), scalar(static_cast<double>(dims)));
  return mx::power(scalar(theta), exponents);
}

mx::array base_periods(const RopeConfig& config) {
  return periods_of(config.theta, config.dims, config.dims / 2);
}

mx::array inverse(const mx::array& periods) { return mx::divide(scalar(1.0), periods); }

void require(bool holds, const RopeConfig& config, const char* expected) {
  if (!holds) base::fail_argument("[layers.rope] ", config.scaling, " scaling needs ", expected);
}

/// Long wavelengths are stretched by `factor`, short ones kept, those between blended.
/// Source: Llama 3.1 model card; HF transformers `_compute_llama3_parameters`.
mx::array llama3_periods(const RopeConfig& config) {
  require(config.original_context_length > 0, config, "original_max_position_embeddings > 0");
  require(config.high_freq_factor > config.low_freq_factor, config, "high_freq_factor > low_freq_factor");
  const mx::array periods = base_periods(config);
  const mx::array wavelengths = mx::multiply(periods, scalar(2.0 * std::numbers::pi));
  const double low_wavelength = config.original_context_length / config.low_freq_factor;
  const double high_wavelength = config.original_context_length / config.high_freq_factor;
  const mx::array stretched = mx::where(mx::greater(wavelengths, scalar(low_wavelength)),
                                        mx::multiply(periods, scalar(config.factor)), periods);
  const mx::array is_medium = mx::logical_and(mx::greater(wavelengths, scalar(high_wavelength)),
                                              mx::less(wavelengths, scalar(low_wavelength)));
  const mx::array blend =
      mx::divide(mx::subtract(mx::divide(scalar(config.original_context_length), wavelengths),
                              scalar(config.low_freq_factor)),
                 scalar(config.high_freq_factor - config.low_freq_factor));
  const mx::array blended = mx::divide(
      periods, mx::add(mx::divide(mx::subtract(scalar(1.0), blend), scalar(config.factor)), blend));
  return mx::where(is_medium, blended, stretched);
}

/// A longer context raises theta, so that the slowest pair turns as far as it did in training.
/// Source: u/emozilla 2023; HF transformers `_compute_dynamic_ntk_parameters`.
mx::array dynamic_periods(const RopeConfig& config) {
  require(config.original_context_length > 0 && config.dims > 2, config,
          "max_position_embeddings > 0 and more than 2 dims");
  const double length = std::max(config.context_length, config.original_context_length);
  const double stretch = config.factor * length / config.original_context_length - (config.factor - 1);
  const double theta = config.theta * std::pow(stretch, static_cast<double>(config.dims) / (config.dims - 2));
  return periods_of(theta, config.dims, config.dims / 2);
}

/// The pair, as a fraction of an index, that turns `turns` times within the original context.
double yarn_pair(const RopeConfig& config, double turns) {
  return config.dims * std::log(config.original_context_length / (turns * 2 * std::numbers::pi)) /
         (2 * std::log(config.theta));
}

/// Fast pairs stay, slow ones are stretched by `factor`, those between blended along a ramp.
/// Source: Peng et al. 2023; HF transformers `_compute_yarn_parameters`.
mx::array yarn_frequencies(const RopeConfig& config) {
  require(config.original_context_length > 0 && config.theta > 1, config,
          "original_max_position_embeddings > 0 and rope_theta > 1");
  require(config.beta_slow > 0 && config.beta_fast > config.beta_slow, config, "beta_fast > beta_slow > 0");
  double first = yarn_pair(config, config.beta_fast);
  double last = yarn_pair(config, config.beta_slow);
  if (config.is_ramp_truncated) {
    first = std::floor(first);
    last = std::ceil(last);
  }
  first = std::max(first, 0.0);
  last = std::min(last, config.dims - 1.0);
  if (first == last) last += 0.001;
  const mx::array pairs = mx::arange(0.0, config.dims / 2.0, 1.0, mx::float32);
  const mx::array ramp = mx::clip(mx::divide(mx::subtract(pairs, scalar(first)), scalar(last - first)),
                                  scalar(0.0), scalar(1.0));
  const mx::array kept_share = mx::subtract(scalar(1.0), ramp);
  const mx::array periods = base_periods(config);
  const mx::array kept = mx::multiply(inverse(periods), kept_share);
  const mx::array stretched = inverse(mx::multiply(scalar(config.factor), periods));
  return mx::add(mx::multiply(stretched, mx::subtract(scalar(1.0), kept_share)), kept);
}

/// Every pair has a factor of its own, one for short and one for long contexts.
/// Source: Ding et al. 2024; HF transformers `_compute_longrope_parameters`.
mx::array longrope_periods(const RopeConfig& config) {
  require(config.original_context_length > 0, config, "original_max_position_embeddings > 0");
  const bool is_long = config.context_length > config.original_context_length;
  const std::vector<double>& factors = is_long ? config.long_factors : config.short_factors;
  if (factors.size() != static_cast<std::size_t>(config.dims) / 2) {
    base::fail_argument("[layers.rope] longrope scaling has ", factors.size(),
                        is_long ? " long_factor" : " short_factor", " values; expected ", config.dims / 2);
  }
  const std::vector<float> rounded(factors.begin(), factors.end());
  return mx::multiply(mx::array(rounded.data(), {config.dims / 2}, mx::float32), base_periods(config));
}

/// Only the first pairs turn, with the frequencies of a whole head.
/// Source: HF transformers `_compute_proportional_rope_parameters`.
mx::array proportional_frequencies(const RopeConfig& config) {
  require(config.proportion >= 0 && config.proportion <= 1, config, "a proportion from 0 to 1");
  const int turning = static_cast<int>(config.proportion * config.dims / 2);
  const mx::array frequencies =
      mx::divide(inverse(periods_of(config.theta, config.dims, turning)), scalar(config.factor));
  return mx::concatenate({frequencies, mx::zeros({config.dims / 2 - turning}, mx::float32)}, 0);
}

/// Radians per position of each pair.
mx::array scaled_frequencies(const RopeConfig& config) {
  if (config.dims <= 0 || config.dims % 2 != 0) {
    base::fail_argument("[layers.rope] ", config.dims, " rotated dims; expected a positive even number");
  }
  if (config.frequency_factors) return inverse(mx::multiply(base_periods(config), *config.frequency_factors));
  if (config.scaling == "default") return inverse(base_periods(config));
  require(config.factor > 0, config, "factor > 0");
  if (config.scaling == "linear") return inverse(mx::multiply(base_periods(config), scalar(config.factor)));
  if (config.scaling == "llama3") return inverse(llama3_periods(config));
  if (config.scaling == "dynamic") return inverse(dynamic_periods(config));
  if (config.scaling == "yarn") return yarn_frequencies(config);
  if (config.scaling == "longrope") return inverse(longrope_periods(config));
  if (config.scaling == "proportional") return proportional_frequencies(config);
  base::fail_unsupported("[layers.rope] rope scaling '", config.scaling,
                         "'; supported: default, linear, dynamic, llama3, yarn, longrope, proportional");
}

/// The scale of rotated dims: attention over a longer context is sharpened by larger queries and keys.
double scale_of(const RopeConfig& config) {
  const bool has_scale = config.scaling == "yarn" || config.scaling == "longrope";
  if (!has_scale || config.frequency_factors) return 1;
  if (config.attention_factor) return *config.attention_factor;
  if (config.factor <= 1) return 1;
  if (config.scaling == "longrope") {
    require(config.original_context_length > 1, config, "original_max_position_embeddings > 1");
    return std::sqrt(1 + std::log(config.factor) / std::log(config.original_context_length));
  }
  const auto yarn_scale = [&](double mscale) { return 0.1 * mscale * std::log(config.factor) + 1; };
  if (config.mscale != 0 && config.mscale_all_dim != 0)
    return yarn_scale(config.mscale) / yarn_scale(config.mscale_all_dim);
  return yarn_scale(1);
}

}  // namespace

bool is_supported_rope_scaling(const std::string& scaling) {
  constexpr const char* kSupported[] = {"default", "linear",   "dynamic",      "llama3",
                                        "yarn",    "longrope", "proportional", "factors"};
  return std::find(std::begin(kSupported), std::end(kSupported), scaling) != std::end(kSupported);
}

Rope::Rope(const RopeConfig& config, kernels::Runtime runtime)
    : rotation_{.frequencies = scaled_frequencies(config),
                .scale = static_cast<float>(scale_of(config)),
                .pairs = config.pairs},
      runtime_(std::move(runtime)) {
  mx::eval(rotation_.frequencies);
}

}  // namespace tessera::layers
