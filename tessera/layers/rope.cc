#include "tessera/layers/rope.h"

#include <mlx/ops.h>
#include <mlx/transforms.h>

#include <numbers>

#include "tessera/base/check.h"

namespace tessera::layers {
namespace {

namespace mx = mlx::core;

mx::array scalar(double value) { return mx::array(static_cast<float>(value), mx::float32); }

/// theta^(2i / dims) for i < dims / 2, by float32 array operations: tables computed in host doubles
/// differ in the last bit from those of the reference implementations.
mx::array base_periods(const RopeConfig& config) {
  const mx::array exponents =
      mx::divide(mx::arange(0.0, static_cast<double>(config.dims), 2.0, mx::float32), scalar(config.dims));
  return mx::power(scalar(config.theta), exponents);
}

/// Long wavelengths are stretched by `factor`, short ones kept, those between blended.
/// Source: Llama 3.1 model card; HF transformers `_compute_llama3_parameters`.
mx::array llama3_periods(const RopeConfig& config) {
  if (config.original_context_length <= 0 || config.factor <= 0 ||
      config.high_freq_factor <= config.low_freq_factor) {
    base::fail_argument(
        "[layers.rope] llama3 scaling needs original_max_position_embeddings > 0, factor > 0 and "
        "high_freq_factor > low_freq_factor");
  }
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

}  // namespace

bool is_supported_rope_scaling(const std::string& scaling) {
  return scaling == "default" || scaling == "linear" || scaling == "llama3" || scaling == "factors";
}

namespace {

/// Positions per radian of each pair.
mx::array scaled_periods(const RopeConfig& config) {
  if (config.dims <= 0 || config.dims % 2 != 0) {
    base::fail_argument("[layers.rope] ", config.dims, " rotated dims; expected a positive even number");
  }
  if (config.frequency_factors) return mx::multiply(base_periods(config), *config.frequency_factors);
  if (config.scaling == "default") return base_periods(config);
  if (config.scaling == "llama3") return llama3_periods(config);
  if (config.scaling == "linear") {
    if (config.factor <= 0) base::fail_argument("[layers.rope] linear scaling needs factor > 0");
    return mx::multiply(base_periods(config), scalar(config.factor));
  }
  base::fail_unsupported("[layers.rope] rope scaling '", config.scaling,
                         "'; supported: default, linear, llama3");
}

}  // namespace

Rope::Rope(const RopeConfig& config) : frequencies_(mx::divide(scalar(1.0), scaled_periods(config))) {
  mx::eval(frequencies_);
}

}  // namespace tessera::layers
