// Gated activations of MLP blocks.
#pragma once

#include <mlx/array.h>

#include <cstdint>

#include "tessera/kernels/products.h"

namespace tessera::kernels {

// Equal shapes and dtypes; returns them. A pool shares much work among its threads, which changes no bit.
// Differentiable (by the reference). Source: Shazeer 2020. Throws InvalidArgument when operands differ.

/// silu(gate) * up, silu(x) = x * sigmoid(x).
mlx::core::array swiglu(const mlx::core::array& gate, const mlx::core::array& up,
                        const Runtime& runtime = {});

/// The two definitions of gelu in checkpoints (Hendrycks & Gimpel 2016).
enum class Gelu : uint8_t {
  kExact,  // x (1 + erf(x / sqrt(2))) / 2, "gelu"
  kTanh,   // x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2, "gelu_pytorch_tanh", "gelu_new"
};

/// gelu(gate) * up.
mlx::core::array geglu(const mlx::core::array& gate, const mlx::core::array& up, Gelu gelu,
                       const Runtime& runtime = {});

}  // namespace tessera::kernels
