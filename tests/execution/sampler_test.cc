// The sampler against scalar recomputations of its documented steps.
#include "tessera/execution/sampler.h"

#include <cmath>
#include <limits>
#include <numeric>

#include "tests/arrays.h"

namespace tessera::execution {
namespace {

constexpr float kOut = -std::numeric_limits<float>::infinity();

std::vector<float> logprobs_of(std::vector<double> probabilities) {
  std::vector<float> result;
  for (const double p : probabilities) result.push_back(static_cast<float>(std::log(p)));
  return result;
}

/// The indices that a filter kept.
std::vector<int> kept(const std::vector<float>& logprobs) {
  std::vector<int> ids;
  for (std::size_t i = 0; i < logprobs.size(); ++i) {
    if (logprobs[i] > kOut) ids.push_back(static_cast<int>(i));
  }
  return ids;
}

TEST(Argmax, TakesTheLowestIdOnTiesAndSkipsNan) {
  EXPECT_EQ(argmax(std::vector<float>{1.0F, 3.0F, 3.0F, 2.0F}), 1);
  EXPECT_EQ(argmax(std::vector<float>{NAN, 1.0F, NAN}), 1);
  EXPECT_EQ(argmax(std::vector<float>{kOut, kOut, 5.0F}), 2);
}

TEST(Penalties, FollowTheirFormulas) {
  SamplingOptions options;
  options.repetition_penalty = 2.0;
  options.presence_penalty = 0.5;
  options.frequency_penalty = 0.25;
  options.logit_bias = {{3, 1.5}};
  std::vector<float> logits{4.0F, -4.0F, 1.0F, 0.0F};
  apply_penalties(logits, std::vector<int32_t>{0, 1, 1}, options);
  EXPECT_FLOAT_EQ(logits[0], 4.0F / 2 - 0.5F - 0.25F);
  EXPECT_FLOAT_EQ(logits[1], -4.0F * 2 - 0.5F - 0.5F);
  EXPECT_FLOAT_EQ(logits[2], 1.0F);
  EXPECT_FLOAT_EQ(logits[3], 1.5F);
}

TEST(Penalties, LookBackAsFarAsTheyAreTold) {
  SamplingOptions options;
  options.repetition_penalty = 2.0;
  options.repetition_context = 2;
  std::vector<float> logits{4.0F, 4.0F, 4.0F};
  apply_penalties(logits, std::vector<int32_t>{0, 1, 2}, options);
  EXPECT_EQ(logits, (std::vector<float>{4.0F, 2.0F, 2.0F}));
  options.repetition_context = 0;
  apply_penalties(logits, std::vector<int32_t>{0, 1, 2}, options);
  EXPECT_EQ(logits, (std::vector<float>{2.0F, 1.0F, 1.0F}));
}

TEST(LogSoftmax, IsNormalizedAndKeepsExclusions) {
  std::vector<float> x{1000.0F, 1001.0F, kOut};
  log_softmax(x);
  EXPECT_NEAR(x[0], -1.3132617, 1e-6);
  EXPECT_NEAR(x[1], -0.3132617, 1e-6);
  EXPECT_EQ(x[2], kOut);
}

TEST(TopP, KeepsTheSmallestSetWithTheMass) {
  const auto base = logprobs_of({0.1, 0.5, 0.15, 0.25});
  const auto with = [&](double p) {
    auto x = base;
    filter_top_p(x, p);
    return kept(x);
  };
  EXPECT_EQ(with(1.0), (std::vector<int>{0, 1, 2, 3}));
  EXPECT_EQ(with(0.8), (std::vector<int>{1, 2, 3}));
  EXPECT_EQ(with(0.6), (std::vector<int>{1, 3}));
  EXPECT_EQ(with(0.4), (std::vector<int>{1}));
  EXPECT_EQ(with(1e-9), (std::vector<int>{1}));
}

TEST(MinP, IsRelativeToTheBest) {
  auto x = logprobs_of({0.1, 0.5, 0.15, 0.25});
  filter_min_p(x, 0.4);
  EXPECT_EQ(kept(x), (std::vector<int>{1, 3}));
  filter_min_p(x, 1.0);
  EXPECT_EQ(kept(x), (std::vector<int>{1}));
}

TEST(TopK, KeepsTheLowestIdsAmongEquals) {
  auto x = logprobs_of({0.2, 0.3, 0.2, 0.2, 0.1});
  filter_top_k(x, 2);
  EXPECT_EQ(kept(x), (std::vector<int>{0, 1}));
}

TEST(Xtc, ExcludesAllTopChoicesButTheLeastLikely) {
  auto x = logprobs_of({0.4, 0.3, 0.2, 0.1});
  filter_xtc(x, 0.15, {});
  EXPECT_EQ(kept(x), (std::vector<int>{2, 3}));
  x = logprobs_of({0.4, 0.3, 0.2, 0.1});
  filter_xtc(x, 0.15, std::vector<int32_t>{0});
  EXPECT_EQ(kept(x), (std::vector<int>{0, 2, 3})) << "protected tokens stay";
  x = logprobs_of({0.4, 0.3, 0.2, 0.1});
  filter_top_p(x, 0.65);
  filter_xtc(x, 0.4, {});
  EXPECT_EQ(kept(x), (std::vector<int>{1})) << "0.3 of the 0.7 that top-p left is above 0.4";
  x = logprobs_of({0.6, 0.3, 0.1});
  filter_xtc(x, 0.5, {});
  EXPECT_EQ(kept(x), (std::vector<int>{0, 1, 2})) << "a single top choice stays";
}

TEST(StepSeed, IsTheDocumentedMix) {
  EXPECT_EQ(step_seed(0, 0), 0x9e3779b97f4a7c15ULL);
  EXPECT_EQ(step_seed(7, 1), 7ULL ^ (2 * 0x9e3779b97f4a7c15ULL));
}

TEST(Sampler, DrawsFollowTheDistribution) {
  SamplingOptions options;
  options.temperature = 1.0;
  const Sampler sampler(options, 11, 3, {});
  const auto base = logprobs_of({0.2, 0.5, 0.3});
  constexpr int kDraws = 3000;
  int counts[3] = {};
  for (int step = 0; step < kDraws; ++step) {
    auto logits = base;
    ++counts[sampler.sample(logits, {}, static_cast<uint64_t>(step)).token];
  }
  const double expected[] = {0.2, 0.5, 0.3};
  for (int i = 0; i < 3; ++i) {
    // Five standard deviations of a binomial share.
    const double bound = 5 * std::sqrt(expected[i] * (1 - expected[i]) / kDraws);
    EXPECT_NEAR(static_cast<double>(counts[i]) / kDraws, expected[i], bound);
  }
}

TEST(Sampler, ADrawDependsOnSeedAndStepOnly) {
  SamplingOptions options;
  options.temperature = 0.8;
  options.top_p = 0.9;
  const auto draw = [&](uint64_t seed, uint64_t step) {
    const Sampler sampler(options, seed, 500, {});
    std::vector<float> logits(500);
    for (std::size_t i = 0; i < logits.size(); ++i) logits[i] = static_cast<float>(i % 37) * 0.1F;
    return sampler.sample(logits, std::vector<int32_t>{1, 2}, step).token;
  };
  EXPECT_EQ(draw(5, 3), draw(5, 3));
  bool seed_matters = false;
  bool step_matters = false;
  for (uint64_t i = 0; i < 5; ++i) {
    seed_matters = seed_matters || draw(i, 3) != draw(i + 1, 3);
    step_matters = step_matters || draw(5, i) != draw(5, i + 1);
  }
  EXPECT_TRUE(seed_matters);
  EXPECT_TRUE(step_matters);
}

TEST(Sampler, ATinyTemperatureIsNearlyGreedyAndNeverNan) {
  SamplingOptions options;
  options.temperature = 1e-300;
  const Sampler sampler(options, 1, 3, {});
  std::vector<float> logits{1.0F, 1.5F, -3.0F};
  EXPECT_EQ(sampler.sample(logits, {}, 0).token, 1);
}

TEST(Sampler, ReportsLogprobsBeforeFiltersAndTemperature) {
  SamplingOptions options;
  options.temperature = 0.5;
  options.top_k = 1;
  options.logprobs = true;
  options.top_logprobs = 2;
  const Sampler sampler(options, 1, 3, {});
  auto logits = logprobs_of({0.2, 0.5, 0.3});
  const Sample sample = sampler.sample(logits, {}, 0);
  EXPECT_EQ(sample.token, 1);
  EXPECT_NEAR(sample.logprob, std::log(0.5), 1e-6);
  ASSERT_EQ(sample.top.size(), 2U);
  EXPECT_EQ(sample.top[1].token, 2);
  EXPECT_NEAR(sample.top[1].logprob, std::log(0.3), 1e-6);
}

TEST(Sampler, XtcWithProbabilityOneNeverPicksTheTopChoice) {
  SamplingOptions options;
  options.temperature = 1.0;
  options.xtc_probability = 1.0;
  options.xtc_threshold = 0.2;
  const Sampler sampler(options, 3, 3, {});
  for (uint64_t step = 0; step < 50; ++step) {
    auto logits = logprobs_of({0.6, 0.3, 0.1});
    EXPECT_NE(sampler.sample(logits, {}, step).token, 0);
  }
}

TEST(Sampler, RefusesOptionsOutOfRangeByName) {
  const auto refuses = [](auto change, const std::string& name) {
    SamplingOptions options;
    change(options);
    try {
      const Sampler sampler(options, 0, 10, {});
      ADD_FAILURE() << name << " was accepted";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
      EXPECT_NE(std::string(error.what()).find(name), std::string::npos) << error.what();
    }
  };
  refuses([](auto& o) { o.temperature = -1; }, "temperature");
  refuses([](auto& o) { o.temperature = NAN; }, "temperature");
  refuses([](auto& o) { o.top_p = 0; }, "top_p");
  refuses([](auto& o) { o.top_p = 1.1; }, "top_p");
  refuses([](auto& o) { o.top_k = -1; }, "top_k");
  refuses([](auto& o) { o.min_p = 2; }, "min_p");
  refuses([](auto& o) { o.xtc_probability = -0.1; }, "xtc_probability");
  refuses([](auto& o) { o.xtc_threshold = 0.6; }, "xtc_threshold");
  refuses([](auto& o) { o.repetition_penalty = 0; }, "repetition_penalty");
  refuses([](auto& o) { o.repetition_penalty = 1e-45; }, "repetition_penalty");
  refuses([](auto& o) { o.presence_penalty = -1e308; }, "presence_penalty");
  refuses([](auto& o) { o.frequency_penalty = INFINITY; }, "frequency_penalty");
  refuses([](auto& o) { o.logit_bias = {{1, 1e39}}; }, "logit_bias");
  refuses([](auto& o) { o.repetition_context = -1; }, "repetition_context");
  refuses([](auto& o) { o.top_logprobs = 21; }, "top_logprobs");
  refuses([](auto& o) { o.logit_bias = {{10, 1.0}}; }, "logit_bias");
  refuses([](auto& o) { o.logit_bias = {{-1, 1.0}}; }, "logit_bias");
}

TEST(Sampler, RefusesLogitsItCannotChooseFrom) {
  const Sampler sampler({}, 0, 2, {});
  std::vector<float> excluded{kOut, kOut};
  EXPECT_THROW(sampler.sample(excluded, {}, 0), Error);
  std::vector<float> nan{1.0F, NAN};
  EXPECT_THROW(sampler.sample(nan, {}, 0), Error);
  std::vector<float> infinite{1.0F, -kOut};
  EXPECT_THROW(sampler.sample(infinite, {}, 0), Error);
}

}  // namespace
}  // namespace tessera::execution
