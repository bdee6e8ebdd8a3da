// The names and row orders in which GGUF files store what Hugging Face calls by other names. Our
// canonical names are Hugging Face's; loaders ask this table and nothing else.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tessera::artifacts {

class GgufFile;

/// Where a block has its norms. Both files use the same few words for different places, so names
/// can only be translated knowing this.
enum class NormPlacement {
  kBefore,                 // before attention and MLP
  kAfter,                  // after attention and MLP, none before
  kSandwich,               // before and after both; Hugging Face: pre_/post_feedforward_layernorm
  kSandwichSelfAttention,  // the same places; Hugging Face: post_self_attn_/post_mlp_layernorm
};

/// The placement that the tensors of `file` show. kSandwichSelfAttention cannot be told from
/// kSandwich by tensors: it is what the architecture "glm4" writes.
NormPlacement norm_placement(const GgufFile& file);

/// The canonical name of a GGUF tensor, for example "blk.3.attn_q.weight" ->
/// "model.layers.3.self_attn.q_proj.weight"; absent for names outside the dense families.
std::optional<std::string> canonical_name(std::string_view gguf_name, NormPlacement norms);

/// The inverse of canonical_name.
std::optional<std::string> gguf_name(std::string_view canonical_name, NormPlacement norms);

/// Whether files of a GGUF architecture hold the rows of attn_q and attn_k in the order of
/// interleaved rotary pairs (0,1),(2,3).. instead of Hugging Face's (0,D/2),(1,D/2+1)..
/// Source: LlamaModel.permute of llama.cpp's converter and what inherits it.
bool has_interleaved_rope_rows(std::string_view architecture);

/// Whether `gguf_name` is a tensor whose rows that order concerns (attn_q and attn_k, weights and
/// biases). attn_q has n_heads, attn_k n_kv_heads.
bool is_rope_projection(std::string_view gguf_name);

/// The stored row that each canonical row is: row r of the Hugging Face tensor is row order[r] of
/// the file. REQUIRES: n_heads > 0, even head_dim > 0, n_heads * head_dim < 2^31.
std::vector<int32_t> rope_row_order(int64_t n_heads, int64_t head_dim);

}  // namespace tessera::artifacts
