// Arrays over memory that MLX did not allocate: memory-mapped files.
#pragma once

#include <mlx/array.h>

#include <memory>

namespace tessera::tensor {

/// An evaluated, row-contiguous array over `data`, which `owner` keeps alive; nothing is copied.
/// MLX neither counts such memory nor donates it to other operations, so read-only memory is safe.
/// REQUIRES: `data` is aligned to the element size, and the 8 bytes before it are readable (MLX's
/// CPU buffers start with their size). Throws Unsupported on a backend whose buffers are not plain
/// pointers.
mlx::core::array external_array(const void* data, mlx::core::Shape shape, mlx::core::Dtype dtype,
                                std::shared_ptr<const void> owner);

}  // namespace tessera::tensor
