#include "tessera/kernels/attention.h"

#include <mlx/ops.h>

#include <limits>

#include "tessera/base/check.h"
#include "tessera/kernels/cpu/attention.h"
#include "tessera/kernels/device.h"
#include "tessera/kernels/reference/attention.h"
#include "tessera/tensor/shape.h"

namespace tessera::kernels {

namespace mx = mlx::core;

namespace {

/// Additive float32 [B or 1, H or 1, L, N].
mx::array additive(const mx::array& mask, int length, int stored) {
  mx::array wide = mask.dtype() == mx::bool_
                       ? mx::where(mask, mx::array(0.0F), mx::array(-std::numeric_limits<float>::infinity()))
                       : mx::astype(mask, mx::float32);
  while (wide.ndim() < 4) wide = mx::expand_dims(wide, 0);
  return mx::broadcast_to(wide, {wide.shape(0), wide.shape(1), length, stored});
}

/// bool [L, N] of the newest L positions: the words of a mask within a window.
mx::array window_mask(int length, int stored, int window, bool is_causal) {
  const mx::array query = mx::expand_dims(mx::arange(stored - length, stored, mx::int32), 1);
  const mx::array key = mx::expand_dims(mx::arange(stored, mx::int32), 0);
  const mx::array is_recent = mx::greater(key, mx::subtract(query, mx::array(window)));
  return is_causal ? mx::logical_and(is_recent, mx::less_equal(key, query)) : is_recent;
}

}  // namespace

mx::array attention(const mx::array& q, const mx::array& k, const mx::array& v, float scale,
                    const tensor::Mask& mask, const Runtime& runtime) {
  const auto refuse = [&](const char* expected) {
    base::fail_argument("[kernels.attention] q ", tensor::to_string(q.shape()), ", k ",
                        tensor::to_string(k.shape()), ", v ", tensor::to_string(v.shape()), "; expected ",
                        expected);
  };
  if (q.ndim() != 4 || k.ndim() != 4 || v.ndim() != 4) refuse("rank 4");
  if (q.shape(0) != k.shape(0) || q.shape(0) != v.shape(0)) refuse("equal batch sizes");
  if (q.shape(3) != k.shape(3)) refuse("equal head dims of q and k");
  if (k.shape(1) != v.shape(1) || k.shape(2) != v.shape(2)) refuse("as many keys as values");
  if (k.shape(1) == 0 || q.shape(1) % k.shape(1) != 0) refuse("query heads to be a multiple of KV heads");
  if (mask.mode == tensor::Mask::Mode::kCausal && q.shape(2) > k.shape(2)) {
    refuse("at least as many keys as queries under a causal mask");
  }
  const bool fits = runtime.pool && runs_on_cpu(q) && runs_on_cpu(k) && runs_on_cpu(v) && k.shape(2) > 0 &&
                    v.shape(3) % 16 == 0;
  if (!fits) return reference::attention(q, k, v, scale, mask);
  std::optional<mx::array> array;
  if (mask.mode == tensor::Mask::Mode::kArray) array = additive(*mask.array, q.shape(2), k.shape(2));
  return mx::astype(cpu::attention(q, k, v, scale, mask.mode == tensor::Mask::Mode::kCausal, array, runtime),
                    q.dtype());
}

mx::array paged_attention(const mx::array& q, const PagedKeys& keys, float scale, const tensor::Mask& mask,
                          const Runtime& runtime) {
  const PageShape& shape = keys.shape;
  const bool is_causal = mask.mode == tensor::Mask::Mode::kCausal;
  if (q.ndim() != 4 || q.shape(0) != 1 || q.shape(3) != shape.key_dim || shape.n_kv_heads == 0 ||
      q.shape(1) % shape.n_kv_heads != 0 || q.shape(2) < 1 || q.shape(2) > keys.length ||
      mask.mode == tensor::Mask::Mode::kArray) {
    base::fail_argument("[kernels.paged_attention] q ", tensor::to_string(q.shape()), " against ",
                        keys.length, " positions of ", shape.n_kv_heads, " KV heads of ", shape.key_dim,
                        "; expected [1, H, L, D] and no array mask");
  }
  if (runtime.pool && runs_on_cpu(q) && shape.is_readable_in_place())
    return mx::astype(cpu::paged_attention(q, keys, scale, is_causal, runtime.pool), q.dtype());
  const auto [k, v] = gather_pages(shape, keys.table, 0, keys.length, keys.fence);
  const tensor::Mask words =
      keys.window > 0 ? tensor::Mask::of(window_mask(q.shape(2), keys.length, keys.window, is_causal)) : mask;
  return attention(q, mx::astype(k, q.dtype()), mx::astype(v, q.dtype()), scale, words, runtime);
}

}  // namespace tessera::kernels
