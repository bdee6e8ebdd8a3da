// The weight of a linear layer or an embedding: dense or quantized.
#pragma once

#include <mlx/array.h>

#include <variant>

#include "tessera/tensor/quantized_tensor.h"

namespace tessera::tensor {

/// A matrix [out, in]; quantized groups run along `in`.
using Weight = std::variant<mlx::core::array, QuantizedTensor>;

inline int weight_rows(const Weight& weight) {
  return std::visit(
      [](const auto& w) {
        if constexpr (std::is_same_v<std::decay_t<decltype(w)>, QuantizedTensor>)
          return w.w.shape(-2);
        else
          return w.shape(-2);
      },
      weight);
}

inline int weight_columns(const Weight& weight) {
  return std::visit(
      [](const auto& w) {
        if constexpr (std::is_same_v<std::decay_t<decltype(w)>, QuantizedTensor>)
          return w.columns();
        else
          return w.shape(-1);
      },
      weight);
}

}  // namespace tessera::tensor
