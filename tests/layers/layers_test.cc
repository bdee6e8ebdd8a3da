#include "tessera/error.h"
#include "tessera/layers/embedding.h"
#include "tessera/layers/linear.h"
#include "tessera/layers/norm.h"
#include "tessera/layers/rope.h"
#include "tests/arrays.h"

namespace tessera {
namespace {

using test::close;
using test::load_fixture;
using test::normal;
namespace mx = mlx::core;

constexpr double kFloat32 = 2e-5;  // some hundred units in the last place of float32

tensor::QuantizedTensor quantized(int bits, int group) {
  const auto golden = load_fixture("operations/quantized_b" + std::to_string(bits) + "_g" +
                                   std::to_string(group) + ".safetensors");
  return {golden.at("w"), golden.at("scales"), golden.at("biases"), group, bits};
}

TEST(Linear, DenseAndQuantizedAgreeOnTheSameMatrix) {
  const tensor::QuantizedTensor w = quantized(4, 32);
  const mx::array bias = normal({40}, 1);
  const layers::Linear dense(tensor::dequantize(w, mx::float32), bias);
  const layers::Linear packed(w, bias);
  const mx::array x = normal({2, 3, 256}, 2);
  EXPECT_EQ(packed.in_features(), 256);
  EXPECT_EQ(packed.out_features(), 40);
  EXPECT_TRUE(close(packed.forward(x), dense.forward(x), kFloat32));
  const mx::array without = layers::Linear(w).forward(x);
  EXPECT_TRUE(close(packed.forward(x), mx::add(without, bias), kFloat32));
}

TEST(Linear, PacksItsWeightWithAPool) {
  const auto pool = std::make_shared<base::ThreadPool>(2);
  const tensor::QuantizedTensor w = quantized(4, 32);
  const mx::array bias = normal({40}, 1);
  const mx::array x = normal({2, 3, 256}, 2);
  const layers::Linear packed(w, bias, {pool});
  EXPECT_EQ(packed.out_features(), 40);
  EXPECT_TRUE(close(packed.forward(x), layers::Linear(w, bias).forward(x), kFloat32));
  const mx::array token_ids = mx::array({3, 0, 39, 3}, {1, 4}, mx::int32);
  const layers::Embedding embedding(w, mx::float32, {pool});
  EXPECT_TRUE(close(embedding.encode(token_ids), layers::Embedding(w, mx::float32).encode(token_ids), 1e-6));
  EXPECT_TRUE(close(embedding.as_linear(x), layers::Embedding(w, mx::float32).as_linear(x), kFloat32));
}

TEST(Linear, RefusesABiasOfAnotherSize) {
  EXPECT_THROW(layers::Linear(normal({4, 8}, 1), normal({5}, 2)), Error);
}

TEST(Embedding, EncodesRowsAndServesAsTheTiedHead) {
  const tensor::QuantizedTensor w = quantized(8, 32);
  const mx::array dense = tensor::dequantize(w, mx::float32);
  const mx::array token_ids = mx::array({3, 0, 39, 3}, {1, 4}, mx::int32);
  const layers::Embedding embedding(w, mx::float32);
  EXPECT_EQ(embedding.vocab_size(), 40);
  EXPECT_EQ(embedding.hidden_size(), 256);
  EXPECT_TRUE(close(embedding.encode(token_ids), mx::take(dense, token_ids, 0), 0.0));
  const mx::array h = normal({1, 2, 256}, 3);
  EXPECT_TRUE(close(embedding.as_linear(h), mx::matmul(h, mx::transpose(dense)), kFloat32));
  EXPECT_TRUE(
      close(layers::Embedding(dense, mx::float32).encode(token_ids), mx::take(dense, token_ids, 0), 0.0));
}

TEST(RmsNorm, HasNoGainWithoutAWeight) {
  const mx::array x = normal({2, 16}, 4);
  const mx::array y = layers::RmsNorm(std::nullopt, 0.0F).forward(x);
  const mx::array mean_square = mx::mean(mx::square(y), -1);
  EXPECT_TRUE(close(mean_square, mx::ones({2}), kFloat32));
}

TEST(Rope, ScalingsEqualGoldens) {
  // The parameters of fixtures/MANIFEST.md.
  const layers::RopeConfig configs[] = {
      {.dims = 16, .scaling = "default"},
      {.dims = 16, .scaling = "linear", .factor = 4.0},
      {.dims = 16,
       .scaling = "llama3",
       .factor = 8.0,
       .low_freq_factor = 1.0,
       .high_freq_factor = 4.0,
       .original_context_length = 64.0},
  };
  for (layers::RopeConfig config : configs) {
    const auto golden = load_fixture("operations/rope_" + config.scaling + ".safetensors");
    config.theta = golden.at("base").item<float>();
    const layers::Rope rope(config);
    EXPECT_TRUE(close(rope.forward(golden.at("x"), 0), golden.at("y_exact_offset_0"), kFloat32))
        << config.scaling;
    EXPECT_TRUE(close(rope.forward(golden.at("x"), 61), golden.at("y_exact_offset_61"), kFloat32))
        << config.scaling;
  }
}

TEST(Rope, FrequencyFactorsDivideTheFrequencies) {
  const mx::array x = normal({1, 1, 3, 4}, 5);
  const layers::Rope twice({.dims = 4, .theta = 100.0, .frequency_factors = mx::array({2.0F, 2.0F})});
  const layers::Rope halved({.dims = 4, .theta = 100.0, .scaling = "linear", .factor = 2.0});
  EXPECT_TRUE(close(twice.forward(x, 7), halved.forward(x, 7), kFloat32));
}

TEST(Rope, ADynamicTableServesTheContextThatItIsMadeFor) {
  const layers::RopeConfig within{
      .dims = 16, .scaling = "dynamic", .factor = 4.0, .original_context_length = 512, .context_length = 512};
  layers::RopeConfig beyond = within;
  beyond.context_length = 2048;
  const mx::array plain = layers::Rope({.dims = 16}).frequencies();
  EXPECT_TRUE(close(layers::Rope(within).frequencies(), plain, 0.0));
  const auto stretched = test::values(layers::Rope(beyond).frequencies());
  EXPECT_EQ(stretched[0], 1.0F);
  // theta grows by (factor x 4 - 3)^(16 / 14), so the slowest pair turns (16 - 3) times slower.
  EXPECT_NEAR(stretched[7] * 13, test::values(plain)[7], 1e-6 * test::values(plain)[7]);
}

TEST(Rope, LongropeChoosesItsFactorsByTheContext) {
  layers::RopeConfig config{.dims = 4,
                            .scaling = "longrope",
                            .factor = 1.0,
                            .original_context_length = 64,
                            .context_length = 64,
                            .short_factors = {1.0, 2.0},
                            .long_factors = {4.0, 8.0}};
  const auto table = [&] { return test::values(layers::Rope(config).frequencies()); };
  EXPECT_FLOAT_EQ(table()[0], 1.0F);
  EXPECT_FLOAT_EQ(table()[1], 0.005F);
  EXPECT_EQ(layers::Rope(config).rotation().scale, 1.0F);
  config.context_length = 65;
  EXPECT_FLOAT_EQ(table()[0], 0.25F);
  EXPECT_FLOAT_EQ(table()[1], 0.00125F);
  config.long_factors.pop_back();
  EXPECT_THROW(table(), Error);
}

TEST(Rope, TurnsNeighboursWhereAskedTo) {
  const mx::array x = mx::array({1.0F, 0.0F, 0.0F, 1.0F}, {1, 1, 1, 4});
  const layers::Rope rope({.dims = 4, .theta = 100.0, .pairs = kernels::RopePairs::kInterleaved});
  const float expected[] = {std::cos(2.0F), std::sin(2.0F), -std::sin(0.2F), std::cos(0.2F)};
  EXPECT_TRUE(close(rope.forward(x, 2), mx::array(expected, {1, 1, 1, 4}, mx::float32), kFloat32));
}

TEST(Rope, RefusesWhatItDoesNotKnow) {
  const auto refuses = [](const layers::RopeConfig& config, ErrorKind kind, const std::string& part) {
    try {
      const layers::Rope rope(config);
      ADD_FAILURE() << config.scaling << " was accepted";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), kind);
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
    }
  };
  refuses({.dims = 15}, ErrorKind::kInvalidArgument, "15 rotated dims");
  refuses({.dims = 16, .scaling = "mrope"}, ErrorKind::kUnsupported, "'mrope'");
  refuses({.dims = 16, .scaling = "linear", .factor = 0.0}, ErrorKind::kInvalidArgument, "factor");
  refuses({.dims = 16, .scaling = "llama3", .factor = 8.0}, ErrorKind::kInvalidArgument, "original_max");
  refuses({.dims = 16, .scaling = "yarn", .factor = 8.0}, ErrorKind::kInvalidArgument, "original_max");
  refuses({.dims = 2, .scaling = "dynamic", .factor = 8.0, .original_context_length = 64},
          ErrorKind::kInvalidArgument, "dims");
  refuses({.dims = 16, .scaling = "longrope", .original_context_length = 64}, ErrorKind::kInvalidArgument,
          "expected 8");
  refuses({.dims = 16, .scaling = "proportional", .proportion = 1.5}, ErrorKind::kInvalidArgument,
          "proportion");
}

}  // namespace
}  // namespace tessera
