// Normalization.
#pragma once

#include <mlx/array.h>

#include <optional>
#include <utility>

#include "tessera/kernels/products.h"

namespace tessera::kernels {

// Along the last axis, statistics in float32. A pool shares many rows among its threads, which changes no bit.
// All are differentiable (by the reference) and throw InvalidArgument when shapes do not fit.

/// x / sqrt(mean(x^2) + eps) * weight.
/// x [.., E]; weight [E] or absent for no gain; returns the shape and dtype of x.
/// Source: Zhang & Sennrich 2019.
mlx::core::array rms_norm(const mlx::core::array& x, const std::optional<mlx::core::array>& weight, float eps,
                          const Runtime& runtime = {});

/// rms_norm(x + residual) and x + residual, which is read once.
/// x, residual [.., E] of one shape and dtype.
std::pair<mlx::core::array, mlx::core::array> add_rms_norm(const mlx::core::array& x,
                                                           const mlx::core::array& residual,
                                                           const std::optional<mlx::core::array>& weight,
                                                           float eps, const Runtime& runtime = {});

/// (x - mean(x)) / sqrt(var(x) + eps) * weight + bias, var the mean square of x - mean(x).
/// x [.., E]; weight, bias [E] or absent; returns the shape and dtype of x.
/// Source: Ba et al. 2016.
mlx::core::array layer_norm(const mlx::core::array& x, const std::optional<mlx::core::array>& weight,
                            const std::optional<mlx::core::array>& bias, float eps,
                            const Runtime& runtime = {});

}  // namespace tessera::kernels
