// Normalization, gating and rotation in plain MLX operations: fallback, gradient and oracle in one.
#pragma once

#include <mlx/array.h>

#include <optional>
#include <utility>

#include "tessera/kernels/activation.h"
#include "tessera/kernels/rope.h"

namespace tessera::kernels::reference {

/// x / sqrt(mean(x^2) + eps) * weight, computed in float32; returns x's dtype.
mlx::core::array rms_norm(const mlx::core::array& x, const std::optional<mlx::core::array>& weight,
                          float eps);

/// rms_norm(x + residual) and x + residual, added in x's dtype.
std::pair<mlx::core::array, mlx::core::array> add_rms_norm(const mlx::core::array& x,
                                                           const mlx::core::array& residual,
                                                           const std::optional<mlx::core::array>& weight,
                                                           float eps);

/// (x - mean(x)) / sqrt(var(x) + eps) * weight + bias, computed in float32; returns x's dtype.
mlx::core::array layer_norm(const mlx::core::array& x, const std::optional<mlx::core::array>& weight,
                            const std::optional<mlx::core::array>& bias, float eps);

/// x sigmoid(x) up.
mlx::core::array swiglu(const mlx::core::array& gate, const mlx::core::array& up);

/// gelu(gate) up.
mlx::core::array geglu(const mlx::core::array& gate, const mlx::core::array& up, Gelu gelu);

/// As kernels::rope(), rotated in float32.
mlx::core::array rope(const mlx::core::array& x, const Rotation& rotation, int offset);

}  // namespace tessera::kernels::reference
