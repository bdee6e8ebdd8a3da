#include "tessera/layers/embedding.h"

#include <utility>

#include "tessera/kernels/embedding.h"

namespace tessera::layers {

namespace mx = mlx::core;

Embedding::Embedding(tensor::Weight table, mx::Dtype dtype, const kernels::Runtime& runtime)
    : table_(make_matrix(std::move(table), runtime, "layers.embedding")), dtype_(dtype) {}

mx::array Embedding::encode(const mx::array& ids) const {
  return std::visit([&](const auto& table) { return kernels::embedding_rows(ids, table, dtype_); }, table_);
}

mx::array Embedding::as_linear(const mx::array& h) const { return multiply(h, table_); }

}  // namespace tessera::layers
