// Rotary position embedding with the scalings of published checkpoints.
#pragma once

#include <mlx/array.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tessera/kernels/rope.h"

namespace tessera::layers {

/// What a configuration says about a layer's rotation. Names in comments are the scalings that read a field.
struct RopeConfig {
  int dims = 0;  // rotated leading dims of a head
  double theta = 10000.0;
  std::string scaling = "default";     // default, linear, dynamic, llama3, yarn, longrope, proportional
  double factor = 1.0;                 // stretch of the context
  double low_freq_factor = 1.0;        // llama3
  double high_freq_factor = 4.0;       // llama3
  double original_context_length = 0;  // dynamic, llama3, yarn, longrope: positions trained on at first
  // dynamic, longrope: positions that a sequence may hold. Their tables depend on it (docs/adr/009).
  double context_length = 0;
  double beta_fast = 32, beta_slow = 1;             // yarn: turns within the original context
  bool is_ramp_truncated = true;                    // yarn: the ramp begins and ends at whole pairs
  double mscale = 0, mscale_all_dim = 0;            // yarn: of the scale; used when both are there
  std::optional<double> attention_factor;           // yarn, longrope: the scale itself
  std::vector<double> short_factors, long_factors;  // longrope: [dims / 2]
  double proportion = 1.0;                          // proportional: of the pairs that turn
  kernels::RopePairs pairs = kernels::RopePairs::kHalves;
  std::optional<mlx::core::array> frequency_factors;  // [dims / 2] float32: divides each frequency
};

/// Whether Rope implements a scaling. "factors" stands for RopeConfig::frequency_factors.
bool is_supported_rope_scaling(const std::string& scaling);

/// The rotation of one layer's queries and keys. Immutable; copying shares the table.
class Rope {
 public:
  /// Throws Unsupported naming a scaling that is not implemented, InvalidArgument on bad parameters.
  explicit Rope(const RopeConfig& config, kernels::Runtime runtime = {});

  /// x [B, H, L, D], position of x[:, :, l] is offset + l.
  mlx::core::array forward(const mlx::core::array& x, int offset) const {
    return kernels::rope(x, rotation_, offset, runtime_);
  }

  /// The frequencies [dims / 2] are evaluated.
  const kernels::Rotation& rotation() const { return rotation_; }
  const mlx::core::array& frequencies() const { return rotation_.frequencies; }

 private:
  kernels::Rotation rotation_;
  kernels::Runtime runtime_;
};

}  // namespace tessera::layers
