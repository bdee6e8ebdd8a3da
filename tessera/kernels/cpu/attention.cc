// The attention primitive: pieces of work per KV head.
#include "tessera/kernels/cpu/attention.h"

#include <mlx/ops.h>

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "tessera/kernels/cpu/attention_task.h"
#include "tessera/kernels/cpu/primitive.h"
#include "tessera/kernels/cpu/targets.h"

namespace tessera::kernels::cpu {
namespace {

namespace mx = mlx::core;

// Queries of one piece in a window: enough to pay for transposing the keys, few enough to spread.
constexpr int kQueryBlock = 32;
// Keys of one piece in decode. Fixed, so that sums do not depend on the number of threads.
constexpr int kKeyBlock = 512;

/// Everything the stream's thread needs.
struct Work {
  const float *q, *k, *v;
  float* out;
  int batch, heads, kv_heads, length, stored, key_dim, value_dim;
  float scale;
  bool is_causal;
  std::shared_ptr<base::ThreadPool> pool;

  int rep() const { return heads / kv_heads; }
  /// The task of row and KV head number `index`, over all queries and keys.
  AttentionTask task(int index) const {
    const auto at = static_cast<std::size_t>(index);
    const auto kv_tokens = at * static_cast<std::size_t>(stored);
    const auto queries = at * static_cast<std::size_t>(rep() * length);
    return {.q = q + queries * static_cast<std::size_t>(key_dim),
            .k = k + kv_tokens * static_cast<std::size_t>(key_dim),
            .v = v + kv_tokens * static_cast<std::size_t>(value_dim),
            .rep = rep(),
            .length = length,
            .stored = stored,
            .key_dim = key_dim,
            .value_dim = value_dim,
            .scale = scale,
            .is_causal = is_causal,
            .begin = 0,
            .end = length,
            .first_key = 0,
            .last_key = stored,
            .out = nullptr,
            .stats = nullptr,
            .scratch = nullptr};
  }
  float* out_of(int index) const {
    return out + static_cast<std::size_t>(index) * static_cast<std::size_t>(rep() * length * value_dim);
  }
};

/// Blocks of queries; each writes its own part of the output.
void run_window(const Work& work) {
  const int blocks = (work.length + kQueryBlock - 1) / kQueryBlock;
  const auto dim = static_cast<std::size_t>(work.value_dim);
  work.pool->run(work.batch * work.kv_heads * blocks, [&](int piece) {
    // The last block sees the most keys. Tasks are taken from the highest number down, so it goes first
    // and no thread is left with it at the end.
    const int block = piece % blocks;
    AttentionTask task = work.task(piece / blocks);
    task.begin = block * kQueryBlock;
    task.end = std::min(work.length, task.begin + kQueryBlock);
    const auto queries = static_cast<std::size_t>(task.end - task.begin);
    std::vector<float> rows(static_cast<std::size_t>(task.rep) * queries * dim);
    task.out = rows.data();
    std::vector<float> scratch(attention_scratch_floats(task));
    task.scratch = scratch.data();
    target().attention(task);
    for (int head = 0; head < task.rep; ++head) {
      const auto row = static_cast<std::size_t>(head * work.length + task.begin);
      std::copy_n(rows.data() + static_cast<std::size_t>(head) * queries * dim, queries * dim,
                  work.out_of(piece / blocks) + row * dim);
    }
  });
}

/// Blocks of keys for few queries; the partial results are merged in order.
void run_decode(const Work& work) {
  const int blocks = (work.stored + kKeyBlock - 1) / kKeyBlock;
  const auto rows = static_cast<std::size_t>(work.rep() * work.length);
  const auto dim = static_cast<std::size_t>(work.value_dim);
  const int heads = work.batch * work.kv_heads;
  std::vector<float> partial(static_cast<std::size_t>(heads * blocks) * rows * dim);
  std::vector<float> stats(static_cast<std::size_t>(heads * blocks) * rows * 2);
  work.pool->run(heads * blocks, [&](int piece) {
    AttentionTask task = work.task(piece / blocks);
    task.first_key = piece % blocks * kKeyBlock;
    task.last_key = std::min(work.stored, task.first_key + kKeyBlock);
    task.out = partial.data() + static_cast<std::size_t>(piece) * rows * dim;
    task.stats = stats.data() + static_cast<std::size_t>(piece) * rows * 2;
    std::vector<float> scratch(attention_scratch_floats(task));
    task.scratch = scratch.data();
    target().attention(task);
  });
  for (int head = 0; head < heads; ++head) {
    for (std::size_t row = 0; row < rows; ++row) {
      float* out = work.out_of(head) + row * dim;
      const auto part = [&](int block) {
        return static_cast<std::size_t>(head * blocks + block) * rows + row;
      };
      float largest = stats[2 * part(0)];
      for (int block = 1; block < blocks; ++block) largest = std::max(largest, stats[2 * part(block)]);
      float sum = 0.0F;
      std::fill_n(out, dim, 0.0F);
      for (int block = 0; block < blocks; ++block) {
        const float factor = std::exp(stats[2 * part(block)] - largest);
        sum += factor * stats[2 * part(block) + 1];
        const float* from = partial.data() + part(block) * dim;
        for (std::size_t d = 0; d < dim; ++d) out[d] += factor * from[d];
      }
      for (std::size_t d = 0; d < dim; ++d) out[d] /= sum;
    }
  }
}

class Attention final : public CpuPrimitive {
 public:
  Attention(mx::Stream stream, float scale, bool is_causal, std::shared_ptr<base::ThreadPool> pool)
      : CpuPrimitive(stream), scale_(scale), is_causal_(is_causal), pool_(std::move(pool)) {}
  const char* name() const override { return "tessera::Attention"; }

