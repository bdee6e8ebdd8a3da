// Normalization, gating and rotation in plain MLX operations: fallback, gradient and oracle in one.
#pragma once

#include <mlx/array.h>

#include <optional>

namespace tessera::kernels::reference {

/// x / sqrt(mean(x^2) + eps) * weight, computed in float32; returns x's dtype.
mlx::core::array rms_norm(const mlx::core::array& x, const std::optional<mlx::core::array>& weight,
                          float eps);

/// x sigmoid(x) up.
mlx::core::array swiglu(const mlx::core::array& gate, const mlx::core::array& up);

/// Rotates the first 2 n dims of x [B, H, L, D], halves together, by (offset + l) * frequencies [n].
mlx::core::array rope(const mlx::core::array& x, const mlx::core::array& frequencies, int offset);

}  // namespace tessera::kernels::reference
