// Scaled dot-product attention over plain keys and values.
#pragma once

#include <mlx/array.h>

#include <memory>

#include "tessera/base/thread_pool.h"
#include "tessera/tensor/mask.h"

namespace tessera::kernels {

/// softmax(scale * q k^T + mask) v, softmax in float32.
/// q        [B, H, L, D]
/// k        [B, Hkv, N, D], v [B, Hkv, N, Dv]; query head h reads KV head h / (H / Hkv)
/// returns  [B, H, L, Dv] in the dtype of q
/// REQUIRES: H % Hkv == 0; L <= N when the mask is causal.
/// Throws InvalidArgument on any mismatch.
/// On a CPU with a pool, float32, head dims that are multiples of 16 and no array mask, our own kernel
/// runs and scores are never held; else the reference holds them, [B, H, L, N]. Our kernel has no gradient.
/// Causal is bottom-right aligned.
mlx::core::array attention(const mlx::core::array& q, const mlx::core::array& k, const mlx::core::array& v,
                           float scale, const tensor::Mask& mask,
                           const std::shared_ptr<base::ThreadPool>& pool = nullptr);

}  // namespace tessera::kernels