  bool is_equivalent(const mx::Primitive& other) const override {
    const auto& same = static_cast<const Attention&>(other);
    return scale_ == same.scale_ && is_causal_ == same.is_causal_;
  }

  std::vector<mx::Shape> output_shapes(const std::vector<mx::array>& inputs) override {
    mx::Shape shape = inputs[0].shape();
    shape[3] = inputs[2].shape(3);
    return {shape};
  }

  void eval_cpu(const std::vector<mx::array>& inputs, std::vector<mx::array>& outputs) override {
    allocate(outputs[0]);
    const mx::array& q = inputs[0];
    const mx::array& k = inputs[1];
    const mx::array& v = inputs[2];
    Work work{.q = nullptr,
              .k = nullptr,
              .v = nullptr,
              .out = outputs[0].data<float>(),
              .batch = q.shape(0),
              .heads = q.shape(1),
              .kv_heads = k.shape(1),
              .length = q.shape(2),
              .stored = k.shape(2),
              .key_dim = q.shape(3),
              .value_dim = v.shape(3),
              .scale = scale_,
              .is_causal = is_causal_,
              .pool = pool_};
    auto& encoder = mx::cpu::get_command_encoder(stream());
    encoder.dispatch([work, q = RowMajor(q), k = RowMajor(k), v = RowMajor(v)]() mutable {
      std::vector<float> queries, keys, values;
      work.q = q.get(queries);
      work.k = k.get(keys);
      work.v = v.get(values);
      if (work.length == 1)
        run_decode(work);
      else
        run_window(work);
    });
  }

 private:
  float scale_;
  bool is_causal_;
  std::shared_ptr<base::ThreadPool> pool_;
};

}  // namespace

std::size_t attention_scratch_floats(const AttentionTask& task) {
  // A transposed tile of keys, and maximum and sum of each row.
  return static_cast<std::size_t>(kAttentionTile) * static_cast<std::size_t>(task.key_dim) +
         2 * static_cast<std::size_t>(task.rep) * static_cast<std::size_t>(task.end - task.begin);
}

mx::array attention(const mx::array& q, const mx::array& k, const mx::array& v, float scale, bool is_causal,
                    std::shared_ptr<base::ThreadPool> pool) {
  const auto ready = [](const mx::array& x) { return mx::astype(x, mx::float32); };
  mx::Shape shape = q.shape();
  shape[3] = v.shape(3);
  return mx::array(
      std::move(shape), mx::float32,
      std::make_shared<Attention>(mx::default_stream(mx::Device::cpu), scale, is_causal, std::move(pool)),
      {ready(q), ready(k), ready(v)});
}

}  // namespace tessera::kernels::cpu
