#include "tessera/kernels/matmul.h"

#include <mlx/ops.h>

#include <utility>

#include "tessera/base/check.h"
#include "tessera/kernels/cpu/packed_primitives.h"
#include "tessera/kernels/reference/matmul.h"
#include "tessera/tensor/shape.h"

namespace tessera::kernels {

namespace mx = mlx::core;
using tensor::to_string;

namespace {

void check_columns(const mx::array& x, const PackedMatrix& w) {
  if (x.ndim() >= 1 && x.shape(-1) == w.layout.columns && x.size() > 0) return;
  base::fail_argument("[kernels.packed_matmul] x has shape ", to_string(x.shape()),
                      "; expected a last axis of ", w.layout.columns);
}

}  // namespace

mx::array quantized_matmul(const mx::array& x, const tensor::QuantizedTensor& w, bool transpose) {
  const int inner = transpose ? w.columns() : w.w.shape(-2);
  if (x.ndim() < 1 || x.shape(-1) != inner) {
    base::fail_argument("[kernels.quantized_matmul] x has shape ", to_string(x.shape()),
                        "; expected a last axis of ", inner);
  }
  return reference::quantized_matmul(x, w, transpose);
}

mx::array matmul_transposed(const mx::array& x, const mx::array& w) {
  if (w.ndim() != 2 || x.ndim() < 1 || x.shape(-1) != w.shape(1)) {
    base::fail_argument("[kernels.matmul_transposed] x ", to_string(x.shape()), " against w ",
                        to_string(w.shape()), "; expected [.., K] and [N, K]");
  }
  return reference::matmul_transposed(x, w);
}

mx::array packed_matmul(const mx::array& x, const PackedMatrix& w, const std::optional<mx::array>& residual) {
  check_columns(x, w);
  mx::Shape shape = x.shape();
  shape.back() = w.layout.rows;
  if (residual && residual->shape() != shape) {
    base::fail_argument("[kernels.packed_matmul] residual has shape ", to_string(residual->shape()),
                        "; expected ", to_string(shape));
  }
  return mx::astype(cpu::packed_matmul(x, {w}, residual).front(), x.dtype());
}

std::vector<mx::array> packed_matmul(const mx::array& x, std::vector<PackedMatrix> ws) {
  TESSERA_CHECK(!ws.empty());
  for (const PackedMatrix& w : ws) check_columns(x, w);
  std::vector<mx::array> products = cpu::packed_matmul(x, std::move(ws));
  for (mx::array& product : products) product = mx::astype(product, x.dtype());
  return products;
}

}  // namespace tessera::kernels
