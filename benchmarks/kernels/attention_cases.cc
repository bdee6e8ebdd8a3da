// Attention over pages of bfloat16 keys and values, 32 query heads over 8.
#include <fmt/format.h>

#include <cmath>

#include "benchmarks/kernels/cases.h"
#include "benchmarks/kernels/operands.h"
#include "tessera/kernels/cpu/attention_run.h"

namespace tessera::bench {
namespace {

namespace mx = mlx::core;

constexpr int kHeads = 32;
constexpr int kKvHeads = 8;
constexpr double kFloorOfBandwidth = 0.2;  // far below what decoding reaches

}  // namespace

Work attention_work(int dim, int length, int stored, std::shared_ptr<base::ThreadPool> pool, bool rotates) {
  const kernels::PageShape shape{
      .page_tokens = 128, .n_kv_heads = kKvHeads, .key_dim = dim, .value_dim = dim, .dtype = mx::bfloat16};
  struct Operands {
    std::vector<std::shared_ptr<const kernels::PageTable>> tables;
    std::vector<float> q, out;
    std::size_t next = 0;
  };
  auto operands = std::make_shared<Operands>();
  const std::size_t bytes = shape.page_bytes() * static_cast<std::size_t>(stored / shape.page_tokens);
  operands->tables = random_tables(shape, stored, rotates ? copies_of(bytes) : 1);
  const auto head = static_cast<std::size_t>(dim);
  operands->q = random_values(static_cast<std::size_t>(length * kHeads) * head);
  operands->out.resize(operands->q.size());
  return {[=] {
    const auto& table = operands->tables[operands->next++ % operands->tables.size()];
    kernels::cpu::AttentionRun run{.shape = shape,
                                   .n_heads = kHeads,
                                   .scale = 1.0F / std::sqrt(static_cast<float>(dim)),
                                   .is_causal = true,
                                   .rows = {}};
    run.rows.push_back({.table = table.get(),
                        .stored = stored,
                        .length = length,
                        .q = operands->q.data(),
                        .q_head_stride = head,
                        .q_query_stride = kHeads * head,
                        .out = operands->out.data(),
                        .out_head_stride = head,
                        .out_query_stride = kHeads * head});
    kernels::cpu::run_attention(run, *pool);
  }};
}

void add_attention(std::vector<Case>& cases) {
  const auto add = [&](const char* kind, int dim, int length, int stored, Ceiling ceiling, double floor) {
    const double pairs = static_cast<double>(length) * (stored - length) + length * (length + 1) / 2.0;
    cases.push_back({.name = fmt::format("attention/{}/d{}/n{}", kind, dim, stored),
                     .ceiling = ceiling,
                     .bytes = 2.0 * 2 * kKvHeads * dim * stored + 2.0 * 4 * length * kHeads * dim,
                     .flop = 4.0 * kHeads * dim * pairs,
                     .floor = floor,
                     .prepare = [=](std::shared_ptr<base::ThreadPool> pool) {
                       return attention_work(dim, length, stored, std::move(pool), length == 1);
                     }});
  };
  for (const int dim : {64, 128}) add("decode", dim, 1, 8192, Ceiling::kBandwidth, kFloorOfBandwidth);
  for (const int dim : {64, 128}) add("window512", dim, 512, 4096, Ceiling::kBFloat16, 0);
}

}  // namespace tessera::bench
