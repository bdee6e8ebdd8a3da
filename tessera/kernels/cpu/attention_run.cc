#include "tessera/kernels/cpu/attention_run.h"

#include <algorithm>

#include "tessera/base/check.h"
#include "tessera/kernels/cpu/scratch.h"
#include "tessera/kernels/cpu/targets.h"

namespace tessera::kernels::cpu {
namespace {

// Queries of one task in a window: enough to share loaded keys, few enough to spread.
constexpr int kQueryBlock = 32;
// Keys of one task of a single query: small while a few of them have to keep all threads busy, larger where
// merging would begin to count.
constexpr int kShortKeyBlock = 128;
constexpr int kLongKeyBlock = 512;
constexpr int kLongKeys = 4096;

struct Piece {
  const AttentionRow* row;
  int kv_head;
  int first, last;       // queries of a window, keys of a single query
  std::size_t part = 0;  // of the partial results, for a single query
};

/// A single query whose keys are in several pieces.
struct Merge {
  const AttentionRow* row;
  int kv_head;
  std::size_t first_part;
  int parts;
};

AttentionTask task_of(const AttentionRun& run, const Piece& piece) {
  const PageShape& shape = run.shape;
  const AttentionRow& row = *piece.row;
  const auto head = static_cast<std::size_t>(piece.kv_head);
  const int rep = run.n_heads / shape.n_kv_heads;
  const std::size_t first_head = head * static_cast<std::size_t>(rep);
  return {.q = row.q + first_head * row.q_head_stride,
          .q_head_stride = row.q_head_stride,
          .q_query_stride = row.q_query_stride,
          .rep = rep,
          .begin = 0,
          .end = row.length,
          .position = row.stored - row.length,
          .pages = row.table->pages.data(),
          .page_tokens = shape.page_tokens,
          .key_offset = head * shape.keys().head_bytes(),
          .value_offset = shape.values().offset + head * shape.values().head_bytes(),
          .is_bfloat16 = shape.dtype == mlx::core::bfloat16,
          .key_dim = shape.key_dim,
          .value_dim = shape.value_dim,
          .first_key = 0,
          .last_key = row.stored,
          .scale = run.scale,
          .is_causal = run.is_causal,
          .window = run.window,
          .mask = row.mask == nullptr ? nullptr : row.mask + first_head * row.mask_head_stride,
          .mask_head_stride = row.mask_head_stride,
          .mask_query_stride = row.mask_query_stride,
          .out = row.out + first_head * row.out_head_stride,
          .out_head_stride = row.out_head_stride,
          .out_query_stride = row.out_query_stride,
          .stats = nullptr,
          .scratch = nullptr};
}

void run_task(AttentionTask& task) {
  const Scratch scratch(attention_scratch_bytes(task));
  task.scratch = scratch.data();
  target().attention(task);
}

}  // namespace

std::size_t attention_scratch_bytes(const AttentionTask& task) {
  return static_cast<std::size_t>(task.rep) * static_cast<std::size_t>(task.end - task.begin) *
         (static_cast<std::size_t>(task.key_dim) + 2) * sizeof(float);
}

void run_attention(const AttentionRun& run, base::ThreadPool& pool) {
  TESSERA_DCHECK(run.shape.is_readable_in_place());
  const int kv_heads = run.shape.n_kv_heads;
  std::vector<Piece> pieces;
  std::vector<Merge> merges;
  std::size_t parts = 0;
  for (const AttentionRow& row : run.rows) {
    if (row.length > 1) {
      // Late blocks see the most keys. They are spread over the threads' shares of the tasks: block by block
      // from both ends.
      const int blocks = (row.length + kQueryBlock - 1) / kQueryBlock;
      for (int i = 0; i < blocks; ++i) {
        const int first = (i % 2 == 0 ? i / 2 : blocks - 1 - i / 2) * kQueryBlock;
        for (int head = 0; head < kv_heads; ++head)
          pieces.push_back({&row, head, first, std::min(row.length, first + kQueryBlock)});
      }
      continue;
    }
    const int block = row.stored > kLongKeys ? kLongKeyBlock : kShortKeyBlock;
    const int first_key = run.window > 0 ? std::max(0, row.stored - run.window) / block * block : 0;
    const int count = (row.stored - first_key + block - 1) / block;
    for (int head = 0; head < kv_heads; ++head) {
      merges.push_back({&row, head, parts, count});
      for (int i = 0; i < count; ++i) {
        const int first = first_key + i * block;
        pieces.push_back({&row, head, first, std::min(row.stored, first + block), parts++});
      }
    }
  }
  const auto rep = static_cast<std::size_t>(run.n_heads / kv_heads);
  const auto dim = static_cast<std::size_t>(run.shape.value_dim);
  const Scratch partial(std::max<std::size_t>(64, parts * rep * (dim + 2) * sizeof(float)));
  float* const stats = partial.floats() + parts * rep * dim;
  pool.run(static_cast<int>(pieces.size()), [&](int index) {
    const Piece& piece = pieces[static_cast<std::size_t>(index)];
    AttentionTask task = task_of(run, piece);
    if (piece.row->length > 1) {
      task.begin = piece.first;
      task.end = piece.last;
    } else {
      task.first_key = piece.first;
      task.last_key = piece.last;
      task.out = partial.floats() + piece.part * rep * dim;
      task.out_head_stride = dim;
      task.out_query_stride = 0;
      task.stats = stats + piece.part * rep * 2;
    }
    run_task(task);
  });
  for (const Merge& merge : merges) {
    float* out = merge.row->out + static_cast<std::size_t>(merge.kv_head) * rep * merge.row->out_head_stride;
    for (std::size_t head = 0; head < rep; ++head, out += merge.row->out_head_stride) {
      target().merge_attention(partial.floats() + (merge.first_part * rep + head) * dim,
                               stats + (merge.first_part * rep + head) * 2, merge.parts, rep, dim, out);
    }
  }
}

}  // namespace tessera::kernels::cpu
