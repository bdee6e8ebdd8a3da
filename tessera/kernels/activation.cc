#include "tessera/kernels/activation.h"

#include "tessera/base/check.h"
#include "tessera/kernels/cpu/elementwise.h"
#include "tessera/kernels/device.h"
#include "tessera/kernels/reference/elementwise.h"
#include "tessera/tensor/shape.h"

namespace tessera::kernels {

namespace mx = mlx::core;

mx::array swiglu(const mx::array& gate, const mx::array& up) {
  if (gate.shape() != up.shape()) {
    base::fail_argument("[kernels.swiglu] gate ", tensor::to_string(gate.shape()), " and up ",
                        tensor::to_string(up.shape()), " differ");
  }
  if (runs_on_cpu(gate) && runs_on_cpu(up)) return cpu::swiglu(gate, up);
  return reference::swiglu(gate, up);
}

}  // namespace tessera::kernels
