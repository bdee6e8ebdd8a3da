// Normalization, rotation and gating on the CPU in float32: the primitives between the products.
#pragma once

#include <mlx/array.h>

#include <optional>

namespace tessera::kernels::cpu {

/// As kernels/norm.h; x [.., E] float32 with E a multiple of 16, weight [E] float32 or absent.
mlx::core::array rms_norm(const mlx::core::array& x, const std::optional<mlx::core::array>& weight,
                          float eps);

/// As kernels/activation.h; float32.
mlx::core::array swiglu(const mlx::core::array& gate, const mlx::core::array& up);

/// Rotates the first 2 * frequencies.size() dims of x [B, H, L, D] float32, halves together, by the
/// angle (offset + l) * frequencies[i]. Any strides; returns a contiguous array.
mlx::core::array rope(const mlx::core::array& x, const mlx::core::array& frequencies, int offset);

}  // namespace tessera::kernels::cpu
