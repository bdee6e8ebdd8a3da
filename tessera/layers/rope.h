// Rotary position embedding with the scalings of published checkpoints.
#pragma once

#include <mlx/array.h>

#include <optional>
#include <string>

#include "tessera/kernels/rope.h"

namespace tessera::layers {

/// What a configuration says about a layer's rotation.
struct RopeConfig {
  int dims = 0;  // rotated leading dims of a head
  double theta = 10000.0;
  std::string scaling = "default";  // default, linear, llama3
  double factor = 1.0;
  double low_freq_factor = 1.0;                       // llama3
  double high_freq_factor = 4.0;                      // llama3
  double original_context_length = 0;                 // llama3
  std::optional<mlx::core::array> frequency_factors;  // [dims / 2] float32: divides each frequency
};

/// Whether Rope implements a scaling. "factors" stands for RopeConfig::frequency_factors.
bool is_supported_rope_scaling(const std::string& scaling);

/// The rotation of one layer's queries and keys. Immutable; copying shares the table.
class Rope {
 public:
  /// Throws Unsupported naming a scaling that is not implemented, InvalidArgument on bad parameters.
  explicit Rope(const RopeConfig& config);

  /// x [B, H, L, D], position of x[:, :, l] is offset + l.
  mlx::core::array forward(const mlx::core::array& x, int offset) const {
    return kernels::rope(x, frequencies_, offset);
  }

  const mlx::core::array& frequencies() const { return frequencies_; }

 private:
  mlx::core::array frequencies_;  // [dims / 2] float32, radians per position, evaluated
};

}  // namespace tessera::layers
