// Attention on the CPU: what an implementation for one instruction set is handed.
#pragma once

#include <cstddef>

namespace tessera::kernels::cpu {

/// Keys that a task handles at a time.
inline constexpr int kAttentionTile = 64;

/// Queries [begin, end) of the heads that share one KV head, against keys [first_key, last_key) in pages
/// of one row. Pages hold keys in blocks of 16 positions (kernels/pages.h). Strides count floats.
struct AttentionTask {
  const float* q;  // query i of head h at q + h * q_head_stride + i * q_query_stride
  std::size_t q_head_stride, q_query_stride;
  int rep;         // query heads
  int begin, end;  // queries
  int position;    // of query 0, in keys

  const std::byte* const* pages;
  int page_tokens;                       // a multiple of 16
  std::size_t key_offset, value_offset;  // of this KV head, in bytes from the start of a page
  bool is_bfloat16;                      // keys and values; then queries and probabilities are rounded too
  int key_dim, value_dim;                // value_dim a multiple of 16; key_dim even in bfloat16
  int first_key, last_key;

  float scale;
  bool is_causal;     // query i sees keys up to position + i
  int window;         // and not those `window` or more before it; 0 = all
  const float* mask;  // added to the scores: key j for query i of head h at
                      // mask + h * mask_head_stride + i * mask_query_stride + j; or absent
  std::size_t mask_head_stride, mask_query_stride;

  float* out;  // like q; unnormalized when `stats` is given
  std::size_t out_head_stride, out_query_stride;
  float* stats;        // [rep, end - begin, 2]: maximum and sum of exponentials, or absent
  std::byte* scratch;  // attention_scratch_bytes(), aligned to 64
};

/// Bytes of scratch memory that a task needs: queries as it reads them, and their running statistics.
std::size_t attention_scratch_bytes(const AttentionTask& task);

}  // namespace tessera::kernels::cpu
