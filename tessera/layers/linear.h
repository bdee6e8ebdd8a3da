// A linear layer over a dense or quantized weight.
#pragma once

#include <mlx/array.h>

#include <optional>
#include <vector>

#include "tessera/kernels/fused_halves.h"
#include "tessera/layers/matrix.h"

namespace tessera::layers {

/// y = x W^T + b. Immutable after construction; copying shares the arrays.
class Linear {
 public:
  /// weight [out, in]; bias [out] or absent. With a pool in `runtime` the weight is packed for our kernels.
  /// Throws InvalidArgument when they do not fit.
  explicit Linear(tensor::Weight weight, std::optional<mlx::core::array> bias = std::nullopt,
                  const kernels::Runtime& runtime = {});

  /// x [.., in] -> [.., out] in the dtype of x, plus residual [.., out] where there is one.
  mlx::core::array forward(const mlx::core::array& x,
                           const std::optional<mlx::core::array>& residual = std::nullopt) const;

  /// The layers' results for the same x, computed as one piece of work where all weights are packed.
  static std::vector<mlx::core::array> forward_together(const mlx::core::array& x,
                                                        const std::vector<const Linear*>& layers);

  /// The layer as a fused kernel takes it; absent when its weight is not packed.
  std::optional<kernels::Projection> projection() const;

  int in_features() const { return matrix_columns(matrix_); }
  int out_features() const { return matrix_rows(matrix_); }

 private:
  mlx::core::array add_bias(mlx::core::array y) const;

  Matrix matrix_;
  std::optional<mlx::core::array> bias_;
};

}  // namespace tessera::layers
