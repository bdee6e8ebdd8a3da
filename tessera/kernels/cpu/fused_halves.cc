// The two halves of a layer: the phases of each, and what they share.
#include "tessera/kernels/cpu/fused_halves.h"

#include <mlx/ops.h>

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "tessera/kernels/cpu/attention_run.h"
#include "tessera/kernels/cpu/matmul_run.h"
#include "tessera/kernels/cpu/pages.h"
#include "tessera/kernels/cpu/primitive.h"
#include "tessera/kernels/cpu/targets.h"

namespace tessera::kernels::cpu {
namespace {

namespace mx = mlx::core;

const float* floats(const std::optional<mx::array>& vector) {
  return vector ? vector->data<float>() : nullptr;
}

/// The low-rank terms of one projection while a half runs: first t = scale x a^T per token, then
/// t b^T on top of the product.
class LowRankRun {
 public:
  struct Row {
    RowMajor a, b;
    int rank, columns, rows;
    float scale;
  };

  /// Appends the adapters' arrays to the primitive's inputs.
  static void add_inputs(const RowAdapters& adapters, std::vector<mx::array>& inputs) {
    for (const auto& adapter : adapters) {
      if (!adapter) continue;
      inputs.push_back(adapter->a);
      inputs.push_back(adapter->b);
    }
  }

  LowRankRun() = default;
  /// Takes them back from `inputs`, from number `next` on.
  LowRankRun(const RowAdapters& adapters, const std::vector<mx::array>& inputs, std::size_t& next) {
    for (const auto& adapter : adapters) {
      rows_.emplace_back();
      if (!adapter) continue;
      const mx::array& a = inputs[next++];
      const mx::array& b = inputs[next++];
      rows_.back().emplace(Row{RowMajor(a), RowMajor(b), a.shape(0), a.shape(1), b.shape(0), adapter->scale});
    }
  }

  /// project() and add() for all columns, where there are terms at all.
  void apply(const float* x, float* y, int length, int columns) {
    if (rows_.empty()) return;
    project(x, length);
    add(y, length, 0, columns);
  }

  /// x [m, K] of rows with `length` tokens each. Once before add().
  void project(const float* x, int length) {
    storage_.resize(2 * rows_.size());
    projected_.resize(rows_.size());
    for (std::size_t i = 0; i < rows_.size(); ++i) {
      if (!rows_[i]) continue;
      const Row& row = *rows_[i];
      const float* a = row.a.get(storage_[2 * i]);
      b_.resize(rows_.size());
      b_[i] = row.b.get(storage_[2 * i + 1]);
      for (int token = 0; token < length; ++token) {
        const float* from = x + (i * static_cast<std::size_t>(length) + static_cast<std::size_t>(token)) *
                                    static_cast<std::size_t>(row.columns);
        for (int r = 0; r < row.rank; ++r)
          projected_[i].push_back(row.scale *
                                  dot(a + static_cast<std::size_t>(r * row.columns), from, row.columns));
      }
    }
  }

  /// Adds the terms to columns [first, last) of y [m, N].
  void add(float* y, int length, int first, int last) const {
    for (std::size_t i = 0; i < rows_.size(); ++i) {
      if (!rows_[i]) continue;
      const Row& row = *rows_[i];
      const int end = std::min(last, row.rows);
      for (int token = 0; token < length; ++token) {
        const float* t = projected_[i].data() + static_cast<std::size_t>(token * row.rank);
        float* to = y + (i * static_cast<std::size_t>(length) + static_cast<std::size_t>(token)) *
                            static_cast<std::size_t>(row.rows);
        for (int column = first; column < end; ++column)
          to[column] += dot(b_[i] + static_cast<std::size_t>(column * row.rank), t, row.rank);
      }
    }
  }

 private:
  /// In eight partial sums, so that the compiler may use vectors.
  static float dot(const float* a, const float* b, int n) {
    float parts[8] = {};
    for (int i = 0; i < n; ++i) parts[i % 8] += a[i] * b[i];
    return ((parts[0] + parts[1]) + (parts[2] + parts[3])) + ((parts[4] + parts[5]) + (parts[6] + parts[7]));
  }

