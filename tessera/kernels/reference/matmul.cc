#include "tessera/kernels/reference/matmul.h"

#include <mlx/ops.h>

namespace tessera::kernels::reference {

namespace mx = mlx::core;

mx::array quantized_matmul(const mx::array& x, const tensor::QuantizedTensor& w, bool transpose) {
  if (w.mode != "affine") {
    return mx::quantized_matmul(x, w.w, w.scales, w.biases, transpose, w.group_size, w.bits, w.mode);
  }
  // MLX computes in the common dtype of x, scales and biases; float16 scales beside a float32 x are exact.
  return mx::quantized_matmul(x, w.w, mx::astype(w.scales, x.dtype()), mx::astype(*w.biases, x.dtype()),
                              transpose, w.group_size, w.bits);
}

mx::array matmul_transposed(const mx::array& x, const mx::array& w) {
  return mx::matmul(x, mx::transpose(mx::astype(w, x.dtype())));
}

mx::array matmul_untransposed(const mx::array& x, const tensor::Weight& w) {
  if (const auto* dense = std::get_if<mx::array>(&w)) return mx::matmul(x, mx::astype(*dense, x.dtype()));
  return quantized_matmul(x, std::get<tensor::QuantizedTensor>(w), false);
}

}  // namespace tessera::kernels::reference
