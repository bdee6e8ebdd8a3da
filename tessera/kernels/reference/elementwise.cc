#include "tessera/kernels/reference/elementwise.h"

#include <mlx/ops.h>

#include <cmath>
#include <numbers>
#include <vector>

namespace tessera::kernels::reference {

namespace mx = mlx::core;

mx::array rms_norm(const mx::array& x, const std::optional<mx::array>& weight, float eps) {
  const mx::array wide = mx::astype(x, mx::float32);
  const mx::array mean_square = mx::mean(mx::square(wide), -1, true);
  mx::array y = mx::multiply(wide, mx::rsqrt(mx::add(mean_square, mx::array(eps))));
  if (weight) y = mx::multiply(y, mx::astype(*weight, mx::float32));
  return mx::astype(y, x.dtype());
}

std::pair<mx::array, mx::array> add_rms_norm(const mx::array& x, const mx::array& residual,
                                             const std::optional<mx::array>& weight, float eps) {
  const mx::array total = mx::add(x, residual);
  return {rms_norm(total, weight, eps), total};
}

mx::array layer_norm(const mx::array& x, const std::optional<mx::array>& weight,
                     const std::optional<mx::array>& bias, float eps) {
  const mx::array wide = mx::astype(x, mx::float32);
  const mx::array centred = mx::subtract(wide, mx::mean(wide, -1, true));
  const mx::array variance = mx::mean(mx::square(centred), -1, true);
  mx::array y = mx::multiply(centred, mx::rsqrt(mx::add(variance, mx::array(eps))));
  if (weight) y = mx::multiply(y, mx::astype(*weight, mx::float32));
  if (bias) y = mx::add(y, mx::astype(*bias, mx::float32));
  return mx::astype(y, x.dtype());
}

mx::array swiglu(const mx::array& gate, const mx::array& up) {
  return mx::multiply(mx::multiply(gate, mx::sigmoid(gate)), up);
}

mx::array geglu(const mx::array& gate, const mx::array& up, Gelu gelu) {
  const auto number = [&](double value) { return mx::array(static_cast<float>(value), gate.dtype()); };
  mx::array share = gate;  // of the gate that passes, twice
  if (gelu == Gelu::kExact) {
    share = mx::erf(mx::multiply(gate, number(1 / std::numbers::sqrt2)));
  } else {
    const mx::array cube = mx::multiply(mx::square(gate), gate);
    const mx::array inner = mx::add(gate, mx::multiply(cube, number(0.044715)));
    share = mx::tanh(mx::multiply(inner, number(std::sqrt(2 / std::numbers::pi))));
  }
  const mx::array half = mx::multiply(gate, number(0.5));
  return mx::multiply(mx::multiply(half, mx::add(share, number(1))), up);
}

mx::array rope(const mx::array& x, const Rotation& rotation, int offset) {
  const int batch = x.shape(0), heads = x.shape(1), length = x.shape(2), dim = x.shape(3);
  const int half = rotation.frequencies.shape(0);
  const mx::array positions = mx::expand_dims(mx::arange(offset, offset + length, mx::float32), 1);
  const mx::array angles = mx::multiply(positions, mx::expand_dims(rotation.frequencies, 0));
  const mx::array scale(rotation.scale);
  const mx::array cosines = mx::multiply(mx::cos(angles), scale);
  const mx::array sines = mx::multiply(mx::sin(angles), scale);
  const auto part = [&](int from, int to, int step = 1) {
    return mx::astype(mx::slice(x, {0, 0, 0, from}, {batch, heads, length, to}, {1, 1, 1, step}),
                      mx::float32);
  };
  const bool is_interleaved = rotation.pairs == RopePairs::kInterleaved;
  const mx::array a = is_interleaved ? part(0, 2 * half, 2) : part(0, half);
  const mx::array b = is_interleaved ? part(1, 2 * half, 2) : part(half, 2 * half);
  std::vector<mx::array> parts{mx::subtract(mx::multiply(a, cosines), mx::multiply(b, sines)),
                               mx::add(mx::multiply(a, sines), mx::multiply(b, cosines))};
  if (is_interleaved) parts = {mx::reshape(mx::stack(parts, 4), {batch, heads, length, 2 * half})};
  if (2 * half < dim) parts.push_back(part(2 * half, dim));
  return mx::astype(mx::concatenate(parts, 3), x.dtype());
}

}  // namespace tessera::kernels::reference
