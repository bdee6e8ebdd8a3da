#include "tessera/kernels/norm.h"

#include <mlx/fast.h>
#include <mlx/ops.h>

#include "tessera/base/check.h"
#include "tessera/tensor/shape.h"

namespace tessera::kernels {

namespace mx = mlx::core;

mx::array rms_norm(const mx::array& x, const std::optional<mx::array>& weight, float eps) {
  if (x.ndim() < 1 || (weight && (weight->ndim() != 1 || weight->shape(0) != x.shape(-1)))) {
    base::fail_argument("[kernels.rms_norm] x ", tensor::to_string(x.shape()), " with weight ",
                        weight ? tensor::to_string(weight->shape()) : "none", "; expected [.., E] and [E]");
  }
  // MLX's result takes the common dtype of x and weight; a float32 gain must not widen a bfloat16 stream.
  if (weight && weight->dtype() != x.dtype())
    return mx::fast::rms_norm(x, mx::astype(*weight, x.dtype()), eps);
  return mx::fast::rms_norm(x, weight, eps);
}

}  // namespace tessera::kernels
