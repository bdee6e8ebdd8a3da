// Normalization.
#pragma once

#include <mlx/array.h>

#include <optional>

namespace tessera::kernels {

/// x / sqrt(mean(x^2) + eps) * weight along the last axis, the mean in float32.
/// x [.., E]; weight [E] or absent for no gain; returns the shape and dtype of x.
/// Throws InvalidArgument when the weight does not fit.
/// Source: Zhang & Sennrich 2019.
mlx::core::array rms_norm(const mlx::core::array& x, const std::optional<mlx::core::array>& weight,
                          float eps);

}  // namespace tessera::kernels
