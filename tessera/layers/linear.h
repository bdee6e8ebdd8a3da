// A linear layer over a dense or quantized weight.
#pragma once

#include <mlx/array.h>

#include <memory>
#include <optional>
#include <vector>

#include "tessera/layers/matrix.h"

namespace tessera::layers {

/// y = x W^T + b. Immutable after construction; copying shares the arrays.
class Linear {
 public:
  /// weight [out, in]; bias [out] or absent. With a pool the weight is packed for our kernels.
  /// Throws InvalidArgument when they do not fit.
  explicit Linear(tensor::Weight weight, std::optional<mlx::core::array> bias = std::nullopt,
                  std::shared_ptr<base::ThreadPool> pool = nullptr);

  /// x [.., in] -> [.., out] in the dtype of x.
  mlx::core::array forward(const mlx::core::array& x) const;

  /// The layers' results for the same x, computed as one piece of work where all weights are packed.
  static std::vector<mlx::core::array> forward_together(const mlx::core::array& x,
                                                        const std::vector<const Linear*>& layers);

  int in_features() const { return matrix_columns(matrix_); }
  int out_features() const { return matrix_rows(matrix_); }

 private:
  mlx::core::array add_bias(mlx::core::array y) const;

  Matrix matrix_;
  std::optional<mlx::core::array> bias_;
};

}  // namespace tessera::layers
