#include "tessera/kernels/rope.h"

#include <mlx/fast.h>

#include "tessera/base/check.h"
#include "tessera/tensor/shape.h"

namespace tessera::kernels {

namespace mx = mlx::core;

mx::array rope(const mx::array& x, const RopeParameters& parameters, int offset) {
  if (x.ndim() != 4 || parameters.dims <= 0 || parameters.dims % 2 != 0 || parameters.dims > x.shape(3)) {
    base::fail_argument("[kernels.rope] x ", tensor::to_string(x.shape()), " with ", parameters.dims,
                        " rotated dims; expected [B, H, L, D] and an even number up to D");
  }
  const std::optional<float> theta = parameters.periods ? std::nullopt : std::optional(parameters.theta);
  return mx::fast::rope(x, parameters.dims, parameters.is_interleaved, theta, parameters.position_scale,
                        offset, parameters.periods);
}

}  // namespace tessera::kernels
