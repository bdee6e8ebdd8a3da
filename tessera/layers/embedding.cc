#include "tessera/layers/embedding.h"

#include <utility>

#include "tessera/kernels/embedding.h"
#include "tessera/kernels/matmul.h"

namespace tessera::layers {

namespace mx = mlx::core;

Embedding::Embedding(tensor::Weight table, mx::Dtype dtype) : table_(std::move(table)), dtype_(dtype) {
  if (const auto* quantized = std::get_if<tensor::QuantizedTensor>(&table_)) {
    tensor::validate(*quantized, "layers.embedding");
  }
}

mx::array Embedding::encode(const mx::array& ids) const {
  return kernels::embedding_rows(ids, table_, dtype_);
}

mx::array Embedding::as_linear(const mx::array& h) const {
  if (const auto* dense = std::get_if<mx::array>(&table_)) return kernels::matmul_transposed(h, *dense);
  return kernels::quantized_matmul(h, std::get<tensor::QuantizedTensor>(table_));
}

}  // namespace tessera::layers
