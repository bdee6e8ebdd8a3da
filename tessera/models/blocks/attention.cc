#include "tessera/models/blocks/attention.h"

#include <mlx/ops.h>

#include <cmath>
#include <utility>

namespace tessera::models {
namespace {

namespace mx = mlx::core;

/// [B, L, n * D] -> [B, n, L, D].
mx::array split_heads(const mx::array& x, int n, int head_dim) {
  return mx::transpose(mx::reshape(x, {x.shape(0), x.shape(1), n, head_dim}), {0, 2, 1, 3});
}

}  // namespace

Attention::Attention(Weights& weights, const std::string& path, const artifacts::ModelConfig& config,
                     layers::RmsNorm norm, layers::Rope rope)
    : n_heads_(static_cast<int>(config.n_heads)),
      n_kv_heads_(static_cast<int>(config.n_kv_heads)),
      head_dim_(static_cast<int>(config.head_dim)),
      scale_(static_cast<float>(1.0 / std::sqrt(static_cast<double>(config.head_dim)))),
      norm_(std::move(norm)),
      q_proj_(weights.linear(path + ".q_proj", config.hidden_size, config.n_heads * config.head_dim,
                             config.attention_bias)),
      k_proj_(weights.linear(path + ".k_proj", config.hidden_size, config.n_kv_heads * config.head_dim,
                             config.attention_bias)),
      v_proj_(weights.linear(path + ".v_proj", config.hidden_size, config.n_kv_heads * config.head_dim,
                             config.attention_bias)),
      o_proj_(weights.linear(path + ".o_proj", config.n_heads * config.head_dim, config.hidden_size,
                             config.attention_bias)),
      rope_(std::move(rope)) {
  auto q = q_proj_.projection(), k = k_proj_.projection(), v = v_proj_.projection(), o = o_proj_.projection();
  const kernels::Rotation& rotation = rope_.rotation();
  const bool is_plain = rotation.scale == 1 && rotation.pairs == kernels::RopePairs::kHalves;
  if (!q || !k || !v || !o || !is_plain) return;
  fused_ = kernels::make_attention_half({.norm = norm_.weight(),
                                         .norm_eps = norm_.eps(),
                                         .q = std::move(*q),
                                         .k = std::move(*k),
                                         .v = std::move(*v),
                                         .o = std::move(*o),
                                         .frequencies = rotation.frequencies,
                                         .n_heads = n_heads_,
                                         .scale = scale_});
}

mx::array Attention::add_to(const mx::array& hidden, state::AttentionState& state,
                            const ForwardContext& context) const {
  // Committed tokens have the arithmetic of single steps, whatever the state makes of that.
  const bool may_fuse = fused_ && !context.is_composed && context.phase != state::Phase::kCommitted &&
                        hidden.dtype() == mx::float32;
  if (may_fuse) {
    if (const auto slot = state.open_slot(hidden.shape(1))) {
      const auto [result, fence] = kernels::attention_half(hidden, fused_, *slot, hidden);
      state.commit_slot(fence);
      return result;
    }
  }
  return composed(hidden, state, context.phase);
}

mx::array Attention::composed(const mx::array& hidden, state::AttentionState& state,
                              state::Phase phase) const {
  const int offset = state.offset();
  const auto projected =
      layers::Linear::forward_together(norm_.forward(hidden), {&q_proj_, &k_proj_, &v_proj_});
  const mx::array q = rope_.forward(split_heads(projected[0], n_heads_, head_dim_), offset);
  const mx::array k = rope_.forward(split_heads(projected[1], n_kv_heads_, head_dim_), offset);
  const mx::array v = split_heads(projected[2], n_kv_heads_, head_dim_);
  const mx::array attended = state::append(state, phase, k, v)->attend(q, scale_);  // [B, H, L, D]
  const mx::array merged = mx::reshape(mx::transpose(attended, {0, 2, 1, 3}),
                                       {hidden.shape(0), hidden.shape(1), n_heads_ * head_dim_});
  return o_proj_.forward(merged, hidden);
}

}  // namespace tessera::models
