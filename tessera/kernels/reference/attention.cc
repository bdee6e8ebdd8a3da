#include "tessera/kernels/reference/attention.h"

#include <mlx/ops.h>

#include <limits>

namespace tessera::kernels::reference {

namespace mx = mlx::core;

mx::array attention(const mx::array& q, const mx::array& k, const mx::array& v, float scale,
                    const tensor::Mask& mask) {
  const int batch = q.shape(0), heads = q.shape(1), length = q.shape(2), stored = k.shape(2);
  const int kv_heads = k.shape(1), rep = heads / kv_heads;
  // [B, Hkv, rep, L, D] against [B, Hkv, 1, N, D]: a query head reads KV head h / rep.
  const mx::array queries =
      mx::reshape(mx::multiply(q, mx::array(scale, q.dtype())), {batch, kv_heads, rep, length, q.shape(3)});
  const mx::array keys = mx::expand_dims(k, 2);
  mx::array scores = mx::astype(mx::matmul(queries, mx::swapaxes(keys, -1, -2)), mx::float32);
  if (mask.mode == tensor::Mask::Mode::kCausal) {
    const mx::array rows = mx::expand_dims(mx::arange(stored - length, stored, mx::int32), 1);
    const mx::array columns = mx::expand_dims(mx::arange(stored, mx::int32), 0);
    scores =
        mx::where(mx::greater_equal(rows, columns), scores, mx::array(std::numeric_limits<float>::lowest()));
  } else if (mask.mode == tensor::Mask::Mode::kArray) {
    // [.., H, L, N] splits its heads as the scores do; one head serves all.
    mx::array array = *mask.array;
    while (array.ndim() < 4) array = mx::expand_dims(array, 0);
    array = array.shape(1) == 1
                ? mx::expand_dims(array, 1)
                : mx::reshape(array, {array.shape(0), kv_heads, rep, array.shape(2), array.shape(3)});
    scores = array.dtype() == mx::bool_
                 ? mx::where(array, scores, mx::array(std::numeric_limits<float>::lowest()))
                 : mx::add(scores, mx::astype(array, mx::float32));
  }
  const mx::array probabilities = mx::astype(mx::softmax(scores, -1, true), q.dtype());
  const mx::array attended = mx::matmul(probabilities, mx::expand_dims(v, 2));
  return mx::reshape(attended, {batch, heads, length, v.shape(3)});
}

}  // namespace tessera::kernels::reference
