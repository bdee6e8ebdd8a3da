#include "tessera/artifacts/weight_names.h"

#include <algorithm>
#include <limits>

#include "tessera/artifacts/gguf.h"
#include "tessera/base/check.h"

namespace tessera::artifacts {
namespace {

struct NameRow {
  std::string_view gguf;
  std::string_view canonical;
};

/// Outside the blocks; whole names without ".weight" or ".bias".
constexpr NameRow kModelNames[] = {
    {"token_embd", "model.embed_tokens"},
    {"output_norm", "model.norm"},
    {"output", "lm_head"},
};

/// Inside block N: after "blk.N." and "model.layers.N.".
constexpr NameRow kBlockNames[] = {
    {"attn_q", "self_attn.q_proj"},      {"attn_k", "self_attn.k_proj"},
    {"attn_v", "self_attn.v_proj"},      {"attn_output", "self_attn.o_proj"},
    {"attn_qkv", "self_attn.qkv_proj"},  {"attn_q_norm", "self_attn.q_norm"},
    {"attn_k_norm", "self_attn.k_norm"}, {"ffn_gate", "mlp.gate_proj"},
    {"ffn_up", "mlp.up_proj"},           {"ffn_down", "mlp.down_proj"},
};

constexpr NameRow kNormsBefore[] = {
    {"attn_norm", "input_layernorm"},
    {"ffn_norm", "post_attention_layernorm"},
};
constexpr NameRow kNormsAfter[] = {
    {"post_attention_norm", "post_attention_layernorm"},
    {"post_ffw_norm", "post_feedforward_layernorm"},
};
constexpr NameRow kNormsSandwich[] = {
    {"attn_norm", "input_layernorm"},
    {"post_attention_norm", "post_attention_layernorm"},
    {"ffn_norm", "pre_feedforward_layernorm"},
    {"post_ffw_norm", "post_feedforward_layernorm"},
};
constexpr NameRow kNormsSandwichSelfAttention[] = {
    {"attn_norm", "input_layernorm"},
    {"post_attention_norm", "post_self_attn_layernorm"},
    {"ffn_norm", "post_attention_layernorm"},
    {"post_ffw_norm", "post_mlp_layernorm"},
};

std::span<const NameRow> norm_rows(NormPlacement norms) {
  switch (norms) {
    case NormPlacement::kBefore: return kNormsBefore;
    case NormPlacement::kAfter: return kNormsAfter;
    case NormPlacement::kSandwich: return kNormsSandwich;
    case NormPlacement::kSandwichSelfAttention: return kNormsSandwichSelfAttention;
  }
  base::check_failed("norm placement is listed", __FILE__, __LINE__);
}

using Column = std::string_view NameRow::*;

/// The other column of the row whose `from` column is `name`, or empty.
std::string_view translate(std::span<const NameRow> rows, std::string_view name, Column from, Column to) {
  const auto row = std::find_if(rows.begin(), rows.end(), [&](const NameRow& r) { return r.*from == name; });
  return row == rows.end() ? std::string_view() : (*row).*to;
}

/// Splits ".weight" or ".bias" off; an empty suffix when there is neither.
std::string_view take_suffix(std::string_view& name) {
  for (const std::string_view suffix : {std::string_view(".weight"), std::string_view(".bias")}) {
    if (name.ends_with(suffix)) {
      const std::string_view taken = name.substr(name.size() - suffix.size());
      name.remove_suffix(suffix.size());
      return taken;
    }
  }
  return {};
}

/// Splits "N." off the front, where N is a plain decimal number; empty when there is none.
std::string_view take_layer(std::string_view& name) {
  const std::size_t dot = name.find('.');
  constexpr std::size_t kMostDigits = 6;
  if (dot == std::string_view::npos || dot == 0 || dot > kMostDigits) return {};
  const std::string_view number = name.substr(0, dot);
  if (!std::all_of(number.begin(), number.end(), [](char c) { return c >= '0' && c <= '9'; })) return {};
  name.remove_prefix(dot + 1);
  return number;
}

struct Spelling {
  std::string_view block_prefix;
  Column column;
};
constexpr Spelling kGguf{"blk.", &NameRow::gguf};
constexpr Spelling kCanonical{"model.layers.", &NameRow::canonical};

std::optional<std::string> rename(std::string_view name, const Spelling& from, const Spelling& to,
                                  NormPlacement norms) {
  const std::string_view suffix = take_suffix(name);
  if (suffix.empty()) return std::nullopt;
  if (!name.starts_with(from.block_prefix)) {
    const std::string_view found = translate(kModelNames, name, from.column, to.column);
    if (found.empty()) return std::nullopt;
    return base::concat(found, suffix);
  }
  name.remove_prefix(from.block_prefix.size());
  const std::string_view layer = take_layer(name);
  if (layer.empty()) return std::nullopt;
  std::string_view found = translate(kBlockNames, name, from.column, to.column);
  if (found.empty()) found = translate(norm_rows(norms), name, from.column, to.column);
  if (found.empty()) return std::nullopt;
  return base::concat(to.block_prefix, layer, ".", found, suffix);
}

}  // namespace

NormPlacement norm_placement(const GgufFile& file) {
  if (!file.tensors().contains("blk.0.post_ffw_norm.weight")) return NormPlacement::kBefore;
  if (!file.tensors().contains("blk.0.ffn_norm.weight")) return NormPlacement::kAfter;
  return file.string("general.architecture") == "glm4" ? NormPlacement::kSandwichSelfAttention
                                                       : NormPlacement::kSandwich;
}

std::optional<std::string> canonical_name(std::string_view name, NormPlacement norms) {
  return rename(name, kGguf, kCanonical, norms);
}

std::optional<std::string> gguf_name(std::string_view name, NormPlacement norms) {
  return rename(name, kCanonical, kGguf, norms);
}

bool has_interleaved_rope_rows(std::string_view architecture) {
  constexpr std::string_view kArchitectures[] = {"llama",   "granite", "granitemoe", "smollm3",
                                                 "minicpm", "arcee",   "mistral3"};
  return std::find(std::begin(kArchitectures), std::end(kArchitectures), architecture) !=
         std::end(kArchitectures);
}

bool is_rope_projection(std::string_view name) {
  if (!name.starts_with("blk.") || take_suffix(name).empty()) return false;
  return name.ends_with(".attn_q") || name.ends_with(".attn_k");
}

std::vector<int32_t> rope_row_order(int64_t n_heads, int64_t head_dim) {
  TESSERA_CHECK(n_heads > 0 && head_dim > 0 && head_dim % 2 == 0);
  TESSERA_CHECK(n_heads <= std::numeric_limits<int32_t>::max() / head_dim);
  std::vector<int32_t> order;
  order.reserve(static_cast<std::size_t>(n_heads * head_dim));
  for (int64_t head = 0; head < n_heads; ++head) {
    for (int64_t half = 0; half < 2; ++half) {
      for (int64_t i = 0; i < head_dim / 2; ++i)
        order.push_back(static_cast<int32_t>(head * head_dim + 2 * i + half));
    }
  }
  return order;
}

}  // namespace tessera::artifacts
