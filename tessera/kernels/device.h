// Where an operation will run.
#pragma once

#include <mlx/array.h>
#include <mlx/device.h>

namespace tessera::kernels {

/// Whether our CPU kernels, which compute in float32, take `x`.
inline bool runs_on_cpu(const mlx::core::array& x) {
  return x.dtype() == mlx::core::float32 && mlx::core::default_device() == mlx::core::Device::cpu;
}

}  // namespace tessera::kernels
