// Memory for arrays that are filled before they exist.
#pragma once

#include <mlx/allocator.h>

#include <cstddef>

namespace tessera::tensor {

/// Memory of MLX's allocator for an array of `bytes`.
/// Throws ResourceExhausted when there is none: MLX's CPU allocator returns null then.
mlx::core::allocator::Data allocate(std::size_t bytes);

}  // namespace tessera::tensor
