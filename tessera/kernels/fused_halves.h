// The two halves of a transformer layer as one piece of work each: attention with its projections, and the
// gated MLP. Between their phases threads meet inside the kernel, where composed operations pay for a
// primitive of MLX each (about 3 microseconds). Each half equals its composed form within the rounding of
// float32 sums (tests/contracts/fused_halves_test.cc); that form is the reference, and the path of
// training. No gradient.
#pragma once

#include <mlx/array.h>

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "tessera/kernels/packed_matrix.h"
#include "tessera/kernels/pages.h"

namespace tessera::kernels {

/// y = x W^T + bias.
struct Projection {
  PackedMatrix matrix;
  std::optional<mlx::core::array> bias;  // [N] float32
};

/// The weights of an attention half. Vectors are evaluated, row-major float32.
struct AttentionHalf {
  std::optional<mlx::core::array> norm;  // [E], gain of the root-mean-square norm in front
  float norm_eps = 0;
  Projection q, k, v, o;         // [H D, E], [Hkv D, E], [Hkv Dv, E], [E, H Dv]
  mlx::core::array frequencies;  // [up to D / 2] of the rotation, as kernels/rope.h
  int n_heads = 0;               // H
  float scale = 1;               // of the scores
};

/// The weights of a gated MLP half: down(silu(gate(x)) * up(x)).
struct MlpHalf {
  std::optional<mlx::core::array> norm;  // [E]
  float norm_eps = 0;
  Projection gate, up, down;  // [I, E], [I, E], [E, I]
};

/// Where a state's rows take the keys and values of new tokens. The writer returns the fence that the
/// state hands to its next reader and writer.
struct KvSlot {
  struct Row {
    std::shared_ptr<const PageTable> table;  // covers the new positions too
    int position;                            // of the first new token; those before it are stored
  };

  PageShape shape;
  std::vector<Row> rows;
  mlx::core::array fence;
  int window = 0;  // a token sees only the newest `window` positions, its own included; 0 = all
};

/// A low-rank term scale (x a^T) b^T that is added to a projection.
struct LowRank {
  mlx::core::array a;  // [r, K] float32
  mlx::core::array b;  // [N, r] float32
  float scale = 1;
};

/// The low-rank terms of one projection: one per row of the batch (rows may differ), or none at all.
using RowAdapters = std::vector<std::optional<LowRank>>;

struct AttentionAdapters {
  RowAdapters q, k, v, o;
};
struct MlpAdapters {
  RowAdapters gate, up, down;
};

/// Evaluates the vectors and puts them in order.
std::shared_ptr<const AttentionHalf> make_attention_half(AttentionHalf half);
std::shared_ptr<const MlpHalf> make_mlp_half(MlpHalf half);

/// Whether attention_half() takes pages of this shape.
bool fits(const AttentionHalf& half, const PageShape& shape);

/// norm, q, k and v projections, rotation, append, causal attention, output projection (+ residual).
/// x         [B, L, E] float32: the newest L tokens of B rows
/// residual  [B, L, E] or absent; without it the result is the half's own contribution
/// returns   [B, L, E] float32 and the fence of the append
/// Throws InvalidArgument on any mismatch. REQUIRES: fits(half, slot.shape).
/// Writes pages: never runs inside `compile` or a checkpoint, and is never merged with another.
std::pair<mlx::core::array, mlx::core::array> attention_half(
    const mlx::core::array& x, std::shared_ptr<const AttentionHalf> half, const KvSlot& slot,
    const std::optional<mlx::core::array>& residual = std::nullopt, const AttentionAdapters& adapters = {});

/// norm, gate and up projections, silu(gate) * up, down projection (+ residual).
/// x, residual [B, L, E] float32; returns [B, L, E] float32. Throws InvalidArgument on any mismatch.
mlx::core::array mlp_half(const mlx::core::array& x, std::shared_ptr<const MlpHalf> half,
                          const std::optional<mlx::core::array>& residual = std::nullopt,
                          const MlpAdapters& adapters = {});

}  // namespace tessera::kernels
