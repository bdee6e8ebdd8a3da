#include "tessera/tensor/shape.h"

#include <mlx/utils.h>

#include <sstream>

namespace tessera::tensor {

std::string to_string(const mlx::core::Shape& shape) {
  std::string text = "[";
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (i > 0) text += ", ";
    text += std::to_string(shape[i]);
  }
  return text + "]";
}

std::string to_string(mlx::core::Dtype dtype) {
  std::ostringstream text;
  text << dtype;
  return text.str();
}

}  // namespace tessera::tensor
