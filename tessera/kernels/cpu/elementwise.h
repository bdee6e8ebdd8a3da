// Gating and rotation on the CPU in float32: the primitives between the products. A pool shares much work among
// its threads and may be absent.
#pragma once

#include <mlx/array.h>

#include <memory>

#include "tessera/kernels/activation.h"
#include "tessera/kernels/rope.h"

namespace tessera::kernels::cpu {

/// As kernels/activation.h; float32.
mlx::core::array swiglu(const mlx::core::array& gate, const mlx::core::array& up,
                        std::shared_ptr<base::ThreadPool> pool = nullptr);
mlx::core::array geglu(const mlx::core::array& gate, const mlx::core::array& up, Gelu gelu,
                       std::shared_ptr<base::ThreadPool> pool = nullptr);

/// As kernels/rope.h; x float32 with any strides. Returns a contiguous array.
mlx::core::array rope(const mlx::core::array& x, const Rotation& rotation, int offset,
                      std::shared_ptr<base::ThreadPool> pool = nullptr);

}  // namespace tessera::kernels::cpu