  std::vector<std::optional<Row>> rows_;
  std::vector<std::vector<float>> storage_;
  std::vector<std::vector<float>> projected_;  // per row [length, rank]
  std::vector<const float*> b_;
};

/// Normalizes x [m, E] (where there is a gain) and makes it ready for the first products, a block of tokens
/// per task. `normed` [m, E] receives the normalized rows, for low-rank terms.
void prepare_normed(base::ThreadPool& pool, const OperandSet& operands, const float* x, int m, int columns,
                    const std::optional<mx::array>& norm, float eps, float* normed) {
  const auto n = static_cast<std::size_t>(columns);
  for_each_row_block(pool, m, [&](int first, int count) {
    for (int row = first; row < first + count; ++row) {
      const std::size_t at = static_cast<std::size_t>(row) * n;
      if (norm)
        target().rms_norm(x + at, floats(norm), eps, n, normed + at);
      else
        std::memcpy(normed + at, x + at, n * sizeof(float));
    }
    operands.prepare_rows(first, count, normed + static_cast<std::size_t>(first) * n);
  });
}

/// What both halves' work holds.
struct Activations {
  RowMajor x;
  std::optional<RowMajor> residual;
  int batch, length;
  float* y;

  int m() const { return batch * length; }
};

/// The projection that ends a half: x [m, K] to its result, with the residual and the adapters' terms.
void project_out(base::ThreadPool& pool, const Projection& projection, const float* x,
                 const Activations& activations, LowRankRun& adapters) {
  const int m = activations.m();
  std::vector<float> residual_storage;
  const OperandSet operands({&projection.matrix}, m);
  operands.prepare(pool, x);
  multiply(pool,
           {{.matrix = &projection.matrix,
             .x = operands.of(0),
             .y = activations.y,
             .bias = floats(projection.bias),
             .residual = activations.residual ? activations.residual->get(residual_storage) : nullptr}},
           m);
  adapters.apply(x, activations.y, activations.length, projection.matrix.layout.rows);
}

struct AttentionWork {
  std::shared_ptr<const AttentionHalf> half;
  PageShape shape;
  std::vector<KvSlot::Row> rows;
  int window;
  Activations activations;
  LowRankRun q_adapters, k_adapters, v_adapters, o_adapters;

  void run();

