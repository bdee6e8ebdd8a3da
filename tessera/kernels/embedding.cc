#include "tessera/kernels/embedding.h"

#include <mlx/ops.h>

#include "tessera/kernels/cpu/packed_primitives.h"

namespace tessera::kernels {

namespace mx = mlx::core;

mx::array embedding_rows(const mx::array& ids, const tensor::Weight& table, mx::Dtype dtype) {
  if (const auto* dense = std::get_if<mx::array>(&table)) return mx::astype(mx::take(*dense, ids, 0), dtype);
  tensor::QuantizedTensor rows = std::get<tensor::QuantizedTensor>(table);
  rows.w = mx::take(rows.w, ids, 0);
  rows.scales = mx::take(rows.scales, ids, 0);
  if (rows.biases) rows.biases = mx::take(*rows.biases, ids, 0);
  return tensor::dequantize(rows, dtype);
}

mx::array embedding_rows(const mx::array& ids, const PackedMatrix& table, mx::Dtype dtype) {
  return mx::astype(cpu::packed_rows(ids, table), dtype);
}

}  // namespace tessera::kernels
