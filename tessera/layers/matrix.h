// The weight of a linear layer or an embedding as a layer holds it: packed for our kernels where they
// take it, else as it was stored.
#pragma once

#include <optional>
#include <variant>

#include "tessera/kernels/packed_matrix.h"
#include "tessera/tensor/weight.h"

namespace tessera::layers {

using Matrix = std::variant<kernels::PackedMatrix, tensor::Weight>;

/// Validates and packs; without a pool, or where our kernels do not fit, keeps the weight.
/// Throws InvalidArgument or Unsupported beginning with "[`where`]".
Matrix make_matrix(tensor::Weight weight, const kernels::Runtime& runtime, const char* where);

/// x [.., K] -> x W^T [.., N], plus residual [.., N] where there is one.
mlx::core::array multiply(const mlx::core::array& x, const Matrix& matrix,
                          const std::optional<mlx::core::array>& residual = std::nullopt);

int matrix_rows(const Matrix& matrix);
int matrix_columns(const Matrix& matrix);

}  // namespace tessera::layers
