// Products with a weight matrix, dense or quantized.
#pragma once

#include <mlx/array.h>

#include <optional>
#include <vector>

#include "tessera/kernels/packed_matrix.h"
#include "tessera/tensor/quantized_tensor.h"

namespace tessera::kernels {

/// x w^T (transpose = true) or x w (transpose = false) with an affine or floating-point quantized w.
/// x        [.., K] (transpose) or [.., N]; float16, bfloat16 or float32
/// w        QuantizedTensor of [N, K]
/// returns  [.., N] (transpose) or [.., K], dtype of x
/// Throws InvalidArgument on a shape mismatch, Unsupported for a mode MLX does not have.
/// Source: MLX `quantized_matmul`; transpose = false is the gradient with respect to x.
mlx::core::array quantized_matmul(const mlx::core::array& x, const tensor::QuantizedTensor& w,
                                  bool transpose = true);

/// x w^T with a dense w.
/// x [.., K], w [N, K]; returns [.., N] in the dtype of x. Throws InvalidArgument on a mismatch.
mlx::core::array matmul_transposed(const mlx::core::array& x, const mlx::core::array& w);

/// x w^T (+ residual) with a packed w: x rounded as w.runtime.products says, each stored value used as it
/// is, sums in float32.
/// x [.., K] of any floating type, residual [.., N]; returns [.., N] in the dtype of x.
/// Differentiable in x and the residual; the rounding of x counts as the identity.
/// Throws InvalidArgument on a mismatch.
mlx::core::array packed_matmul(const mlx::core::array& x, const PackedMatrix& w,
                               const std::optional<mlx::core::array>& residual = std::nullopt);

/// The same x with several matrices of K columns, as one piece of work: threads are woken once.
/// Returns one product per matrix. REQUIRES: at least one matrix; all were packed with the same pool.
std::vector<mlx::core::array> packed_matmul(const mlx::core::array& x, std::vector<PackedMatrix> ws);

}  // namespace tessera::kernels
