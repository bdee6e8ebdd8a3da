// The weight of a linear layer or an embedding as a layer holds it: packed for our kernels where they
// take it, else as it was stored.
#pragma once

#include <memory>
#include <variant>

#include "tessera/base/thread_pool.h"
#include "tessera/kernels/packed_matrix.h"
#include "tessera/tensor/weight.h"

namespace tessera::layers {

using Matrix = std::variant<kernels::PackedMatrix, tensor::Weight>;

/// Validates and packs; without a pool, or where our kernels do not fit, keeps the weight.
/// Throws InvalidArgument or Unsupported beginning with "[`where`]".
Matrix make_matrix(tensor::Weight weight, std::shared_ptr<base::ThreadPool> pool, const char* where);

/// x [.., K] -> x W^T [.., N].
mlx::core::array multiply(const mlx::core::array& x, const Matrix& matrix);

int matrix_rows(const Matrix& matrix);
int matrix_columns(const Matrix& matrix);

}  // namespace tessera::layers
