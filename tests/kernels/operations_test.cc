// Every operation against goldens that MLX and float64 NumPy made (fixtures/operations).
#include "tessera/error.h"
#include "tessera/kernels/activation.h"
#include "tessera/kernels/attention.h"
#include "tessera/kernels/embedding.h"
#include "tessera/kernels/matmul.h"
#include "tessera/kernels/norm.h"
#include "tessera/kernels/rope.h"
#include "tests/arrays.h"

namespace tessera {
namespace {

using test::close;
using test::load_fixture;
using test::normal;
namespace mx = mlx::core;

// Float32 sums of a few hundred products stay within some hundred units in the last place.
constexpr double kFloat32 = 2e-5;

TEST(RmsNorm, EqualsGoldenWithAndWithoutGain) {
  const auto golden = load_fixture("operations/rms_norm.safetensors");
  const auto eps = golden.at("eps").item<float>();
  EXPECT_TRUE(
      close(kernels::rms_norm(golden.at("x"), golden.at("weight"), eps), golden.at("y_exact"), kFloat32));
  const mx::array ungained = kernels::rms_norm(golden.at("x"), std::nullopt, eps);
  EXPECT_TRUE(close(mx::multiply(ungained, golden.at("weight")), golden.at("y_exact"), kFloat32));
}

TEST(RmsNorm, KeepsTheDtypeOfItsInput) {
  const mx::array y = kernels::rms_norm(normal({2, 8}, 1, mx::bfloat16), normal({8}, 2), 1e-5F);
  EXPECT_EQ(y.dtype(), mx::bfloat16);
}

TEST(RmsNorm, RefusesAGainOfAnotherSize) {
  EXPECT_THROW(kernels::rms_norm(normal({2, 8}, 1), normal({7}, 2), 1e-5F), Error);
}

TEST(Rope, EqualsGolden) {
  const auto golden = load_fixture("operations/rope_default.safetensors");
  // Angles reach 67 radians: float32 leaves them an error of some 4e-6.
  EXPECT_TRUE(close(kernels::rope(golden.at("x"), golden.at("frequencies"), 0), golden.at("y_exact_offset_0"),
                    kFloat32));
  EXPECT_TRUE(close(kernels::rope(golden.at("x"), golden.at("frequencies"), 61),
                    golden.at("y_exact_offset_61"), kFloat32));
}

TEST(Rope, RotatesTheFirstDimsOnly) {
  const mx::array x = normal({1, 2, 3, 8}, 3);
  const mx::array y = kernels::rope(x, mx::array({0.5F, 0.25F}), 2);
  EXPECT_TRUE(close(mx::slice(y, {0, 0, 0, 4}, {1, 2, 3, 8}), mx::slice(x, {0, 0, 0, 4}, {1, 2, 3, 8}), 0.0));
  EXPECT_THROW(kernels::rope(x, normal({5}, 1), 0), Error);
}

class QuantizedOperations : public ::testing::TestWithParam<std::tuple<int, int>> {};

TEST_P(QuantizedOperations, EqualGoldens) {
  const auto [bits, group] = GetParam();
  const auto golden = load_fixture("operations/quantized_b" + std::to_string(bits) + "_g" +
                                   std::to_string(group) + ".safetensors");
  const tensor::QuantizedTensor w{golden.at("w"), golden.at("scales"), golden.at("biases"), group, bits};
  EXPECT_TRUE(close(tensor::dequantize(w, mx::float32), golden.at("dequantized"), kFloat32));
  EXPECT_TRUE(close(kernels::quantized_matmul(golden.at("x"), w), golden.at("y_exact"), kFloat32));
  EXPECT_TRUE(close(kernels::quantized_matmul(golden.at("x_untransposed"), w, false),
                    golden.at("y_untransposed"), kFloat32));
  EXPECT_TRUE(
      close(kernels::embedding_rows(golden.at("ids"), w, mx::float32), golden.at("embedding"), kFloat32));
}

INSTANTIATE_TEST_SUITE_P(BitsAndGroups, QuantizedOperations,
                         ::testing::Combine(::testing::Values(2, 3, 4, 5, 6, 8), ::testing::Values(32, 64)));

TEST(QuantizedOperations, FloatingPointModesEqualTheirDequantizedMatrix) {
  struct Mode {
    const char* name;
    int bits, group_size;
  };
  for (const Mode& mode : {Mode{"mxfp4", 4, 32}, Mode{"mxfp8", 8, 32}, Mode{"nvfp4", 4, 16}}) {
    const auto parts = mx::quantize(normal({48, 128}, 21), mode.group_size, mode.bits, mode.name);
    const tensor::QuantizedTensor w{parts[0], parts[1], std::nullopt, mode.group_size, mode.bits, mode.name};
    ASSERT_NO_THROW(tensor::validate(w, "test")) << mode.name;
    const mx::array dense = tensor::dequantize(w, mx::float32);
    const mx::array x = normal({3, 128}, 22);
    EXPECT_TRUE(close(kernels::quantized_matmul(x, w), mx::matmul(x, mx::transpose(dense)), kFloat32))
        << mode.name;
    const mx::array token_ids = mx::array({5, 0, 47}, {3}, mx::int32);
    EXPECT_TRUE(close(kernels::embedding_rows(token_ids, w, mx::float32), mx::take(dense, token_ids, 0), 0.0))
        << mode.name;
  }
}

TEST(QuantizedTensor, RefusesCombinationsThatCannotBeComputed) {
  const auto golden = load_fixture("operations/quantized_b4_g32.safetensors");
  const tensor::QuantizedTensor good{golden.at("w"), golden.at("scales"), golden.at("biases"), 32, 4};
  const auto refused = [&](auto change) {
    tensor::QuantizedTensor w = good;
    change(w);
    EXPECT_THROW(tensor::validate(w, "test"), Error);
  };
  EXPECT_NO_THROW(tensor::validate(good, "test"));
  refused([](auto& w) { w.bits = 7; });
  refused([](auto& w) { w.group_size = 16; });
  refused([](auto& w) { w.group_size = 0; });
  refused([](auto& w) { w.mode = "nf4"; });
  refused([](auto& w) { w.mode = "mxfp4"; });
  refused([](auto& w) { w.biases.reset(); });
  refused([](auto& w) { w.scales = mx::astype(w.scales, mx::int32); });
  refused([](auto& w) { w.w = mx::zeros({0, 1 << 30}, mx::uint32); });
}

TEST(QuantizedMatmul, RefusesShapesThatDoNotFit) {
  const auto golden = load_fixture("operations/quantized_b4_g32.safetensors");
  tensor::QuantizedTensor w{golden.at("w"), golden.at("scales"), golden.at("biases"), 32, 4};
  EXPECT_THROW(kernels::quantized_matmul(normal({2, 255}, 4), w), Error);
  w.group_size = 64;
  EXPECT_THROW(tensor::validate(w, "test"), Error);
}

TEST(MatmulTransposed, EqualsAHandComputation) {
  const mx::array x = mx::array({1.0F, 2.0F}, {1, 2});
  const mx::array w = mx::array({1.0F, 10.0F, 100.0F, 1000.0F, -1.0F, 0.5F}, {3, 2});
  EXPECT_EQ(test::values(kernels::matmul_transposed(x, w)), (std::vector<float>{21.0F, 2100.0F, 0.0F}));
  EXPECT_THROW(kernels::matmul_transposed(normal({1, 3}, 1), w), Error);
}

TEST(Swiglu, EqualsItsFormula) {
  const mx::array gate = mx::array({-2.0F, 0.0F, 3.0F});
  const mx::array up = mx::array({5.0F, 7.0F, -1.0F});
  const auto actual = test::values(kernels::swiglu(gate, up));
  const double gates[] = {-2.0, 0.0, 3.0};
  const double ups[] = {5.0, 7.0, -1.0};
  for (std::size_t i = 0; i < 3; ++i)
    EXPECT_NEAR(actual[i], gates[i] / (1 + std::exp(-gates[i])) * ups[i], 1e-6);
  EXPECT_THROW(kernels::swiglu(gate, normal({2}, 1)), Error);
}

/// Attention in double, one query at a time; `last` is the last key query i sees.
std::vector<float> naive_attention(const mx::array& q, const mx::array& k, const mx::array& v, double scale,
                                   bool is_causal) {
  const auto qs = test::values(q);
  const auto ks = test::values(k);
  const auto vs = test::values(v);
  const int heads = q.shape(1), kv_heads = k.shape(1), length = q.shape(2), stored = k.shape(2),
            dim = q.shape(3);
  std::vector<float> out;
  for (int h = 0; h < heads; ++h) {
    const int g = h / (heads / kv_heads);
    for (int i = 0; i < length; ++i) {
      const int visible = is_causal ? stored - length + i + 1 : stored;
      std::vector<double> weights;
      double sum = 0.0;
      for (int j = 0; j < visible; ++j) {
        double dot = 0.0;
        for (int d = 0; d < dim; ++d) {
          dot += static_cast<double>(qs[static_cast<std::size_t>((h * length + i) * dim + d)]) *
                 ks[static_cast<std::size_t>((g * stored + j) * dim + d)];
        }
        weights.push_back(std::exp(dot * scale));
        sum += weights.back();
      }
      for (int d = 0; d < dim; ++d) {
        double value = 0.0;
        for (int j = 0; j < visible; ++j) {
          value += weights[static_cast<std::size_t>(j)] / sum *
                   vs[static_cast<std::size_t>((g * stored + j) * dim + d)];
        }
        out.push_back(static_cast<float>(value));
      }
    }
  }
  return out;
}

TEST(Attention, EqualsADoubleComputation) {
  for (const int kv_heads : {1, 2, 4}) {
    for (const int length : {1, 3, 7}) {
      const mx::array q = normal({1, 4, length, 16}, 11);
      const mx::array k = normal({1, kv_heads, 9, 16}, 12);
      const mx::array v = normal({1, kv_heads, 9, 16}, 13);
      for (const bool is_causal : {false, true}) {
        const auto mask = is_causal ? tensor::Mask::causal() : tensor::Mask::none();
        const mx::array actual = kernels::attention(q, k, v, 0.25F, mask);
        const auto expected = naive_attention(q, k, v, 0.25, is_causal);
        EXPECT_TRUE(close(actual, mx::array(expected.data(), {1, 4, length, 16}, mx::float32), kFloat32));
      }
    }
  }
}

TEST(Attention, RefusesShapesThatDoNotFit) {
  const mx::array q = normal({1, 4, 3, 16}, 1);
  const auto attend = [&](mx::Shape k, mx::Shape v, tensor::Mask mask = tensor::Mask::none()) {
    return kernels::attention(q, normal(k, 2), normal(v, 3), 1.0F, mask);
  };
  EXPECT_NO_THROW(attend({1, 2, 5, 16}, {1, 2, 5, 8}));
  EXPECT_THROW(attend({1, 3, 5, 16}, {1, 3, 5, 16}), Error);
  EXPECT_THROW(attend({1, 2, 5, 8}, {1, 2, 5, 8}), Error);
  EXPECT_THROW(attend({1, 2, 5, 16}, {1, 2, 4, 16}), Error);
  EXPECT_THROW(attend({2, 2, 5, 16}, {2, 2, 5, 16}), Error);
  EXPECT_THROW(attend({1, 2, 2, 16}, {1, 2, 2, 16}, tensor::Mask::causal()), Error);
}

}  // namespace
}  // namespace tessera
