// Gated activations of MLP blocks.
#pragma once

#include <mlx/array.h>

namespace tessera::kernels {

/// silu(gate) * up, silu(x) = x * sigmoid(x). Equal shapes; returns their shape and dtype.
/// Source: Shazeer 2020, SwiGLU.
mlx::core::array swiglu(const mlx::core::array& gate, const mlx::core::array& up);

}  // namespace tessera::kernels
