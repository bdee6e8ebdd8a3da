// The fused halves of a layer against their composed form, on every instruction set of this processor.
#include "tessera/kernels/fused_halves.h"

#include "tessera/error.h"
#include "tessera/kernels/activation.h"
#include "tessera/kernels/attention.h"
#include "tessera/kernels/matmul.h"
#include "tessera/kernels/norm.h"
#include "tessera/kernels/rope.h"
#include "tests/arrays.h"
#include "tests/contracts/each_target.h"

namespace tessera {
namespace {

using kernels::Products;
using test::close;
using test::for_each_target;
using test::normal;
namespace mx = mlx::core;

// Fused and composed halves take the same products of the same rounded activations; what differs is the
// order of float32 sums (up to 128 terms here, twice in a row), and now and then an activation whose last
// float32 bit decides which way it is rounded to bfloat16: 2^-9 of one of 64 terms. An int8 activation
// that tips over moves by a 127th of its group's largest.
double bound_of(Products products) {
  switch (products) {
    case Products::kFloat32: return 1e-5;
    case Products::kBFloat16: return 2e-3;
    case Products::kInt8: return 1e-2;
  }
  return 0;
}

constexpr int kHidden = 64, kHeads = 4, kKvHeads = 2, kKeyDim = 32, kValueDim = 16, kInner = 96;

kernels::Runtime runtime(Products products, int threads = 2) {
  return {std::make_shared<base::ThreadPool>(threads), products};
}

kernels::Projection projection(int rows, int columns, uint64_t seed, const kernels::Runtime& run,
                               bool has_bias) {
  const auto parts = mx::quantize(mx::multiply(normal({rows, columns}, seed), mx::array(0.2F)), 32, 4);
  const tensor::QuantizedTensor w{parts[0], mx::astype(parts[1], mx::float16),
                                  mx::astype(parts[2], mx::float16), 32, 4};
  std::optional<mx::array> bias;
  if (has_bias) bias = normal({rows}, seed + 1);
  return {kernels::pack(w, run), bias};
}

std::shared_ptr<const kernels::AttentionHalf> attention_weights(const kernels::Runtime& run, bool has_bias) {
  return kernels::make_attention_half(
      {.norm = normal({kHidden}, 1),
       .norm_eps = 1e-5F,
       .q = projection(kHeads * kKeyDim, kHidden, 10, run, has_bias),
       .k = projection(kKvHeads * kKeyDim, kHidden, 20, run, has_bias),
       .v = projection(kKvHeads * kValueDim, kHidden, 30, run, has_bias),
       .o = projection(kHidden, kHeads * kValueDim, 40, run, has_bias),
       .frequencies = mx::divide(mx::array(1.0F), mx::arange(1.0F, 13.0F, 1.0F)),
       .n_heads = kHeads,
       .scale = 0.18F});
}

std::shared_ptr<const kernels::MlpHalf> mlp_weights(const kernels::Runtime& run, bool has_bias) {
  return kernels::make_mlp_half({.norm = normal({kHidden}, 2),
                                 .norm_eps = 1e-5F,
                                 .gate = projection(kInner, kHidden, 50, run, has_bias),
                                 .up = projection(kInner, kHidden, 60, run, has_bias),
                                 .down = projection(kHidden, kInner, 70, run, has_bias)});
}

/// A page table of its own memory.
std::shared_ptr<const kernels::PageTable> new_table(const kernels::PageShape& shape, int pages) {
  auto memory = std::make_shared<std::vector<std::byte>>(shape.page_bytes() * static_cast<std::size_t>(pages),
                                                         std::byte{0xff});
  auto table = std::make_shared<kernels::PageTable>();
  for (int i = 0; i < pages; ++i)
    table->pages.push_back(memory->data() + static_cast<std::size_t>(i) * shape.page_bytes());
  table->owner = memory;
  return table;
}

mx::array project(const mx::array& x, const kernels::Projection& p, const kernels::RowAdapters& adapters) {
  mx::array y = kernels::packed_matmul(x, p.matrix);
  if (p.bias) y = mx::add(y, *p.bias);
  if (adapters.empty()) return y;
  std::vector<mx::array> terms;
  for (int row = 0; row < x.shape(0); ++row) {
    const auto& adapter = adapters[static_cast<std::size_t>(row)];
    const mx::array rows = mx::slice(x, {row, 0, 0}, {row + 1, x.shape(1), x.shape(2)});
    terms.push_back(adapter ? mx::multiply(mx::matmul(mx::matmul(rows, mx::transpose(adapter->a)),
                                                      mx::transpose(adapter->b)),
                                           mx::array(adapter->scale))
                            : mx::zeros({1, x.shape(1), y.shape(2)}));
  }
  return mx::add(y, mx::concatenate(terms, 0));
}

/// [B, L, n D] -> [B, n, L, D].
mx::array heads(const mx::array& x, int n) {
  return mx::transpose(mx::reshape(x, {x.shape(0), x.shape(1), n, x.shape(2) / n}), {0, 2, 1, 3});
}

/// Rows one by one, over the same pages; returns [B, L, E].
mx::array composed_attention(const mx::array& x, const kernels::AttentionHalf& half,
                             const kernels::KvSlot& slot, const std::optional<mx::array>& residual,
                             const kernels::AttentionAdapters& adapters) {
  const mx::array normed = kernels::rms_norm(x, half.norm, half.norm_eps);
  const mx::array q = heads(project(normed, half.q, adapters.q), kHeads);
  const mx::array k = heads(project(normed, half.k, adapters.k), kKvHeads);
  const mx::array v = heads(project(normed, half.v, adapters.v), kKvHeads);
  const int length = x.shape(1);
  std::vector<mx::array> attended;
  for (int row = 0; row < x.shape(0); ++row) {
    const auto& place = slot.rows[static_cast<std::size_t>(row)];
    const auto of = [&](const mx::array& all) {
      return mx::slice(all, {row, 0, 0, 0}, {row + 1, all.shape(1), length, all.shape(3)});
    };
    const mx::array fence =
        kernels::write_pages(slot.shape, place.table, place.position,
                             kernels::rope(of(k), half.frequencies, place.position), of(v), slot.fence);
    const mx::array out =
        kernels::paged_attention(kernels::rope(of(q), half.frequencies, place.position),
                                 {slot.shape, place.table, place.position + length, fence, slot.window},
                                 half.scale, tensor::Mask::causal(), half.q.matrix.runtime);
    attended.push_back(mx::reshape(mx::transpose(out, {0, 2, 1, 3}), {1, length, kHeads * kValueDim}));
  }
  const mx::array y = project(mx::concatenate(attended, 0), half.o, adapters.o);
  return residual ? mx::add(*residual, y) : y;
}

mx::array composed_mlp(const mx::array& x, const kernels::MlpHalf& half,
                       const std::optional<mx::array>& residual, const kernels::MlpAdapters& adapters) {
  const mx::array normed = kernels::rms_norm(x, half.norm, half.norm_eps);
  const mx::array y = project(
      kernels::swiglu(project(normed, half.gate, adapters.gate), project(normed, half.up, adapters.up)),
      half.down, adapters.down);
  return residual ? mx::add(*residual, y) : y;
}

/// Adapters of different ranks, none for the last row.
kernels::RowAdapters adapters_of(const kernels::Projection& p, int batch, uint64_t seed) {
  kernels::RowAdapters adapters;
  for (int row = 0; row + 1 < batch; ++row) {
    const int rank = 3 + 5 * row;
    adapters.push_back(
        kernels::LowRank{normal({rank, p.matrix.layout.columns}, seed + static_cast<uint64_t>(row)),
                         normal({p.matrix.layout.rows, rank}, seed + 9), 0.05F});
  }
  adapters.emplace_back(std::nullopt);
  return adapters;
}

void check_attention_half() {
  int variant = 0;
  for (const Products products : {Products::kFloat32, Products::kBFloat16, Products::kInt8}) {
    const auto run = runtime(products);
    for (const int batch : {1, 3}) {
      for (const int length : {1, 2, 37}) {
        for (const int window : {0, 20}) {
          ++variant;
          SCOPED_TRACE(::testing::Message() << "products " << static_cast<int>(products) << ", " << batch
                                            << " rows of " << length << ", window " << window);
          const auto half = attention_weights(run, variant % 2 == 0);
          const kernels::PageShape shape{
              .page_tokens = 16,
              .n_kv_heads = kKvHeads,
              .key_dim = kKeyDim,
              .value_dim = kValueDim,
              .dtype = products == Products::kFloat32 ? mx::float32 : mx::bfloat16};
          ASSERT_TRUE(kernels::fits(*half, shape));
          const auto new_slot = [&] {
            kernels::KvSlot slot{shape, {}, kernels::initial_fence(), window};
            for (int row = 0; row < batch; ++row) {
              const int position = 21 * row;  // rows of different lengths
              slot.rows.push_back({new_table(shape, 8), position});
              if (position == 0) continue;
              slot.fence = kernels::write_pages(shape, slot.rows.back().table, 0,
                                                normal({1, kKvHeads, position, kKeyDim}, 80),
                                                normal({1, kKvHeads, position, kValueDim}, 81), slot.fence);
            }
            return slot;
          };
          const mx::array x = normal({batch, length, kHidden}, 3);
          kernels::AttentionAdapters adapters;
          if (variant % 3 == 0) {
            adapters.q = adapters_of(half->q, batch, 90);
            adapters.v = adapters_of(half->v, batch, 91);
            adapters.o = adapters_of(half->o, batch, 92);
          }
          const auto residual =
              variant % 4 == 1 ? std::nullopt : std::optional(normal({batch, length, kHidden}, 4));
          const kernels::KvSlot slot = new_slot();
          const auto [fused, fence] = kernels::attention_half(x, half, slot, residual, adapters);
          const mx::array composed = composed_attention(x, *half, new_slot(), residual, adapters);
          EXPECT_TRUE(close(fused, composed, bound_of(products)));
          EXPECT_EQ(fence.item<int>(), length);

          const auto alone = attention_weights(runtime(products, 1), variant % 2 == 0);
          const mx::array one_thread =
              kernels::attention_half(x, alone, new_slot(), residual, adapters).first;
          EXPECT_TRUE(mx::array_equal(fused, one_thread).item<bool>()) << "threads";

          // What it wrote is what the composed form reads in the next step.
          kernels::KvSlot next = slot;
          next.fence = fence;
          for (auto& row : next.rows) row.position += length;
          const mx::array token = normal({batch, 1, kHidden}, 5);
          const mx::array after = composed_attention(token, *half, next, std::nullopt, {});
          EXPECT_TRUE(close(kernels::attention_half(token, half, next).first, after, bound_of(products)));
        }
      }
    }
  }
}

TEST(AttentionHalf, EqualsItsComposedForm) { for_each_target(check_attention_half); }

void check_mlp_half() {
  int variant = 0;
  for (const Products products : {Products::kFloat32, Products::kBFloat16, Products::kInt8}) {
    for (const int batch : {1, 3}) {
      for (const int length : {1, 2, 37}) {
        ++variant;
        SCOPED_TRACE(::testing::Message()
                     << "products " << static_cast<int>(products) << ", " << batch << " rows of " << length);
        const auto half = mlp_weights(runtime(products), variant % 2 == 0);
        const mx::array x = normal({batch, length, kHidden}, 6);
        const auto residual =
            variant % 3 == 1 ? std::nullopt : std::optional(normal({batch, length, kHidden}, 7));
        kernels::MlpAdapters adapters;
        if (variant % 2 == 1) {
          adapters.gate = adapters_of(half->gate, batch, 93);
          adapters.up = adapters_of(half->up, batch, 94);
          adapters.down = adapters_of(half->down, batch, 95);
        }
        const mx::array fused = kernels::mlp_half(x, half, residual, adapters);
        EXPECT_TRUE(close(fused, composed_mlp(x, *half, residual, adapters), bound_of(products)));
        const auto alone = mlp_weights(runtime(products, 1), variant % 2 == 0);
        EXPECT_TRUE(mx::array_equal(fused, kernels::mlp_half(x, alone, residual, adapters)).item<bool>())
            << "threads";
      }
    }
  }
}

TEST(MlpHalf, EqualsItsComposedForm) { for_each_target(check_mlp_half); }

TEST(FusedHalves, RefuseWhatDoesNotFit) {
  const auto run = runtime(Products::kFloat32);
  const auto mlp = mlp_weights(run, false);
  EXPECT_THROW(kernels::mlp_half(normal({1, 1, 32}, 1), mlp), Error);
  EXPECT_THROW(kernels::mlp_half(normal({1, 64}, 1), mlp), Error);
  EXPECT_THROW(kernels::mlp_half(normal({1, 1, 64}, 1, mx::bfloat16), mlp), Error);
  EXPECT_THROW(kernels::mlp_half(normal({1, 1, 64}, 1), mlp, normal({1, 2, 64}, 1)), Error);
  kernels::MlpAdapters adapters;
  adapters.up = {kernels::LowRank{normal({2, 63}, 1), normal({kInner, 2}, 1)}};
  EXPECT_THROW(kernels::mlp_half(normal({1, 1, 64}, 1), mlp, std::nullopt, adapters), Error);
  adapters.up = {std::nullopt, std::nullopt};
  EXPECT_THROW(kernels::mlp_half(normal({1, 1, 64}, 1), mlp, std::nullopt, adapters), Error);

  const auto attention = attention_weights(run, false);
  kernels::PageShape shape{
      .page_tokens = 16, .n_kv_heads = kKvHeads, .key_dim = kKeyDim, .value_dim = kValueDim};
  const kernels::KvSlot slot{shape, {{new_table(shape, 1), 0}}, kernels::initial_fence()};
  EXPECT_THROW(kernels::attention_half(normal({2, 1, 64}, 1), attention, slot), Error);
  shape.page_tokens = 12;
  EXPECT_FALSE(kernels::fits(*attention, shape));
  shape.page_tokens = 16;
  shape.key_dim = 16;
  EXPECT_FALSE(kernels::fits(*attention, shape));
  EXPECT_THROW(kernels::make_mlp_half({.gate = projection(kInner, kHidden, 1, run, false),
                                       .up = projection(kInner, kHidden, 2, run, false),
                                       .down = projection(kHidden, kHidden, 3, run, false)}),
               Error);
}

}  // namespace
}  // namespace tessera
