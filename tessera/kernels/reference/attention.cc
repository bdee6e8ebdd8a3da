#include "tessera/kernels/reference/attention.h"

#include <mlx/fast.h>

namespace tessera::kernels::reference {

namespace mx = mlx::core;

mx::array attention(const mx::array& q, const mx::array& k, const mx::array& v, float scale,
                    const tensor::Mask& mask) {
  using Mode = tensor::Mask::Mode;
  const char* mode = mask.mode == Mode::kCausal ? "causal" : mask.mode == Mode::kArray ? "array" : "";
  return mx::fast::scaled_dot_product_attention(q, k, v, scale, mode, mask.array);
}

}  // namespace tessera::kernels::reference
