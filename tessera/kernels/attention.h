// Scaled dot-product attention over plain keys and values.
#pragma once

#include <mlx/array.h>

#include "tessera/tensor/mask.h"

namespace tessera::kernels {

/// softmax(scale * q k^T + mask) v, softmax in float32.
/// q        [B, H, L, D]
/// k        [B, Hkv, N, D], v [B, Hkv, N, Dv]; query head h reads KV head h / (H / Hkv)
/// returns  [B, H, L, Dv] in the dtype of q
/// REQUIRES: H % Hkv == 0; L <= N when the mask is causal.
/// Throws InvalidArgument on any mismatch.
/// Memory: the reference holds the scores [B, H, L, N].
/// Source: MLX `fast::scaled_dot_product_attention`; causal is bottom-right aligned.
mlx::core::array attention(const mlx::core::array& q, const mlx::core::array& k, const mlx::core::array& v,
                           float scale, const tensor::Mask& mask);

}  // namespace tessera::kernels
