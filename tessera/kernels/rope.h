// Rotary position embedding.
#pragma once

#include <mlx/array.h>

namespace tessera::kernels {

/// Rotates the first 2 n dims of x [B, H, L, D]: dims i and i + n together, by the angle
/// (offset + l) * frequencies[i] in radians.
/// frequencies [n] float32; returns the shape and dtype of x.
/// Throws InvalidArgument when 2 n is larger than D.
/// Source: Su et al. 2021, with the halves of GPT-NeoX and the Hugging Face checkpoints.
mlx::core::array rope(const mlx::core::array& x, const mlx::core::array& frequencies, int offset);

}  // namespace tessera::kernels
