// Attention of the queries of several rows over their pages, split into tasks for a pool.
#pragma once

#include <vector>

#include "tessera/base/thread_pool.h"
#include "tessera/kernels/cpu/attention_task.h"
#include "tessera/kernels/pages.h"

namespace tessera::kernels::cpu {

/// The queries of one row: the newest `length` of its `stored` positions. Strides count floats.
struct AttentionRow {
  const PageTable* table;
  int stored, length;
  const float* q;  // query i of head h at q + h * q_head_stride + i * q_query_stride
  std::size_t q_head_stride, q_query_stride;
  float* out;  // like q
  std::size_t out_head_stride, out_query_stride;
  const float* mask = nullptr;  // additive, key j for query i of head h at h * .. + i * .. + j; or absent
  std::size_t mask_head_stride = 0, mask_query_stride = 0;
};

struct AttentionRun {
  PageShape shape;  // REQUIRES: is_readable_in_place()
  int n_heads;
  float scale;
  bool is_causal;
  int window = 0;  // a query sees only the newest `window` keys, its own included; 0 = all
  std::vector<AttentionRow> rows;
};

/// Windows are split over queries, single queries over keys; where they are cut depends on lengths only,
/// so the result does not depend on the number of threads.
void run_attention(const AttentionRun& run, base::ThreadPool& pool);

}  // namespace tessera::kernels::cpu
