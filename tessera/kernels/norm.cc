#include "tessera/kernels/norm.h"

#include <mlx/ops.h>

#include "tessera/base/check.h"
#include "tessera/kernels/cpu/elementwise.h"
#include "tessera/kernels/device.h"
#include "tessera/kernels/reference/elementwise.h"
#include "tessera/tensor/shape.h"

namespace tessera::kernels {

namespace mx = mlx::core;

mx::array rms_norm(const mx::array& x, const std::optional<mx::array>& weight, float eps) {
  if (x.ndim() < 1 || (weight && (weight->ndim() != 1 || weight->shape(0) != x.shape(-1)))) {
    base::fail_argument("[kernels.rms_norm] x ", tensor::to_string(x.shape()), " with weight ",
                        weight ? tensor::to_string(weight->shape()) : "none", "; expected [.., E] and [E]");
  }
  if (runs_on_cpu(x) && x.shape(-1) % 16 == 0 && x.size() > 0) {
    const auto wide = weight ? std::optional(mx::astype(*weight, mx::float32)) : std::nullopt;
    return cpu::rms_norm(x, wide, eps);
  }
  return reference::rms_norm(x, weight, eps);
}

}  // namespace tessera::kernels
