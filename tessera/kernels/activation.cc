#include "tessera/kernels/activation.h"

#include "tessera/base/check.h"
#include "tessera/kernels/cpu/elementwise.h"
#include "tessera/kernels/device.h"
#include "tessera/kernels/reference/elementwise.h"
#include "tessera/tensor/shape.h"

namespace tessera::kernels {

namespace mx = mlx::core;

namespace {

void check_operands(const char* operation, const mx::array& gate, const mx::array& up) {
  if (gate.shape() == up.shape() && gate.dtype() == up.dtype()) return;
  base::fail_argument("[kernels.", operation, "] gate ", tensor::to_string(gate.shape()), " and up ",
                      tensor::to_string(up.shape()), " differ in shape or dtype");
}

}  // namespace

mx::array swiglu(const mx::array& gate, const mx::array& up, const Runtime& runtime) {
  check_operands("swiglu", gate, up);
  if (runs_on_cpu(gate)) return cpu::swiglu(gate, up, runtime.pool);
  return reference::swiglu(gate, up);
}

mx::array geglu(const mx::array& gate, const mx::array& up, Gelu gelu, const Runtime& runtime) {
  check_operands("geglu", gate, up);
  if (runs_on_cpu(gate)) return cpu::geglu(gate, up, gelu, runtime.pool);
  return reference::geglu(gate, up, gelu);
}

}  // namespace tessera::kernels
