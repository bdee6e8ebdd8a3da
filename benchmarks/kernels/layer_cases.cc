// The operations between the products, and the fused halves of a layer. They are called as models call them,
// through MLX: that is a few microseconds of a primitive each.
#include <fmt/format.h>
#include <mlx/mlx.h>

#include <cmath>
#include <span>

#include "benchmarks/kernels/cases.h"
#include "benchmarks/kernels/operands.h"
#include "tessera/kernels/activation.h"
#include "tessera/kernels/fused_halves.h"
#include "tessera/kernels/norm.h"
#include "tessera/kernels/rope.h"
#include "tessera/kernels/vocabulary.h"
#include "tessera/kernels/weight_memory.h"

namespace tessera::bench {
namespace {

namespace mx = mlx::core;
using kernels::PackedLayout;
using kernels::PackedType;

mx::array random_array(mx::Shape shape) {
  std::size_t count = 1;
  for (const int n : shape) count *= static_cast<std::size_t>(n);
  const std::vector<float> values = random_values(count);
  return mx::array(values.data(), std::move(shape));
}

Work evaluate(std::function<mx::array()> build) {
  return {[build = std::move(build)] { mx::eval(build()); }};
}

void add_rowwise(std::vector<Case>& cases) {
  constexpr int kRows = 512;
  const auto add = [&](std::string name, double floats, double flop, auto prepare) {
    cases.push_back({.name = std::move(name),
                     .ceiling = Ceiling::kBandwidth,
                     .bytes = 4 * floats,
                     .flop = flop,
                     .prepare = [prepare](std::shared_ptr<base::ThreadPool> pool) {
                       return evaluate(prepare(kernels::Runtime{std::move(pool)}));
                     }});
  };
  const double norm = kRows * 4096.0;
  add("rms_norm/512x4096", 2 * norm, 4 * norm, [](const kernels::Runtime& runtime) {
    const mx::array x = random_array({kRows, 4096}), gain = random_array({4096});
    return [=] { return kernels::rms_norm(x, gain, 1e-5F, runtime); };
  });
  add("layer_norm/512x4096", 2 * norm, 8 * norm, [](const kernels::Runtime& runtime) {
    const mx::array x = random_array({kRows, 4096}), gain = random_array({4096});
    return [=] { return kernels::layer_norm(x, gain, gain, 1e-5F, runtime); };
  });
  const double inner = kRows * 14336.0;
  add("swiglu/512x14336", 3 * inner, 8 * inner, [](const kernels::Runtime& runtime) {
    const mx::array gate = random_array({kRows, 14336}), up = random_array({kRows, 14336});
    return [=] { return kernels::swiglu(gate, up, runtime); };
  });
  const double heads = kRows * 32.0 * 128;
  add("rope/32x512x128", 2 * heads, 3 * heads, [](const kernels::Runtime& runtime) {
    const mx::array x = random_array({1, 32, kRows, 128});
    const mx::array frequencies = mx::exp(mx::multiply(mx::arange(64.0F), mx::array(-0.14F)));
    mx::eval(frequencies);
    return [=] { return kernels::rope(x, {.frequencies = frequencies}, 100, runtime); };
  });
}

constexpr std::size_t kTokens = 128256;

/// The scores of a vocabulary, other ones each time.
void add_vocabulary(std::vector<Case>& cases) {
  const auto add = [&](const char* name, double flop, void (*choose)(std::span<const float>)) {
    cases.push_back(
        {.name = name,
         .ceiling = Ceiling::kBandwidth,
         .bytes = 4.0 * kTokens,
         .flop = flop * kTokens,
         .is_serial = true,
         .prepare = [choose](const std::shared_ptr<base::ThreadPool>&) {
           const std::size_t copies = copies_of(kTokens * sizeof(float));
           auto scores = std::make_shared<std::vector<float>>(random_values(copies * kTokens));
           auto next = std::make_shared<std::size_t>(0);
           return Work{[=] { choose(std::span(*scores).subspan((*next)++ % copies * kTokens, kTokens)); }};
         }});
  };
  add("argmax/128256", 1, [](std::span<const float> scores) { kernels::argmax(scores); });
  add("top_k/128256/k40", 1, [](std::span<const float> scores) { kernels::top_k(scores, 40); });
  add("log_sum_exp/128256", 12, [](std::span<const float> scores) { kernels::log_sum_exp(scores); });
}

// The default model: one new token after 128, 4-bit groups of 32.
constexpr int kHidden = 576, kHeads = 9, kKvHeads = 3, kDim = 64, kInner = 1536, kStored = 128;

PackedLayout layout(int rows, int columns) {
  return {.rows = rows, .columns = columns, .bits = 4, .group_size = 32, .type = PackedType::kFloat16};
}

const kernels::PageShape kPages{
    .page_tokens = 128, .n_kv_heads = kKvHeads, .key_dim = kDim, .value_dim = kDim, .dtype = mx::bfloat16};

std::size_t attention_bytes() {
  return 2 * layout(kHidden, kHidden).bytes() + 2 * layout(kKvHeads * kDim, kHidden).bytes();
}
std::size_t mlp_bytes() { return 2 * layout(kInner, kHidden).bytes() + layout(kHidden, kInner).bytes(); }

kernels::Projection projection(int rows, int columns, const kernels::Runtime& runtime) {
  return {random_matrices(layout(rows, columns), 1, runtime).front(), std::nullopt};
}

std::shared_ptr<const kernels::AttentionHalf> attention_half(const kernels::Runtime& runtime) {
  return kernels::make_attention_half(
      {.norm = mx::ones({kHidden}),
       .norm_eps = 1e-5F,
       .q = projection(kHeads * kDim, kHidden, runtime),
       .k = projection(kKvHeads * kDim, kHidden, runtime),
       .v = projection(kKvHeads * kDim, kHidden, runtime),
       .o = projection(kHidden, kHeads * kDim, runtime),
       .frequencies = mx::exp(mx::multiply(mx::arange(static_cast<float>(kDim / 2)), mx::array(-0.28F))),
       .n_heads = kHeads,
       .scale = 1.0F / std::sqrt(static_cast<float>(kDim))});
}

std::shared_ptr<const kernels::MlpHalf> mlp_half(const kernels::Runtime& runtime) {
  return kernels::make_mlp_half({.norm = mx::ones({kHidden}),
                                 .norm_eps = 1e-5F,
                                 .gate = projection(kInner, kHidden, runtime),
                                 .up = projection(kInner, kHidden, runtime),
                                 .down = projection(kHidden, kInner, runtime)});
}

/// As many layers as rotation asks for, one after the other.
Work attention_chain(const kernels::Runtime& runtime) {
  struct Layer {
    std::shared_ptr<const kernels::AttentionHalf> half;
    kernels::KvSlot slot;
  };
  const std::size_t count = copies_of(attention_bytes());
  const auto tables = random_tables(kPages, 2 * kStored, count);
  std::vector<Layer> layers;
  for (const auto& table : tables)
    layers.push_back({attention_half(runtime), {kPages, {{table, kStored}}, kernels::initial_fence()}});
  Work work = evaluate([layers = std::move(layers), first = random_array({1, 1, kHidden})] {
    mx::array x = first;
    for (const Layer& layer : layers) x = kernels::attention_half(x, layer.half, layer.slot, x).first;
    return x;
  });
  work.operations = static_cast<int>(count);
  return work;
}

Work mlp_chain(const kernels::Runtime& runtime) {
  const std::size_t count = copies_of(mlp_bytes());
  std::vector<std::shared_ptr<const kernels::MlpHalf>> layers;
  for (std::size_t i = 0; i < count; ++i) layers.push_back(mlp_half(runtime));
  Work work = evaluate([layers = std::move(layers), first = random_array({1, 1, kHidden})] {
    mx::array x = first;
    for (const auto& layer : layers) x = kernels::mlp_half(x, layer, x);
    return x;
  });
  work.operations = static_cast<int>(count);
  return work;
}

void add_halves(std::vector<Case>& cases) {
  const auto add = [&](const char* name, double bytes, double weights, double floor, auto chain) {
    cases.push_back({.name = name,
                     .ceiling = Ceiling::kBandwidth,
                     .bytes = bytes,
                     .flop = 2 * weights,
                     .floor = floor,
                     .prepare = [chain](std::shared_ptr<base::ThreadPool> pool) {
                       return chain(kernels::Runtime{.pool = std::move(pool),
                                                     .products = kernels::Products::kBFloat16,
                                                     .weights = std::make_shared<kernels::WeightMemory>()});
                     }});
  };
  const double stored = 2.0 * 2 * kKvHeads * kDim * kStored;
  add("attention_half/4bit/g32/default", static_cast<double>(attention_bytes()) + stored,
      2.0 * kHidden * (kHidden + kKvHeads * kDim), 0.2, attention_chain);
  add("mlp_half/4bit/g32/default", static_cast<double>(mlp_bytes()), 3.0 * kHidden * kInner, 0.3, mlp_chain);
}

}  // namespace

void add_layers(std::vector<Case>& cases) {
  add_rowwise(cases);
  add_vocabulary(cases);
  add_halves(cases);
}

}  // namespace tessera::bench