 private:
  void rotate_and_append(base::ThreadPool& pool, float* q, float* k, const float* v) const;
};

/// Tokens of a row, a block per task: rotates queries and keys in place, and writes keys and values.
void AttentionWork::rotate_and_append(base::ThreadPool& pool, float* q, float* k, const float* v) const {
  const int length = activations.length;
  const int blocks = (length + kRowsPerTask - 1) / kRowsPerTask;
  const int half_dim = half->frequencies.shape(0);
  const auto key_dim = static_cast<std::size_t>(shape.key_dim);
  const auto value_dim = static_cast<std::size_t>(shape.value_dim);
  const auto heads = static_cast<std::size_t>(half->n_heads);
  const auto kv_heads = static_cast<std::size_t>(shape.n_kv_heads);
  pool.run(activations.batch * blocks, [&](int index) {
    const KvSlot::Row& row = rows[static_cast<std::size_t>(index / blocks)];
    const int first = index % blocks * kRowsPerTask;
    const int count = std::min(kRowsPerTask, length - first);
    const auto start = static_cast<std::size_t>(index / blocks * length + first);
    std::vector<float> cosines(static_cast<std::size_t>(half_dim)), sines(cosines);
    for (int token = 0; token < count; ++token) {
      target().rope_angles(static_cast<float>(row.position + first + token), half->frequencies.data<float>(),
                           half_dim, cosines.data(), sines.data());
      const auto rotate_heads = [&](float* x, std::size_t n) {
        x += (start + static_cast<std::size_t>(token)) * n * key_dim;
        for (std::size_t head = 0; head < n; ++head, x += key_dim)
          target().rotate(x, cosines.data(), sines.data(), half_dim, shape.key_dim, x);
      };
      rotate_heads(q, heads);
      rotate_heads(k, kv_heads);
    }
    write_positions(shape, *row.table, row.position + first, count, k + start * kv_heads * key_dim, key_dim,
                    kv_heads * key_dim, v + start * kv_heads * value_dim, value_dim, kv_heads * value_dim);
  });
}

void AttentionWork::run() {
  const AttentionHalf& weights = *half;
  base::ThreadPool& pool = *weights.q.matrix.runtime.pool;
  const int m = activations.m();
  const int length = activations.length;
  const auto rows_m = static_cast<std::size_t>(m);
  const int columns = weights.q.matrix.layout.columns;
  const auto q_width = static_cast<std::size_t>(weights.q.matrix.layout.rows);
  const auto k_width = static_cast<std::size_t>(weights.k.matrix.layout.rows);
  const auto v_width = static_cast<std::size_t>(weights.v.matrix.layout.rows);
  const auto attended_width = static_cast<std::size_t>(weights.n_heads * shape.value_dim);
  std::vector<float> x_storage;
  const float* x = activations.x.get(x_storage);
  if (length == 1) {
    for (const KvSlot::Row& row : rows) prefetch_position(shape, *row.table, row.position);
  }

  const Scratch memory(rows_m *
                       (static_cast<std::size_t>(columns) + q_width + k_width + v_width + attended_width) *
                       sizeof(float));
  float* const normed = memory.floats();
  float* const q = normed + rows_m * static_cast<std::size_t>(columns);
  float* const k = q + rows_m * q_width;
  float* const v = k + rows_m * k_width;
  float* const attended = v + rows_m * v_width;

  {
    const OperandSet operands({&weights.q.matrix, &weights.k.matrix, &weights.v.matrix}, m);
    prepare_normed(pool, operands, x, m, columns, weights.norm, weights.norm_eps, normed);
    multiply(pool,
             {{.matrix = &weights.q.matrix, .x = operands.of(0), .y = q, .bias = floats(weights.q.bias)},
              {.matrix = &weights.k.matrix, .x = operands.of(1), .y = k, .bias = floats(weights.k.bias)},
              {.matrix = &weights.v.matrix, .x = operands.of(2), .y = v, .bias = floats(weights.v.bias)}},
             m);
  }
  q_adapters.apply(normed, q, length, static_cast<int>(q_width));
  k_adapters.apply(normed, k, length, static_cast<int>(k_width));
  v_adapters.apply(normed, v, length, static_cast<int>(v_width));

  rotate_and_append(pool, q, k, v);

  AttentionRun attention{.shape = shape,
                         .n_heads = weights.n_heads,
                         .scale = weights.scale,
                         .is_causal = true,
                         .window = window,
                         .rows = {}};
  for (std::size_t row = 0; row < rows.size(); ++row) {
    const std::size_t first = row * static_cast<std::size_t>(length);
    attention.rows.push_back({.table = rows[row].table.get(),
                              .stored = rows[row].position + length,
                              .length = length,
                              .q = q + first * q_width,
                              .q_head_stride = static_cast<std::size_t>(shape.key_dim),
                              .q_query_stride = q_width,
                              .out = attended + first * attended_width,
                              .out_head_stride = static_cast<std::size_t>(shape.value_dim),
                              .out_query_stride = attended_width});
  }
  run_attention(attention, pool);

  project_out(pool, weights.o, attended, activations, o_adapters);
}

struct MlpWork {
  std::shared_ptr<const MlpHalf> half;
  Activations activations;
  LowRankRun gate_adapters, up_adapters, down_adapters;

