// Normalization layers.
#pragma once

#include <mlx/array.h>

#include <optional>
#include <utility>

#include "tessera/kernels/norm.h"

namespace tessera::layers {

/// Root-mean-square normalization with an optional gain [E]; no gain when `weight` is absent.
class RmsNorm {
 public:
  RmsNorm(std::optional<mlx::core::array> weight, float eps, kernels::Runtime runtime = {})
      : weight_(std::move(weight)), eps_(eps), runtime_(std::move(runtime)) {}

  /// x [.., E] -> the same shape and dtype.
  mlx::core::array forward(const mlx::core::array& x) const {
    return kernels::rms_norm(x, weight_, eps_, runtime_);
  }

  const std::optional<mlx::core::array>& weight() const { return weight_; }
  float eps() const { return eps_; }

 private:
  std::optional<mlx::core::array> weight_;
  float eps_;
  kernels::Runtime runtime_;
};

}  // namespace tessera::layers
