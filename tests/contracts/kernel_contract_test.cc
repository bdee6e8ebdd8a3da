// The kernel contract: every implementation this processor runs, against the plain reference.
#include "tessera/error.h"
#include "tessera/kernels/attention.h"
#include "tessera/kernels/cpu/targets.h"
#include "tessera/kernels/embedding.h"
#include "tessera/kernels/matmul.h"
#include "tessera/kernels/pages.h"
#include "tessera/kernels/reference/attention.h"
#include "tessera/kernels/reference/matmul.h"
#include "tests/arrays.h"
#include "tests/contracts/each_target.h"

namespace tessera {
namespace {

using test::close;
using test::for_each_target;
using test::normal;
namespace mx = mlx::core;

std::shared_ptr<base::ThreadPool> pool(int threads = 2) {
  return std::make_shared<base::ThreadPool>(threads);
}

kernels::Runtime runtime(int threads = 2, kernels::Products products = kernels::Products::kFloat32) {
  return {pool(threads), products};
}

bool equal_bits(const mx::array& a, const mx::array& b) {
  return a.shape() == b.shape() && a.dtype() == b.dtype() && mx::array_equal(a, b).item<bool>();
}

/// A quantized matrix [rows, columns] with scales in `type`.
tensor::QuantizedTensor quantized(int rows, int columns, int bits, int group, mx::Dtype type, uint64_t seed) {
  const auto parts = mx::quantize(normal({rows, columns}, seed), group, bits);
  return {parts[0], mx::astype(parts[1], type), mx::astype(parts[2], type), group, bits};
}

tensor::QuantizedTensor widened(const tensor::QuantizedTensor& w) {
  return {w.w, mx::astype(w.scales, mx::float32), mx::astype(*w.biases, mx::float32), w.group_size, w.bits};
}

constexpr mx::Dtype kTypes[] = {mx::float32, mx::float16, mx::bfloat16};
constexpr int kBits[] = {2, 3, 4, 5, 6, 8};

TEST(PackedMatrix, UnpacksBitForBit) {
  const auto threads = runtime();
  for (const int bits : kBits) {
    for (const int group : {32, 64, 128}) {
      const auto type = kTypes[static_cast<std::size_t>(bits + group / 32) % 3];
      const auto w = quantized(37, 256, bits, group, type, 1);
      ASSERT_TRUE(kernels::can_pack(w));
      const auto back = std::get<tensor::QuantizedTensor>(kernels::unpack(kernels::pack(w, threads)));
      EXPECT_TRUE(equal_bits(back.w, w.w) && equal_bits(back.scales, w.scales) &&
                  equal_bits(*back.biases, *w.biases))
          << bits << " bits, group " << group;
    }
  }
  for (const mx::Dtype type : kTypes) {
    const mx::array dense = normal({19, 96}, 2, type);
    EXPECT_TRUE(equal_bits(std::get<mx::array>(kernels::unpack(kernels::pack(dense, threads))), dense));
  }
}

TEST(PackedMatrix, TakesOnlyWhatTheKernelsRead) {
  EXPECT_FALSE(kernels::can_pack(normal({4, 40}, 1)));
  EXPECT_FALSE(kernels::can_pack(mx::zeros({4, 32}, mx::int32)));
  const auto parts = mx::quantize(normal({8, 64}, 1), 32, 4, "mxfp4");
  EXPECT_FALSE(kernels::can_pack(tensor::QuantizedTensor{parts[0], parts[1], std::nullopt, 32, 4, "mxfp4"}));
}

TEST(Targets, AreForcedByNameAndGivenBack) {
  const std::string before = kernels::cpu::target().name;
  {
    const kernels::cpu::ForcedTarget forced("baseline");
    EXPECT_STREQ(kernels::cpu::target().name, "baseline");
  }
  EXPECT_EQ(kernels::cpu::target().name, before);
  EXPECT_THROW(kernels::cpu::ForcedTarget("z80"), Error);
}

// A float32 sum of K products of unit-normal numbers: K terms, each rounded to 2^-24 of sums of size
// about sqrt(K), stay within K * 2^-24 * sqrt(K) / sqrt(K); against the largest of a row the observed
// error is far smaller. 256 * 2^-24 = 1.5e-5.
constexpr double kSum = 1.5e-5;

constexpr kernels::Products kProducts[] = {kernels::Products::kFloat32, kernels::Products::kBFloat16,
                                           kernels::Products::kInt8};

/// A whole number that rounds the other way near a tie changes a product by (unit) x (weight): with the
/// int8 tier's units of 1/127 of a group's largest activation (up to 4) and weights up to 4, a few such
/// ties among 256 columns move the largest result (about 50) by at most 3 * 0.13 / 50.
double bound_of(kernels::Products products) { return products == kernels::Products::kInt8 ? 8e-3 : kSum; }

TEST(PackedMatmul, EveryImplementationEqualsTheReference) {
  const auto threads = pool();
  for_each_target([&] {
    for (const kernels::Products products : kProducts) {
      SCOPED_TRACE(static_cast<int>(products));
      for (const int bits : kBits) {
        for (const int rows : {1, 15, 16, 33, 70}) {
          for (const int m : {1, 2, 3, 4, 5, 12, 13, 17, 27}) {
            const int group = 32 << (bits + rows + m) % 3;
            const mx::Dtype type = kTypes[static_cast<std::size_t>(bits * rows + m) % 3];
            const auto w = quantized(rows, 384, bits, group, type, static_cast<uint64_t>(bits * 100 + rows));
            const mx::array x = normal({m, 384}, static_cast<uint64_t>(m));
            const mx::array actual = kernels::packed_matmul(x, kernels::pack(w, {threads, products}));
            const mx::array rounded = kernels::reference::round_activations(x, products, group);
            EXPECT_TRUE(close(actual, kernels::reference::quantized_matmul(rounded, widened(w), true),
                              bound_of(products)))
                << bits << " bits, group " << group << ", " << rows << " rows, m " << m;
          }
        }
      }
      for (const mx::Dtype type : kTypes) {
        for (const int m : {1, 2, 4, 11, 12, 17}) {
          const mx::array w = normal({69, 416}, 7, type);
          const mx::array x = normal({m, 416}, 8);
          const mx::array actual = kernels::packed_matmul(x, kernels::pack(w, {threads, products}));
          const bool is_rounded = type == mx::bfloat16 && products != kernels::Products::kFloat32;
          const mx::array rounded = kernels::reference::round_activations(
              x, is_rounded ? kernels::Products::kBFloat16 : kernels::Products::kFloat32, 416);
          EXPECT_TRUE(close(actual, kernels::reference::matmul_transposed(rounded, w), kSum)) << m;
        }
      }
    }
  });
}

TEST(PackedMatmul, AddsAResidual) {
  for_each_target([&] {
    for (const kernels::Products products : kProducts) {
      for (const int m : {1, 5, 30}) {
        const auto w = kernels::pack(quantized(70, 128, 4, 32, mx::float16, 51), runtime(2, products));
        const mx::array x = normal({m, 128}, 52);
        const mx::array residual = normal({m, 70}, 53);
        EXPECT_TRUE(close(kernels::packed_matmul(x, w, residual),
                          mx::add(residual, kernels::packed_matmul(x, w)), 2e-7));
      }
    }
  });
  const auto w = kernels::pack(normal({8, 32}, 54), runtime());
  EXPECT_THROW(kernels::packed_matmul(normal({2, 32}, 1), w, normal({2, 7}, 1)), Error);
  const mx::array gradient = mx::grad([&](const mx::array& residual) {
    return mx::sum(mx::square(kernels::packed_matmul(mx::zeros({2, 32}), w, residual)));
  })(mx::full({2, 8}, 3.0F));
  EXPECT_TRUE(close(gradient, mx::full({2, 8}, 6.0F), 0.0));
}

TEST(PackedMatmul, TakesStridedAndHalfPrecisionInput) {
  const auto w = quantized(40, 64, 4, 32, mx::float16, 3);
  const auto packed = kernels::pack(w, runtime());
  const mx::array strided = mx::transpose(normal({64, 3}, 4));
  EXPECT_TRUE(close(kernels::packed_matmul(strided, packed),
                    kernels::reference::quantized_matmul(mx::contiguous(strided), widened(w), true), kSum));
  const mx::array half = normal({2, 3, 64}, 5, mx::bfloat16);
  const mx::array actual = kernels::packed_matmul(half, packed);
  EXPECT_EQ(actual.dtype(), mx::bfloat16);
  // One rounding to eight bits at the end.
  EXPECT_TRUE(close(actual,
                    kernels::reference::quantized_matmul(mx::astype(half, mx::float32), widened(w), true),
                    1.0 / 256));
  EXPECT_THROW(kernels::packed_matmul(normal({2, 32}, 1), packed), Error);
}

TEST(PackedMatmul, DamageShowsAndTheSmallestNumbersDoNotLookLikeIt) {
  const auto with = [](float value) {
    return mx::where(mx::equal(mx::arange(64), mx::array(3)), mx::array(value), normal({2, 64}, 55));
  };
  for_each_target([&] {
    for (const kernels::Products products : kProducts) {
      for (const int bits : {4, 8}) {
        const auto w = kernels::pack(quantized(20, 64, bits, 32, mx::float16, 56), runtime(2, products));
        const auto all = [](const mx::array& x) { return mx::all(x).item<bool>(); };
        EXPECT_TRUE(all(mx::isnan(kernels::packed_matmul(with(std::nanf("")), w)))) << bits;
        for (const float tiny : {1e-36F, 1e-37F, 1e-38F, 1e-42F})
          EXPECT_TRUE(all(mx::isfinite(kernels::packed_matmul(mx::full({1, 64}, tiny), w)))) << tiny;
      }
    }
  });
}

TEST(PackedMatmul, DoesNotDependOnTheThreads) {
  const auto w = quantized(531, 256, 4, 64, mx::bfloat16, 6);
  for (const kernels::Products products : kProducts) {
    for (const int m : {1, 3, 30}) {
      const mx::array x = normal({m, 256}, 7);
      const mx::array one = kernels::packed_matmul(x, kernels::pack(w, runtime(1, products)));
      for (const int threads : {2, 3, 7}) {
        const auto packed = kernels::pack(w, runtime(threads, products));
        EXPECT_TRUE(equal_bits(one, kernels::packed_matmul(x, packed))) << threads;
      }
    }
  }
}

TEST(PackedMatmul, GradientIsTheUntransposedProduct) {
  const auto w = quantized(40, 64, 4, 32, mx::float32, 8);
  const auto packed = kernels::pack(w, runtime());
  const mx::array x = normal({3, 64}, 9);
  // A sum makes the cotangent a broadcast scalar, with strides of 0.
  const mx::array gradient =
      mx::grad([&](const mx::array& v) { return mx::sum(kernels::packed_matmul(v, packed)); })(x);
  const mx::array expected = mx::grad([&](const mx::array& v) {
    return mx::sum(mx::matmul(v, mx::transpose(tensor::dequantize(w, mx::float32))));
  })(x);
  EXPECT_TRUE(close(gradient, expected, kSum));
}

TEST(PackedMatmul, SeveralMatricesTogetherEqualEachAlone) {
  const auto threads = runtime();
  const mx::array x = normal({3, 128}, 41);
  const std::vector<kernels::PackedMatrix> matrices{
      kernels::pack(quantized(40, 128, 4, 32, mx::float16, 42), threads),
      kernels::pack(quantized(7, 128, 8, 64, mx::float32, 43), threads),
      kernels::pack(normal({33, 128}, 44, mx::bfloat16), threads)};
  const auto together = kernels::packed_matmul(x, matrices);
  ASSERT_EQ(together.size(), 3U);
  for (std::size_t i = 0; i < 3; ++i)
    EXPECT_TRUE(equal_bits(together[i], kernels::packed_matmul(x, matrices[i])));
  const auto loss = [&](auto products) {
    return mx::grad([&](const mx::array& v) {
      const std::vector<mx::array> y = products(v);
      return mx::add(mx::sum(mx::square(y[0])), mx::add(mx::sum(y[1]), mx::sum(mx::square(y[2]))));
    })(x);
  };
  const mx::array gradient = loss([&](const mx::array& v) { return kernels::packed_matmul(v, matrices); });
  const mx::array expected = loss([&](const mx::array& v) {
    std::vector<mx::array> y;
    for (const auto& matrix : matrices) y.push_back(kernels::packed_matmul(v, matrix));
    return y;
  });
  EXPECT_TRUE(close(gradient, expected, kSum));
  EXPECT_THROW(kernels::packed_matmul(normal({3, 64}, 1), matrices), Error);
}

TEST(PackedRows, EqualTheDequantizedRows) {
  const mx::array token_ids = mx::array({3, 36, 0, 17}, {2, 2}, mx::int32);
  for (const int bits : kBits) {
    const auto w = quantized(37, 128, bits, 32, kTypes[static_cast<std::size_t>(bits) % 3], 10);
    const mx::array actual = kernels::embedding_rows(token_ids, kernels::pack(w, runtime()), mx::float32);
    // One product and one sum, which the compiler may fuse: a rounding of 2^-24 of either.
    EXPECT_TRUE(close(actual, kernels::embedding_rows(token_ids, widened(w), mx::float32), 2e-7)) << bits;
  }
  const mx::array dense = normal({37, 64}, 11, mx::bfloat16);
  EXPECT_TRUE(close(kernels::embedding_rows(token_ids, kernels::pack(dense, runtime()), mx::float32),
                    mx::take(dense, token_ids, 0), 0.0));
  const mx::array outside =
      kernels::embedding_rows(mx::array({37}, mx::int32), kernels::pack(dense, runtime()), mx::float32);
  EXPECT_TRUE(mx::all(mx::isnan(outside)).item<bool>());
}

/// To bfloat16 and back.
mx::array rounded(const mx::array& x) { return mx::astype(mx::astype(x, mx::bfloat16), mx::float32); }

// exp within 2 units in the last place, sums of up to 1300 terms.
constexpr double kAttention = 1e-5;
// Probabilities are rounded to bfloat16, 2^-9 of each at most: independent errors of that size leave a sum
// with a root mean square of 2^-10 of its own; eight times that is beyond the largest of thousands.
constexpr double kRoundedAttention = 8.0 / 1024;

void check_attention() {
  struct Case {
    int batch, heads, kv_heads, length, stored, key_dim, value_dim;
  };
  for (const Case& c :
       {Case{1, 4, 2, 1, 1, 16, 16}, Case{1, 9, 3, 1, 63, 64, 64}, Case{1, 9, 3, 1, 65, 64, 64},
        Case{2, 4, 4, 1, 1300, 32, 48}, Case{1, 9, 3, 5, 5, 64, 64}, Case{1, 8, 1, 33, 97, 80, 80},
        Case{1, 4, 2, 70, 200, 128, 128}, Case{2, 2, 2, 64, 64, 18, 32}, Case{1, 6, 2, 2, 513, 64, 64},
        Case{1, 2, 1, 3, 130, 256, 256}, Case{1, 5, 5, 40, 40, 96, 96}, Case{1, 7, 1, 1, 4500, 32, 16}}) {
    const mx::array q = normal({c.batch, c.heads, c.length, c.key_dim}, 12);
    const mx::array k = normal({c.batch, c.kv_heads, c.stored, c.key_dim}, 13);
    const mx::array v = normal({c.batch, c.kv_heads, c.stored, c.value_dim}, 14);
    const mx::array allowed =
        mx::logical_or(mx::greater(normal({c.batch, 1, c.length, c.stored}, 15), mx::array(0.0F)),
                       mx::equal(mx::arange(c.stored), mx::array(0)));
    const mx::array additive = normal({c.heads, c.length, c.stored}, 16);
    for (const auto& mask : {tensor::Mask::none(), tensor::Mask::causal(), tensor::Mask::of(allowed),
                             tensor::Mask::of(additive)}) {
      SCOPED_TRACE(::testing::Message() << c.length << " of " << c.stored << ", dim " << c.key_dim
                                        << ", mask " << static_cast<int>(mask.mode));
      const mx::array actual = kernels::attention(q, k, v, 0.2F, mask, runtime());
      EXPECT_TRUE(close(actual, kernels::reference::attention(q, k, v, 0.2F, mask), kAttention));
      EXPECT_TRUE(equal_bits(actual, kernels::attention(q, k, v, 0.2F, mask, runtime(1)))) << "threads";
      const auto bf16 = runtime(2, kernels::Products::kBFloat16);
      const mx::array exact = kernels::reference::attention(rounded(q), rounded(k), rounded(v), 0.2F, mask);
      EXPECT_TRUE(close(kernels::attention(q, k, v, 0.2F, mask, bf16), exact, kRoundedAttention));
    }
  }
}

TEST(AttentionKernel, EveryTargetEqualsTheReference) { for_each_target(check_attention); }

TEST(AttentionKernel, GradientIsTheReferences) {
  const mx::array q = normal({1, 4, 5, 16}, 21), k = normal({1, 2, 9, 16}, 22), v = normal({1, 2, 9, 16}, 23);
  const auto loss = [&](const kernels::Runtime& run) {
    return mx::grad(
        [&](const std::vector<mx::array>& in) {
          return mx::sum(
              mx::square(kernels::attention(in[0], in[1], in[2], 0.3F, tensor::Mask::causal(), run)));
        },
        {0, 1, 2})({q, k, v});
  };
  const auto actual = loss(runtime());
  const auto expected = loss({});
  for (std::size_t i = 0; i < 3; ++i) EXPECT_TRUE(close(actual[i], expected[i], kAttention)) << i;
}

TEST(AttentionKernel, DamageShowsWhereItIsVisible) {
  for_each_target([&] {
    for (const auto products : {kernels::Products::kFloat32, kernels::Products::kBFloat16}) {
      // The newest key is NaN: the last query sees it, the others do not.
      const mx::array is_last = mx::reshape(mx::equal(mx::arange(70), mx::array(69)), {1, 1, 70, 1});
      const mx::array k = mx::where(is_last, mx::array(std::nanf("")), normal({1, 1, 70, 16}, 57));
      for (const int length : {1, 2, 7}) {
        const mx::array q = normal({1, 2, length, 16}, 58);
        const mx::array is_nan = mx::isnan(kernels::attention(q, k, normal({1, 1, 70, 16}, 59), 0.3F,
                                                              tensor::Mask::causal(), runtime(2, products)));
        const mx::array expected = mx::broadcast_to(
            mx::reshape(mx::equal(mx::arange(length), mx::array(length - 1)), {1, 1, length, 1}),
            is_nan.shape());
        EXPECT_TRUE(mx::array_equal(is_nan, expected).item<bool>()) << length;
      }
    }
  });
}

TEST(AttentionKernel, AQueryThatSeesNothingIsZero) {
  const mx::array x = normal({1, 1, 2, 16}, 24);
  const mx::array mask = mx::array({true, false, false, false}, {1, 1, 2, 2});
  const mx::array out = kernels::attention(x, x, x, 1.0F, tensor::Mask::of(mask), runtime());
  EXPECT_TRUE(equal_bits(mx::slice(out, {0, 0, 1, 0}, {1, 1, 2, 16}), mx::zeros({1, 1, 1, 16})));
}

/// Pages of one row in memory that begins as NaN, as memory that was used before may.
struct Pages {
  Pages(kernels::PageShape shape, int count)
      : shape(shape), memory(shape.page_bytes() * static_cast<std::size_t>(count), std::byte{0xff}) {
    auto pages = std::make_shared<kernels::PageTable>();
    // Not in the order of addresses.
    for (int i = 0; i < count; ++i)
      pages->pages.push_back(memory.data() + static_cast<std::size_t>(count - 1 - i) * shape.page_bytes());
    table = std::move(pages);
  }
  kernels::PageShape shape;
  std::vector<std::byte> memory;
  std::shared_ptr<const kernels::PageTable> table;
};

void check_paged_attention() {
  for (const mx::Dtype dtype : {mx::float32, mx::bfloat16}) {
    for (const int page_tokens : {16, 48, 128}) {
      for (const int stored : {1, 15, 49, 300}) {
        for (const int window : {0, 1, 33}) {
          const kernels::PageShape shape{
              .page_tokens = page_tokens, .n_kv_heads = 2, .key_dim = 48, .value_dim = 80, .dtype = dtype};
          Pages pages(shape, (stored + page_tokens - 1) / page_tokens);
          const mx::array k = normal({1, 2, stored, 48}, 61), v = normal({1, 2, stored, 80}, 62);
          const mx::array fence = kernels::write_pages(shape, pages.table, 0, k, v, kernels::initial_fence());
          const kernels::PagedKeys keys{shape, pages.table, stored, fence, window};
          for (const int length : {1, 7, 45}) {
            if (length > stored) continue;
            SCOPED_TRACE(::testing::Message() << length << " of " << stored << ", pages of " << page_tokens
                                              << ", window " << window);
            const mx::array q = normal({1, 6, length, 48}, 63);
            const mx::array actual =
                kernels::paged_attention(q, keys, 0.2F, tensor::Mask::causal(), runtime());
            const mx::array again =
                kernels::paged_attention(q, keys, 0.2F, tensor::Mask::causal(), runtime(3));
            EXPECT_TRUE(equal_bits(actual, again));
            // Without a pool the pages are gathered for the reference.
            const bool is_rounded = dtype == mx::bfloat16;
            const mx::array expected =
                kernels::paged_attention(is_rounded ? rounded(q) : q, keys, 0.2F, tensor::Mask::causal());
            EXPECT_TRUE(close(actual, expected, is_rounded ? kRoundedAttention : kAttention));
          }
        }
      }
    }
  }
}

TEST(PagedAttention, EveryTargetEqualsTheReference) { for_each_target(check_paged_attention); }

TEST(AttentionKernel, HonoursStrides) {
  const auto heads_inside = [](mx::Shape shape, uint64_t seed) {
    return mx::transpose(normal(shape, seed), {0, 2, 1, 3});
  };
  const mx::array q = heads_inside({1, 7, 4, 16}, 31);
  const mx::array k = heads_inside({1, 9, 2, 16}, 32);
  const mx::array v = heads_inside({1, 9, 2, 16}, 33);
  const mx::array actual = kernels::attention(q, k, v, 0.3F, tensor::Mask::causal(), runtime());
  EXPECT_TRUE(close(actual, kernels::reference::attention(q, k, v, 0.3F, tensor::Mask::causal()), 1e-5));
}

TEST(AttentionKernel, StaysFiniteForLargeScores) {
  const mx::array q = mx::multiply(normal({1, 2, 3, 16}, 15), mx::array(1000.0F));
  const mx::array k = normal({1, 1, 130, 16}, 16);
  const mx::array v = normal({1, 1, 130, 16}, 17);
  EXPECT_TRUE(close(kernels::attention(q, k, v, 1.0F, tensor::Mask::causal(), runtime()),
                    kernels::reference::attention(q, k, v, 1.0F, tensor::Mask::causal()), 1e-3));
}

}  // namespace
}  // namespace tessera
