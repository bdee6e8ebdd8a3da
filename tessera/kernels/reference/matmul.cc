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

mx::array round_activations(const mx::array& x, Products products, int group) {
  const mx::array wide = mx::astype(x, mx::float32);
  if (products == Products::kFloat32) return wide;
  if (products == Products::kBFloat16) return mx::astype(mx::astype(wide, mx::bfloat16), mx::float32);
  const mx::array groups = mx::unflatten(wide, -1, {-1, group});
  const mx::array unit = mx::multiply(mx::max(mx::abs(groups), -1, true), mx::array(1.0F / 127));
  const mx::array inverse =
      mx::where(mx::greater(unit, mx::array(0.0F)), mx::divide(mx::array(1.0F), unit), mx::array(0.0F));
  return mx::reshape(mx::multiply(mx::round(mx::multiply(groups, inverse)), unit), x.shape());
}

}  // namespace tessera::kernels::reference
