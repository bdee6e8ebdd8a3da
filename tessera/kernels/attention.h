// Scaled dot-product attention over plain keys and values.
#pragma once

#include <mlx/array.h>

#include <memory>

#include "tessera/kernels/pages.h"
#include "tessera/kernels/products.h"
#include "tessera/tensor/mask.h"

namespace tessera::kernels {

/// softmax(scale * q k^T + mask) v, softmax in float32.
/// q        [B, H, L, D]
/// k        [B, Hkv, N, D], v [B, Hkv, N, Dv]; query head h reads KV head h / (H / Hkv)
/// returns  [B, H, L, Dv] in the dtype of q
/// REQUIRES: H % Hkv == 0; L <= N when the mask is causal. Causal is bottom-right aligned.
/// Throws InvalidArgument on any mismatch.
/// On a CPU with a pool and Dv a multiple of 16 our own kernel runs and scores are never held; else the
/// reference holds them, [B, H, L, N]. Products other than float32 round q, k, v and the probabilities to
/// bfloat16 there. A query that sees no key gives 0 in our kernel. Differentiable (by the reference).
mlx::core::array attention(const mlx::core::array& q, const mlx::core::array& k, const mlx::core::array& v,
                           float scale, const tensor::Mask& mask, const Runtime& runtime = {});

/// The keys and values of one row as a state holds them.
struct PagedKeys {
  PageShape shape;
  std::shared_ptr<const PageTable> table;
  int length;              // positions stored
  mlx::core::array fence;  // of the last write
  int window = 0;          // a query sees only the newest `window` positions, its own included; 0 = all
};

/// Attention of the newest L positions' queries over a row's pages, read in place.
/// q [1, H, L, D]; the mask is the word "none" or "causal"; returns [1, H, L, Dv] in the dtype of q.
/// In bfloat16 pages q and the probabilities are rounded to bfloat16 too. Has no gradient.
/// Without a pool, or where keys.shape.is_readable_in_place() is false, the pages are gathered for
/// attention().
/// Throws InvalidArgument on any mismatch.
mlx::core::array paged_attention(const mlx::core::array& q, const PagedKeys& keys, float scale,
                                 const tensor::Mask& mask, const Runtime& runtime = {});

}  // namespace tessera::kernels
