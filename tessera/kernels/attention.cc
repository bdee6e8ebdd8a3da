#include "tessera/kernels/attention.h"

#include "tessera/base/check.h"
#include "tessera/kernels/cpu/attention.h"
#include "tessera/kernels/device.h"
#include "tessera/kernels/reference/attention.h"
#include "tessera/tensor/shape.h"

namespace tessera::kernels {

namespace mx = mlx::core;

mx::array attention(const mx::array& q, const mx::array& k, const mx::array& v, float scale,
                    const tensor::Mask& mask, const std::shared_ptr<base::ThreadPool>& pool) {
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
  const bool fits = pool && runs_on_cpu(q) && runs_on_cpu(k) && runs_on_cpu(v) && k.shape(2) > 0 &&
                    q.shape(3) % 16 == 0 && v.shape(3) % 16 == 0 && mask.mode != tensor::Mask::Mode::kArray;
  if (fits) return cpu::attention(q, k, v, scale, mask.mode == tensor::Mask::Mode::kCausal, pool);
  return reference::attention(q, k, v, scale, mask);
}

}  // namespace tessera::kernels
