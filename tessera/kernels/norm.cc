#include "tessera/kernels/norm.h"

#include <mlx/ops.h>

#include "tessera/base/check.h"
#include "tessera/kernels/cpu/norm.h"
#include "tessera/kernels/device.h"
#include "tessera/kernels/reference/elementwise.h"
#include "tessera/tensor/shape.h"

namespace tessera::kernels {

namespace mx = mlx::core;

namespace {

void check_vector(const char* operation, const char* name, const mx::array& x,
                  const std::optional<mx::array>& vector) {
  if (x.ndim() >= 1 && (!vector || (vector->ndim() == 1 && vector->shape(0) == x.shape(-1)))) return;
  base::fail_argument("[kernels.", operation, "] x ", tensor::to_string(x.shape()), " with ", name, " ",
                      vector ? tensor::to_string(vector->shape()) : "none", "; expected [.., E] and [E]");
}

std::optional<mx::array> widened(const std::optional<mx::array>& vector) {
  return vector ? std::optional(mx::astype(*vector, mx::float32)) : std::nullopt;
}

bool is_ours(const mx::array& x) { return runs_on_cpu(x) && x.size() > 0; }

}  // namespace

mx::array rms_norm(const mx::array& x, const std::optional<mx::array>& weight, float eps,
                   const Runtime& runtime) {
  check_vector("rms_norm", "weight", x, weight);
  if (is_ours(x)) return cpu::rms_norm(x, widened(weight), eps, runtime.pool);
  return reference::rms_norm(x, weight, eps);
}

std::pair<mx::array, mx::array> add_rms_norm(const mx::array& x, const mx::array& residual,
                                             const std::optional<mx::array>& weight, float eps,
                                             const Runtime& runtime) {
  check_vector("add_rms_norm", "weight", x, weight);
  if (residual.shape() != x.shape() || residual.dtype() != x.dtype()) {
    base::fail_argument("[kernels.add_rms_norm] x ", tensor::to_string(x.shape()), " and residual ",
                        tensor::to_string(residual.shape()), "; expected one shape and dtype");
  }
  if (is_ours(x)) return cpu::add_rms_norm(x, residual, widened(weight), eps, runtime.pool);
  return reference::add_rms_norm(x, residual, weight, eps);
}

mx::array layer_norm(const mx::array& x, const std::optional<mx::array>& weight,
                     const std::optional<mx::array>& bias, float eps, const Runtime& runtime) {
  check_vector("layer_norm", "weight", x, weight);
  check_vector("layer_norm", "bias", x, bias);
  if (is_ours(x)) return cpu::layer_norm(x, widened(weight), widened(bias), eps, runtime.pool);
  return reference::layer_norm(x, weight, bias, eps);
}

}  // namespace tessera::kernels
