// A linear layer over a dense or quantized weight.
#pragma once

#include <mlx/array.h>

#include <optional>

#include "tessera/tensor/weight.h"

namespace tessera::layers {

/// y = x W^T + b. Immutable after construction; copying shares the arrays.
class Linear {
 public:
  /// weight [out, in]; bias [out] or absent. Throws InvalidArgument when they do not fit.
  explicit Linear(tensor::Weight weight, std::optional<mlx::core::array> bias = std::nullopt);

  /// x [.., in] -> [.., out] in the dtype of x.
  mlx::core::array forward(const mlx::core::array& x) const;

  int in_features() const { return tensor::weight_columns(weight_); }
  int out_features() const { return tensor::weight_rows(weight_); }
  const tensor::Weight& weight() const { return weight_; }

 private:
  tensor::Weight weight_;
  std::optional<mlx::core::array> bias_;
};

}  // namespace tessera::layers