  void run();
};

void MlpWork::run() {
  const MlpHalf& weights = *half;
  base::ThreadPool& pool = *weights.gate.matrix.runtime.pool;
  const int m = activations.m();
  const int length = activations.length;
  const auto rows_m = static_cast<std::size_t>(m);
  const int columns = weights.gate.matrix.layout.columns;
  const int inner = weights.gate.matrix.layout.rows;
  const auto inner_width = static_cast<std::size_t>(inner);
  std::vector<float> x_storage;
  const float* x = activations.x.get(x_storage);

  const Scratch memory(rows_m * (static_cast<std::size_t>(columns) + 2 * inner_width) * sizeof(float));
  float* const normed = memory.floats();
  float* const gate = normed + rows_m * static_cast<std::size_t>(columns);
  float* const up = gate + rows_m * inner_width;

  const OperandSet operands({&weights.gate.matrix, &weights.up.matrix}, m);
  prepare_normed(pool, operands, x, m, columns, weights.norm, weights.norm_eps, normed);
  gate_adapters.project(normed, length);
  up_adapters.project(normed, length);
  // The same rows of both matrices go together, so that the gate is applied while they are near.
  std::vector<std::pair<int, int>> pieces;
  for_each_piece(weights.gate.matrix.layout, 2 * m, pool.threads(),
                 [&](int first, int last) { pieces.emplace_back(first, last); });
  const Product gate_product{
      .matrix = &weights.gate.matrix, .x = operands.of(0), .y = gate, .bias = floats(weights.gate.bias)};
  const Product up_product{
      .matrix = &weights.up.matrix, .x = operands.of(1), .y = up, .bias = floats(weights.up.bias)};
  pool.run(static_cast<int>(pieces.size()), [&](int index) {
    const auto [first_tile, last_tile] = pieces[static_cast<std::size_t>(index)];
    multiply_tiles(gate_product, m, first_tile, last_tile);
    multiply_tiles(up_product, m, first_tile, last_tile);
    const int first = first_tile * PackedLayout::kLanes;
    const int last = std::min(last_tile * PackedLayout::kLanes, inner);
    gate_adapters.add(gate, length, first, last);
    up_adapters.add(up, length, first, last);
    for (std::size_t row = 0; row < rows_m; ++row) {
      float* const gates = gate + row * inner_width + static_cast<std::size_t>(first);
      target().swiglu(gates, up + row * inner_width + static_cast<std::size_t>(first),
                      static_cast<std::size_t>(last - first), gates);
    }
  });

  project_out(pool, weights.down, gate, activations, down_adapters);
}

/// x, then the residual where there is one.
Activations activations_of(const std::vector<mx::array>& inputs, bool has_residual, mx::array& output) {
  allocate(output);
  return {.x = RowMajor(inputs[0]),
          .residual = has_residual ? std::optional(RowMajor(inputs[1])) : std::nullopt,
          .batch = inputs[0].shape(0),
          .length = inputs[0].shape(1),
          .y = output.data<float>()};
}

class AttentionHalfPrimitive final : public CpuPrimitive {
 public:
  AttentionHalfPrimitive(mx::Stream stream, std::shared_ptr<const AttentionHalf> half, const KvSlot& slot,
                         bool has_residual, AttentionAdapters adapters)
      : CpuPrimitive(stream),
        half_(std::move(half)),
        shape_(slot.shape),
        rows_(slot.rows),
        window_(slot.window),
        has_residual_(has_residual),
        adapters_(std::move(adapters)) {}
  const char* name() const override { return "tessera::AttentionHalf"; }

