// Attention in plain MLX operations: fallback, gradient and oracle in one.
#pragma once

#include <mlx/array.h>

#include "tessera/tensor/mask.h"

namespace tessera::kernels::reference {

mlx::core::array attention(const mlx::core::array& q, const mlx::core::array& k, const mlx::core::array& v,
                           float scale, const tensor::Mask& mask);

}  // namespace tessera::kernels::reference
