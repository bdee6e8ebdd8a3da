// The products of kernels/matmul.h in plain MLX operations: fallback, gradient and oracle in one.
#pragma once

#include <mlx/array.h>

#include "tessera/kernels/products.h"
#include "tessera/tensor/weight.h"

namespace tessera::kernels::reference {

mlx::core::array quantized_matmul(const mlx::core::array& x, const tensor::QuantizedTensor& w,
                                  bool transpose);
mlx::core::array matmul_transposed(const mlx::core::array& x, const mlx::core::array& w);

/// x W for a dense or quantized W [N, K]: x [.., N] -> [.., K]. The gradient of x W^T.
mlx::core::array matmul_untransposed(const mlx::core::array& x, const tensor::Weight& w);

/// What the activations of a product become: x [.., K] in float32, rounded as `products` say. `group` is
/// the weight's group size, K for a dense weight.
mlx::core::array round_activations(const mlx::core::array& x, Products products, int group);

}  // namespace tessera::kernels::reference