  void eval_cpu(const std::vector<mx::array>& inputs, std::vector<mx::array>& outputs) override {
    allocate(outputs[1]);
    const Activations activations = activations_of(inputs, has_residual_, outputs[0]);
    std::size_t next = has_residual_ ? 3 : 2;  // behind x, the residual and the fence
    LowRankRun q(adapters_.q, inputs, next);
    LowRankRun k(adapters_.k, inputs, next);
    LowRankRun v(adapters_.v, inputs, next);
    LowRankRun o(adapters_.o, inputs, next);
    AttentionWork work{.half = half_,
                       .shape = shape_,
                       .rows = rows_,
                       .window = window_,
                       .activations = activations,
                       .q_adapters = std::move(q),
                       .k_adapters = std::move(k),
                       .v_adapters = std::move(v),
                       .o_adapters = std::move(o)};
    auto& encoder = mx::cpu::get_command_encoder(stream());
    encoder.dispatch([work = std::move(work), fence = outputs[1].data<int32_t>()]() mutable {
      work.run();
      *fence = work.rows.front().position + work.activations.length;
    });
  }

 private:
  std::shared_ptr<const AttentionHalf> half_;
  PageShape shape_;
  std::vector<KvSlot::Row> rows_;
  int window_;
  bool has_residual_;
  AttentionAdapters adapters_;
};

class MlpHalfPrimitive final : public CpuPrimitive {
 public:
  MlpHalfPrimitive(mx::Stream stream, std::shared_ptr<const MlpHalf> half, bool has_residual,
                   MlpAdapters adapters)
      : CpuPrimitive(stream),
        half_(std::move(half)),
        has_residual_(has_residual),
        adapters_(std::move(adapters)) {}
  const char* name() const override { return "tessera::MlpHalf"; }

  std::vector<mx::Shape> output_shapes(const std::vector<mx::array>& inputs) override {
    return {inputs[0].shape()};
  }

  void eval_cpu(const std::vector<mx::array>& inputs, std::vector<mx::array>& outputs) override {
    const Activations activations = activations_of(inputs, has_residual_, outputs[0]);
    std::size_t next = has_residual_ ? 2 : 1;
    LowRankRun gate(adapters_.gate, inputs, next);
    LowRankRun up(adapters_.up, inputs, next);
    LowRankRun down(adapters_.down, inputs, next);
    MlpWork work{.half = half_,
                 .activations = activations,
                 .gate_adapters = std::move(gate),
                 .up_adapters = std::move(up),
                 .down_adapters = std::move(down)};
    auto& encoder = mx::cpu::get_command_encoder(stream());
    encoder.dispatch([work = std::move(work)]() mutable { work.run(); });
  }

 private:
  std::shared_ptr<const MlpHalf> half_;
  bool has_residual_;
  MlpAdapters adapters_;
};

mx::Stream stream() { return mx::default_stream(mx::Device::cpu); }

}  // namespace

std::pair<mx::array, mx::array> attention_half(const mx::array& x, std::shared_ptr<const AttentionHalf> half,
                                               const KvSlot& slot, const std::optional<mx::array>& residual,
                                               const AttentionAdapters& adapters) {
  std::vector<mx::array> inputs{x};
  if (residual) inputs.push_back(*residual);
  inputs.push_back(slot.fence);
  for (const RowAdapters* rows : {&adapters.q, &adapters.k, &adapters.v, &adapters.o})
    LowRankRun::add_inputs(*rows, inputs);
  const auto outputs =
      mx::array::make_arrays({x.shape(), {}}, {mx::float32, mx::int32},
                             std::make_shared<AttentionHalfPrimitive>(stream(), std::move(half), slot,
                                                                      residual.has_value(), adapters),
                             std::move(inputs));
  return {outputs[0], outputs[1]};
}

mx::array mlp_half(const mx::array& x, std::shared_ptr<const MlpHalf> half,
                   const std::optional<mx::array>& residual, const MlpAdapters& adapters) {
  std::vector<mx::array> inputs{x};
  if (residual) inputs.push_back(*residual);
  for (const RowAdapters* rows : {&adapters.gate, &adapters.up, &adapters.down})
    LowRankRun::add_inputs(*rows, inputs);
  return mx::array(
      x.shape(), mx::float32,
      std::make_shared<MlpHalfPrimitive>(stream(), std::move(half), residual.has_value(), adapters),
      std::move(inputs));
}

}  // namespace tessera::kernels::cpu
