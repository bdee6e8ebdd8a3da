// Attention on the CPU: what an implementation for one instruction set is handed.
#pragma once

#include <cstddef>

namespace tessera::kernels::cpu {

/// Keys that a task handles at a time.
inline constexpr int kAttentionTile = 64;

/// Queries [begin, end) of the heads that share one KV head, against keys [first_key, last_key).
struct AttentionTask {
  const float* q;           // [rep, L, D] of this KV head's query heads
  const float* k;           // [N, D] of this KV head
  const float* v;           // [N, Dv]
  int rep, length, stored;  // query heads per KV head, L, N
  int key_dim, value_dim;   // multiples of 16
  float scale;
  bool is_causal;  // query i sees keys up to N - L + i
  int begin, end;  // queries
  int first_key, last_key;
  float* out;      // [rep, end - begin, Dv]: unnormalized when `stats` is given
  float* stats;    // [rep, end - begin, 2]: maximum and sum of exponentials, or absent
  float* scratch;  // attention_scratch_floats()
};

/// Floats of scratch memory that a task needs.
std::size_t attention_scratch_floats(const AttentionTask& task);

}  // namespace tessera::kernels::cpu
