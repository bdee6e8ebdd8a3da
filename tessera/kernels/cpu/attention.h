// Attention on the CPU: the primitives.
#pragma once

#include <mlx/array.h>

#include <optional>

#include "tessera/kernels/attention.h"
#include "tessera/kernels/products.h"

namespace tessera::kernels::cpu {

/// As kernels::attention; Dv a multiple of 16, arguments validated. Copies k and v once into the layout of
/// pages; scores are never in memory as a whole. `mask` is additive float32 [B or 1, H or 1, L, N].
/// Returns float32. The gradient is the reference's.
mlx::core::array attention(const mlx::core::array& q, const mlx::core::array& k, const mlx::core::array& v,
                           float scale, bool is_causal, const std::optional<mlx::core::array>& mask,
                           const Runtime& runtime);

/// As kernels::paged_attention; float32.
mlx::core::array paged_attention(const mlx::core::array& q, const PagedKeys& keys, float scale,
                                 bool is_causal, std::shared_ptr<base::ThreadPool> pool);

}  // namespace tessera::kernels::cpu
