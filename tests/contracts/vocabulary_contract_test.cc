// Reductions over a vocabulary on every instruction set, against one value at a time.
#include "tessera/kernels/vocabulary.h"

#include <cmath>
#include <limits>
#include <random>

#include "tessera/kernels/reference/vocabulary.h"
#include "tests/contracts/each_target.h"

namespace tessera::kernels {
namespace {

using test::for_each_target;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr std::size_t kSizes[] = {1, 2, 15, 16, 17, 63, 64, 65, 127, 128, 129, 1000, 49152, 50257};

/// Logits as models give them, rounded so that some are equal.
std::vector<float> logits(std::size_t n, uint32_t seed, float step = 1.0F / 64) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, 4);
  std::vector<float> values(n);
  for (float& value : values) value = std::round(normal(random) / step) * step;
  return values;
}

void expect_equal(std::span<const float> values) {
  const Argmax expected = reference::argmax(values);
  const Argmax actual = argmax(values);
  EXPECT_EQ(actual.index, expected.index);
  EXPECT_EQ(actual.is_beyond, expected.is_beyond);
  for (const std::size_t k : {std::size_t{0}, std::size_t{1}, std::size_t{5}, std::size_t{20},
                              values.size() / 2, values.size(), values.size() + 3}) {
    EXPECT_EQ(top_k(values, k), reference::top_k(values, k)) << k;
  }
  const double log_sum = log_sum_exp(values), expected_sum = reference::log_sum_exp(values);
  if (std::isfinite(expected_sum)) {
    EXPECT_NEAR(log_sum, expected_sum, 1e-6);
  } else {
    EXPECT_TRUE(log_sum == expected_sum || (std::isnan(log_sum) && std::isnan(expected_sum))) << log_sum;
  }
}

TEST(Vocabulary, EverySizeEqualsTheReference) {
  for_each_target([] {
    for (const std::size_t n : kSizes) {
      SCOPED_TRACE(n);
      expect_equal(logits(n, static_cast<uint32_t>(n)));
      expect_equal(logits(n, 1, 2.0F));  // mostly ties
      const std::vector<float> shifted = logits(n + 3, 2);
      expect_equal(std::span(shifted).subspan(3));  // not aligned to a vector
      expect_equal(std::vector<float>(n, 7.5F));
      expect_equal(std::vector<float>(n, -kInfinity));
    }
    expect_equal({});
  });
}

TEST(Vocabulary, EveryPositionIsSeen) {
  for_each_target([] {
    for (const std::size_t n : {1, 16, 17, 70, 131}) {
      for (std::size_t at = 0; at < n; ++at) {
        for (const float special : {100.0F, kNan, -kNan, kInfinity, -kInfinity}) {
          SCOPED_TRACE(::testing::Message() << special << " at " << at << " of " << n);
          std::vector<float> values = logits(n, 3);
          values[at] = special;
          expect_equal(values);
        }
      }
    }
    expect_equal(std::vector<float>(40, kNan));
    std::vector<float> one_left(40, kNan);
    one_left[29] = -kInfinity;
    expect_equal(one_left);
  });
}

// The sum of exponentials is promised within 1e-6 of itself, wherever the mass lies.
TEST(Vocabulary, LogSumExpHoldsItsBoundFarFromTheLargest) {
  for_each_target([] {
    for (const float below : {0.0F, 0.3F, 1.0F, 3.3F, 7.9F, 8.1F, 11.7F, 15.9F}) {
      for (const float largest : {-1000.0F, 0.0F, 31.7F, 1000.0F}) {
        std::vector<float> values(200001, largest - below);
        values[777] = largest;
        EXPECT_NEAR(log_sum_exp(values), reference::log_sum_exp(values), 1e-6) << below << " " << largest;
      }
    }
    const std::vector<float> huge{3e38F, -3e38F, 3e38F};
    EXPECT_NEAR(log_sum_exp(huge) / 3e38, 1.0, 1e-6);
    EXPECT_EQ(log_sum_exp(std::vector<float>{-3e38F}), static_cast<double>(-3e38F));
  });
}

}  // namespace
}  // namespace tessera::kernels
