#include "tessera/kernels/rope.h"

#include "tessera/base/check.h"
#include "tessera/kernels/cpu/elementwise.h"
#include "tessera/kernels/device.h"
#include "tessera/kernels/reference/elementwise.h"
#include "tessera/tensor/shape.h"

namespace tessera::kernels {

namespace mx = mlx::core;

mx::array rope(const mx::array& x, const Rotation& rotation, int offset, const Runtime& runtime) {
  const mx::array& frequencies = rotation.frequencies;
  if (x.ndim() != 4 || frequencies.ndim() != 1 || frequencies.dtype() != mx::float32 ||
      2 * frequencies.shape(0) > x.shape(3)) {
    base::fail_argument("[kernels.rope] x ", tensor::to_string(x.shape()), " with frequencies ",
                        tensor::to_string(frequencies.shape()), "; expected [B, H, L, D] and [up to D / 2]");
  }
  if (runs_on_cpu(x)) return cpu::rope(x, rotation, offset, runtime.pool);
  return reference::rope(x, rotation, offset);
}

mx::array rope(const mx::array& x, const mx::array& frequencies, int offset) {
  return rope(x, Rotation{.frequencies = frequencies}, offset);
}

}  // namespace tessera::kernels
