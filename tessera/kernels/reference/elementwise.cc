#include "tessera/kernels/reference/elementwise.h"

#include <mlx/ops.h>

namespace tessera::kernels::reference {

namespace mx = mlx::core;

mx::array rms_norm(const mx::array& x, const std::optional<mx::array>& weight, float eps) {
  const mx::array wide = mx::astype(x, mx::float32);
  const mx::array mean_square = mx::mean(mx::square(wide), -1, true);
  mx::array y = mx::multiply(wide, mx::rsqrt(mx::add(mean_square, mx::array(eps))));
  if (weight) y = mx::multiply(y, mx::astype(*weight, mx::float32));
  return mx::astype(y, x.dtype());
}

mx::array swiglu(const mx::array& gate, const mx::array& up) {
  return mx::multiply(mx::multiply(gate, mx::sigmoid(gate)), up);
}

mx::array rope(const mx::array& x, const mx::array& frequencies, int offset) {
  const int length = x.shape(2);
  const int half = frequencies.shape(0);
  const mx::array positions = mx::arange(offset, offset + length, mx::float32);
  const mx::array angles = mx::multiply(mx::expand_dims(positions, 1), mx::expand_dims(frequencies, 0));
  const mx::array cosines = mx::cos(angles);
  const mx::array sines = mx::sin(angles);
  const auto part = [&](int from, int to) {
    return mx::astype(mx::slice(x, {0, 0, 0, from}, {x.shape(0), x.shape(1), length, to}), mx::float32);
  };
  const mx::array a = part(0, half);
  const mx::array b = part(half, 2 * half);
  std::vector<mx::array> parts{mx::subtract(mx::multiply(a, cosines), mx::multiply(b, sines)),
                               mx::add(mx::multiply(a, sines), mx::multiply(b, cosines))};
  if (2 * half < x.shape(3)) parts.push_back(part(2 * half, x.shape(3)));
  return mx::astype(mx::concatenate(parts, 3), x.dtype());
}

}  // namespace tessera::kernels::reference
