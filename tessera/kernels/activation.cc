#include "tessera/kernels/activation.h"

#include <mlx/ops.h>

#include "tessera/base/check.h"
#include "tessera/tensor/shape.h"

namespace tessera::kernels {

namespace mx = mlx::core;

mx::array swiglu(const mx::array& gate, const mx::array& up) {
  if (gate.shape() != up.shape()) {
    base::fail_argument("[kernels.swiglu] gate ", tensor::to_string(gate.shape()), " and up ",
                        tensor::to_string(up.shape()), " differ");
  }
  return mx::multiply(mx::multiply(gate, mx::sigmoid(gate)), up);
}

}  // namespace tessera::kernels
