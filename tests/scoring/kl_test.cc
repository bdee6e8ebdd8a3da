// The arithmetic of KL: values computed by hand in float64, and logits that hold infinities.
#include "tessera/scoring/kl.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

namespace tessera::scoring {
namespace {

constexpr float kNone = -std::numeric_limits<float>::infinity();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

TokenScore score(const std::vector<float>& a, const std::vector<float>& b, int32_t target = 0) {
  return score_token(a, b, target);
}

TEST(ScoreToken, EqualsValuesComputedByHand) {
  // By log-softmax and sum(p * (log p - log q)) in Python's float64.
  const TokenScore result = score({1.0F, 0.0F, -2.0F, 0.5F}, {0.0F, 0.25F, 1.0F, -3.0F}, 2);
  EXPECT_NEAR(result.kl, 1.3381700095677436, 1e-14);
  EXPECT_NEAR(result.nll_a, 3.705173162318934, 1e-14);
  EXPECT_NEAR(result.nll_b, 0.6198028728639997, 1e-14);
  EXPECT_FALSE(result.is_same_top);
  EXPECT_TRUE(result.is_defined);
}

TEST(ScoreToken, IsExactlyZeroForEqualLogits) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal(0.0F, 5.0F);
  std::vector<float> logits(1000);
  for (float& logit : logits) logit = normal(random);
  const TokenScore result = score(logits, logits, 7);
  EXPECT_EQ(result.kl, 0.0);
  EXPECT_EQ(result.nll_a, result.nll_b);
  EXPECT_TRUE(result.is_same_top);
}

TEST(ScoreToken, OnlyDifferencesOfLogitsCount) {
  EXPECT_NEAR(score({1000.0F, 999.0F}, {-1000.0F, -1001.0F}).kl, 0.0, 1e-12);
  EXPECT_NEAR(score({1000.0F, 999.0F}, {-1000.0F, -1001.0F}).nll_a, std::log1p(std::exp(-1.0)), 1e-12);
}

TEST(ScoreToken, EqualsTheDefinitionOnRandomLogits) {
  std::mt19937 random(2);
  std::normal_distribution<float> normal(0.0F, 4.0F);
  for (const std::size_t size : {1U, 2U, 3U, 17U, 4096U}) {
    std::vector<float> a(size);
    std::vector<float> b(size);
    for (std::size_t i = 0; i < size; ++i) {
      a[i] = normal(random);
      b[i] = a[i] + 0.1F * normal(random);
    }
    double sum_a = 0.0;
    double sum_b = 0.0;
    for (std::size_t i = 0; i < size; ++i) {
      sum_a += std::exp(static_cast<double>(a[i]));
      sum_b += std::exp(static_cast<double>(b[i]));
    }
    double expected = 0.0;
    for (std::size_t i = 0; i < size; ++i) {
      const double log_p = a[i] - std::log(sum_a);
      const double log_q = b[i] - std::log(sum_b);
      expected += std::exp(log_p) * (log_p - log_q);
    }
    const TokenScore result = score(a, b);
    // Two orders of summing `size` terms around 1e-1 in float64.
    EXPECT_NEAR(result.kl, expected, 1e-13) << size;
    const auto top_a = std::max_element(a.begin(), a.end()) - a.begin();
    const auto top_b = std::max_element(b.begin(), b.end()) - b.begin();
    EXPECT_EQ(result.is_same_top, top_a == top_b);
  }
}

TEST(ScoreToken, ATokenThatNeitherAllowsAddsNothing) {
  EXPECT_EQ(score({0.0F, 1.0F, kNone}, {0.0F, 1.0F, kNone}).kl, 0.0);
  EXPECT_NEAR(score({0.0F, 1.0F, kNone}, {1.0F, 0.0F, kNone}).kl, score({0.0F, 1.0F}, {1.0F, 0.0F}).kl,
              1e-15);
}

TEST(ScoreToken, ATokenThatOnlyTheReferenceForbidsAddsNothing) {
  EXPECT_NEAR(score({0.0F, 0.0F, kNone}, {0.0F, 0.0F, 0.0F}).kl, std::log(1.5), 1e-15);
  EXPECT_EQ(score({0.0F, 0.0F, kNone}, {0.0F, 0.0F, 0.0F}, 2).nll_a, kInfinity);
}

TEST(ScoreToken, ATokenThatOnlyTheReferenceAllowsIsInfinite) {
  const TokenScore result = score({0.0F, 0.0F, 0.0F}, {0.0F, 0.0F, kNone}, 2);
  EXPECT_EQ(result.kl, kInfinity);
  EXPECT_EQ(result.nll_b, kInfinity);
  EXPECT_TRUE(result.is_defined);
  // Its probability may be too small for a double: 0 * inf must not be a NaN.
  EXPECT_EQ(score({0.0F, -2000.0F}, {0.0F, kNone}).kl, kInfinity);
  EXPECT_EQ(score({-2000.0F, 0.0F}, {kNone, 0.0F}).kl, kInfinity);
}

TEST(ScoreToken, TiesGoToTheLowestId) {
  EXPECT_TRUE(score({2.0F, 2.0F, 0.0F}, {3.0F, 1.0F, 3.0F}).is_same_top);
  EXPECT_FALSE(score({2.0F, 2.0F, 0.0F}, {1.0F, 3.0F, 3.0F}).is_same_top);
}

TEST(ScoreToken, LogitsWithoutADistributionAreNotDefined) {
  const std::vector<float> good = {0.0F, 1.0F};
  for (const std::vector<float>& bad :
       {std::vector<float>{kNone, kNone}, {std::nanf(""), 1.0F}, {1.0F, std::nanf("")}, {-kNone, 1.0F}}) {
    EXPECT_FALSE(score(bad, good).is_defined);
    EXPECT_FALSE(score(good, bad).is_defined);
    EXPECT_FALSE(score(bad, bad).is_defined);
  }
}

TEST(Quantile, InterpolatesAndKeepsInfinities) {
  const std::vector<double> values = {0.0, 1.0, 4.0};
  EXPECT_EQ(quantile(values, 0.0), 0.0);
  EXPECT_EQ(quantile(values, 0.5), 1.0);
  EXPECT_EQ(quantile(values, 0.75), 2.5);
  EXPECT_EQ(quantile(values, 1.0), 4.0);
  EXPECT_EQ(quantile(std::vector<double>{7.0}, 0.9), 7.0);
  const std::vector<double> infinite = {1.0, 2.0, kInfinity, kInfinity, kInfinity};
  EXPECT_EQ(quantile(infinite, 0.25), 2.0);
  EXPECT_EQ(quantile(infinite, 0.3), kInfinity);
  EXPECT_EQ(quantile(infinite, 0.9), kInfinity);
}

TEST(Summarize, FiguresOfKnownScores) {
  std::vector<TokenScore> scores;
  for (int i = 0; i < 5; ++i) {
    scores.push_back({.kl = static_cast<double>(i), .nll_a = 1.0, .nll_b = 1.5, .is_same_top = i != 0});
  }
  const KlReport report = summarize(scores);
  EXPECT_EQ(report.tokens, 5);
  EXPECT_EQ(report.kl_mean, 2.0);
  EXPECT_NEAR(report.kl_standard_error, std::sqrt(2.5 / 5.0), 1e-15);
  EXPECT_EQ(report.kl_median, 2.0);
  EXPECT_NEAR(report.kl_q90, 3.6, 1e-15);
  EXPECT_NEAR(report.kl_q95, 3.8, 1e-15);
  EXPECT_NEAR(report.kl_q99, 3.96, 1e-15);
  EXPECT_EQ(report.kl_max, 4.0);
  EXPECT_EQ(report.infinite_tokens, 0);
  EXPECT_EQ(report.same_top, 0.8);
  EXPECT_NEAR(report.perplexity_a, std::exp(1.0), 1e-14);
  EXPECT_NEAR(report.perplexity_b, std::exp(1.5), 1e-14);
  EXPECT_NEAR(report.ln_ratio, 0.5, 1e-15);
}

TEST(Summarize, InfinitiesStayInfinitiesAndNothingIsNan) {
  const KlReport one_sided = summarize(std::vector<TokenScore>{
      {.kl = kInfinity, .nll_a = 1.0, .nll_b = kInfinity}, {.kl = 1.0, .nll_a = 1.0, .nll_b = 1.0}});
  EXPECT_EQ(one_sided.kl_mean, kInfinity);
  EXPECT_EQ(one_sided.kl_standard_error, kInfinity);
  EXPECT_EQ(one_sided.kl_median, kInfinity);
  EXPECT_EQ(one_sided.infinite_tokens, 1);
  EXPECT_EQ(one_sided.perplexity_b, kInfinity);
  EXPECT_EQ(one_sided.ln_ratio, kInfinity);
  const KlReport both =
      summarize(std::vector<TokenScore>{{.kl = 0.5, .nll_a = kInfinity, .nll_b = kInfinity}});
  EXPECT_EQ(both.ln_ratio, 0.0);
  EXPECT_EQ(both.kl_standard_error, 0.0);
}

}  // namespace
}  // namespace tessera::scoring
