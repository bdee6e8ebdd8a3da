// Attention on the CPU: the primitive.
#pragma once

#include <mlx/array.h>

#include <memory>

#include "tessera/base/thread_pool.h"

namespace tessera::kernels::cpu {

/// softmax(scale q k^T + mask) v in float32, scores never in memory as a whole.
/// q [B, H, L, D], k [B, Hkv, N, D], v [B, Hkv, N, Dv], D and Dv multiples of 16; any floating type.
/// Returns float32 [B, H, L, Dv]. Has no gradient.
mlx::core::array attention(const mlx::core::array& q, const mlx::core::array& k, const mlx::core::array& v,
                           float scale, bool is_causal, std::shared_ptr<base::ThreadPool> pool);

}  // namespace tessera::kernels::cpu
