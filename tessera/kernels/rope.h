// Rotary position embedding.
#pragma once

#include <mlx/array.h>

#include <optional>

namespace tessera::kernels {

/// How a layer rotates its queries and keys.
struct RopeParameters {
  int dims = 0;                             // leading dims of a head that are rotated; even
  bool is_interleaved = false;              // pairs (2i, 2i+1) instead of (i, i + dims / 2)
  float theta = 10000.0F;                   // used when `periods` is absent
  float position_scale = 1.0F;              // positions are multiplied by it (linear scaling: 1 / factor)
  std::optional<mlx::core::array> periods;  // [dims / 2] float32: theta^(2i / dims), rescaled; the angle
                                            // of position p is p / periods[i]
};

/// Rotates x [B, H, L, D] whose position l is offset + l. Returns the shape and dtype of x.
/// Throws InvalidArgument when dims is odd or larger than D.
/// Source: Su et al. 2021; MLX `fast::rope`.
mlx::core::array rope(const mlx::core::array& x, const RopeParameters& parameters, int offset);

}  // namespace tessera::kernels
