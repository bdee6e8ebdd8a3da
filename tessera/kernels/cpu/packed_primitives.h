// The CPU primitives over packed matrices; arguments are validated in kernels/matmul.cc and
// kernels/embedding.cc.
#pragma once

#include <mlx/array.h>

#include <optional>
#include <vector>

#include "tessera/kernels/packed_matrix.h"

namespace tessera::kernels::cpu {

/// x W^T for each W of K columns: x [.., K] of any floating type -> [.., N] float32 per matrix.
/// `residual`, of the result's shape, is added to the product with a single matrix.
/// Differentiable in x and the residual.
std::vector<mlx::core::array> packed_matmul(const mlx::core::array& x, std::vector<PackedMatrix> matrices,
                                            const std::optional<mlx::core::array>& residual = std::nullopt);

/// Rows of W: ids [..] -> [.., K] float32; an id outside of the matrix gives NaN.
mlx::core::array packed_rows(const mlx::core::array& ids, const PackedMatrix& matrix);

}  // namespace tessera::kernels::cpu
