// Rotary position embedding.
#pragma once

#include <mlx/array.h>

#include <cstdint>

#include "tessera/kernels/products.h"

namespace tessera::kernels {

/// Which elements of a head rotate together.
enum class RopePairs : uint8_t {
  kHalves,       // i and i + n: GPT-NeoX and nearly all Hugging Face checkpoints
  kInterleaved,  // 2 i and 2 i + 1: the paper and GPT-J, MLX's "traditional"
};

/// A rotation of n pairs of dims.
struct Rotation {
  mlx::core::array frequencies;  // [n] float32, radians per position
  float scale = 1;               // of the rotated dims
  RopePairs pairs = RopePairs::kHalves;
};

/// Rotates the first 2 n dims of x [B, H, L, D] by the angles (offset + l) * frequencies[i] and scales them;
/// the other dims stay. Returns the shape and dtype of x. Differentiable in x. A pool shares many tokens among
/// its threads, which changes no bit.
/// Throws InvalidArgument when 2 n is larger than D.
/// Source: Su et al. 2021.
mlx::core::array rope(const mlx::core::array& x, const Rotation& rotation, int offset,
                      const Runtime& runtime = {});

/// The same with halves and no scale.
mlx::core::array rope(const mlx::core::array& x, const mlx::core::array& frequencies, int offset);

}  // namespace tessera::kernels
