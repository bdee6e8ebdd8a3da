// Shapes and dtypes in words, for error messages.
#pragma once

#include <mlx/array.h>

#include <string>

namespace tessera::tensor {

/// "[2, 3, 64]".
std::string to_string(const mlx::core::Shape& shape);

/// "float32", "bfloat16", ...
std::string to_string(mlx::core::Dtype dtype);

}  // namespace tessera::tensor
