#include "tessera/execution/sampler.h"

#include <mlx/ops.h>
#include <mlx/random.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <utility>

#include "tessera/base/check.h"
#include "tessera/kernels/vocabulary.h"

namespace tessera::execution {
namespace {

namespace mx = mlx::core;

constexpr float kExcluded = -std::numeric_limits<float>::infinity();
// Bounds far beyond any use, within which logits stay finite in float32.
constexpr double kMaxPenalty = 1e6;
constexpr double kMinRepetition = 1e-3;
constexpr double kMaxRepetition = 1e3;
constexpr int64_t kMaxTopLogprobs = 20;  // as in the interfaces people use

void require(bool holds, const char* option, double value, const char* expected) {
  if (!holds) base::fail_argument("[execution.sampler] ", option, " is ", value, "; expected ", expected);
}

void validate(const SamplingOptions& options, int64_t vocab_size) {
  const auto in = [](double value, double low, double high) { return value >= low && value <= high; };
  require(std::isfinite(options.temperature) && options.temperature >= 0, "temperature", options.temperature,
          "a number of at least 0");
  require(options.top_p > 0 && options.top_p <= 1, "top_p", options.top_p, "a number above 0 and up to 1");
  require(options.top_k >= 0, "top_k", static_cast<double>(options.top_k), "0 (off) or more");
  require(in(options.min_p, 0, 1), "min_p", options.min_p, "a number from 0 to 1");
  require(in(options.xtc_probability, 0, 1), "xtc_probability", options.xtc_probability,
          "a number from 0 to 1");
  require(in(options.xtc_threshold, 0, 0.5), "xtc_threshold", options.xtc_threshold,
          "a number from 0 to 0.5");
  require(in(options.repetition_penalty, kMinRepetition, kMaxRepetition), "repetition_penalty",
          options.repetition_penalty, "a number from 0.001 to 1000");
  require(options.repetition_context >= 0, "repetition_context",
          static_cast<double>(options.repetition_context), "0 (everything) or more");
  require(in(options.presence_penalty, -kMaxPenalty, kMaxPenalty), "presence_penalty",
          options.presence_penalty, "a number from -1e6 to 1e6");
  require(in(options.frequency_penalty, -kMaxPenalty, kMaxPenalty), "frequency_penalty",
          options.frequency_penalty, "a number from -1e6 to 1e6");
  require(in(static_cast<double>(options.top_logprobs), 0, kMaxTopLogprobs), "top_logprobs",
          static_cast<double>(options.top_logprobs), "0 to 20");
  for (const auto& [token, bias] : options.logit_bias) {
    if (token < 0 || token >= vocab_size || !(bias <= kMaxPenalty)) {
      base::fail_argument("[execution.sampler] logit_bias of token ", token, " is ", bias,
                          "; expected a number up to 1e6 for an id from 0 to ", vocab_size - 1);
    }
  }
}

float largest_of(std::span<const float> values) {
  return values[static_cast<std::size_t>(kernels::argmax(values).index)];
}

/// All token ids by descending value, the lower id first among equals.
std::vector<int32_t> ranked(std::span<const float> values) {
  std::vector<int32_t> ids(values.size());
  std::iota(ids.begin(), ids.end(), 0);
  std::sort(ids.begin(), ids.end(), [&](int32_t a, int32_t b) {
    const float x = values[static_cast<std::size_t>(a)];
    const float y = values[static_cast<std::size_t>(b)];
    return x != y ? x > y : a < b;
  });
  return ids;
}

std::vector<TokenLogprob> top_logprobs(std::span<const float> logprobs, int64_t k) {
  std::vector<TokenLogprob> top;
  if (k == 0) return top;
  for (const int32_t id : kernels::top_k(logprobs, static_cast<std::size_t>(k))) {
    top.push_back({id, logprobs[static_cast<std::size_t>(id)]});
  }
  return top;
}

/// A draw from softmax(logprobs / temperature).
int32_t categorical(std::span<const float> logprobs, double temperature, const mx::array& key) {
  // Relative to the best one, which does not change the draw and stays finite at any temperature.
  const double best = largest_of(logprobs);
  std::vector<float> scores;
  scores.reserve(logprobs.size());
  for (const float logprob : logprobs) scores.push_back(static_cast<float>((logprob - best) / temperature));
  const mx::array array(scores.data(), {static_cast<int>(scores.size())}, mx::float32);
  return static_cast<int32_t>(mx::random::categorical(array, -1, key).item<uint32_t>());
}

/// The best token. Something must be left to choose, and nothing may be beyond what a softmax can weigh.
int32_t checked_argmax(std::span<const float> logits) {
  const kernels::Argmax best = kernels::argmax(logits);
  if (best.is_beyond) {
    base::fail_artifact(
        "[execution.sampler] a logit is NaN or infinite: the model's weights are damaged, or a "
        "penalty or bias is out of range");
  }
  if (logits[static_cast<std::size_t>(best.index)] == kExcluded) {
    base::fail_argument("[execution.sampler] every token is excluded");
  }
  return best.index;
}

}  // namespace

uint64_t step_seed(uint64_t seed, uint64_t step) { return seed ^ ((step + 1) * 0x9e3779b97f4a7c15ULL); }

int32_t argmax(std::span<const float> values) { return kernels::argmax(values).index; }

void apply_penalties(std::span<float> logits, std::span<const int32_t> history,
                     const SamplingOptions& options) {
  for (const auto& [token, bias] : options.logit_bias) {
    logits[static_cast<std::size_t>(token)] += static_cast<float>(bias);
  }
  const bool is_off = options.repetition_penalty == 1.0 && options.presence_penalty == 0.0 &&
                      options.frequency_penalty == 0.0;
  if (is_off) return;
  const auto window = static_cast<std::size_t>(options.repetition_context);
  if (window > 0 && history.size() > window) history = history.last(window);
  std::map<int32_t, int> counts;
  for (const int32_t token : history) ++counts[token];
  for (const auto& [token, count] : counts) {
    float& logit = logits[static_cast<std::size_t>(token)];
    const auto repetition = static_cast<float>(options.repetition_penalty);
    logit = logit < 0 ? logit * repetition : logit / repetition;
    logit -= static_cast<float>(options.presence_penalty);
    logit -= static_cast<float>(options.frequency_penalty * count);
  }
}

void log_softmax(std::span<float> logits) {
  const double normalizer = kernels::log_sum_exp(logits);
  for (float& logit : logits) logit = static_cast<float>(logit - normalizer);
}

void filter_top_p(std::span<float> logprobs, double p) {
  if (p >= 1.0) return;
  const std::vector<int32_t> ids = ranked(logprobs);
  // Ascending, as the reference sums it: a token stays when the mass up to and including it exceeds 1 - p.
  double cumulative = 0.0;
  for (auto id = ids.rbegin(); id != ids.rend(); ++id) {
    float& logprob = logprobs[static_cast<std::size_t>(*id)];
    cumulative += std::exp(static_cast<double>(logprob));
    if (cumulative <= 1.0 - p && *id != ids.front()) logprob = kExcluded;
  }
}

void filter_min_p(std::span<float> logprobs, double min_p) {
  if (min_p <= 0.0) return;
  const float limit = largest_of(logprobs) + static_cast<float>(std::log(min_p));
  for (float& logprob : logprobs) {
    if (logprob < limit) logprob = kExcluded;
  }
}

void filter_xtc(std::span<float> logprobs, double threshold, std::span<const int32_t> protected_tokens) {
  std::vector<float> left(logprobs.begin(), logprobs.end());
  log_softmax(left);
  float least = 0.0F;
  int above = 0;
  for (std::size_t i = 0; i < left.size(); ++i) {
    if (std::exp(static_cast<double>(left[i])) <= threshold) continue;
    least = above == 0 ? logprobs[i] : std::min(least, logprobs[i]);
    ++above;
  }
  if (above < 2) return;
  std::vector<float> kept;
  kept.reserve(protected_tokens.size());
  for (const int32_t token : protected_tokens) kept.push_back(logprobs[static_cast<std::size_t>(token)]);
  for (float& logprob : logprobs) {
    if (logprob > least) logprob = kExcluded;
  }
  for (std::size_t i = 0; i < kept.size(); ++i)
    logprobs[static_cast<std::size_t>(protected_tokens[i])] = kept[i];
}

void filter_top_k(std::span<float> logprobs, int64_t k) {
  if (k <= 0 || k >= static_cast<int64_t>(logprobs.size())) return;
  std::vector<float> kept(logprobs.size(), kExcluded);
  for (const int32_t id : kernels::top_k(logprobs, static_cast<std::size_t>(k))) {
    kept[static_cast<std::size_t>(id)] = logprobs[static_cast<std::size_t>(id)];
  }
  std::copy(kept.begin(), kept.end(), logprobs.begin());
}

Sampler::Sampler(const SamplingOptions& options, uint64_t seed, int64_t vocab_size,
                 std::vector<int32_t> protected_tokens)
    : options_(options), seed_(seed), protected_tokens_(std::move(protected_tokens)) {
  validate(options_, vocab_size);
}

Sample Sampler::sample(std::span<float> logits, std::span<const int32_t> history, uint64_t step) const {
  apply_penalties(logits, history, options_);
  const int32_t best = checked_argmax(logits);
  const bool needs_logprobs = options_.temperature > 0 || options_.logprobs || options_.top_logprobs > 0;
  if (!needs_logprobs) return {.token = best};
  log_softmax(logits);
  Sample sample{.token = best, .top = top_logprobs(logits, options_.top_logprobs)};
  if (options_.temperature > 0) {
    mx::array key = mx::random::key(step_seed(seed_, step));
    filter_top_p(logits, options_.top_p);
    filter_min_p(logits, options_.min_p);
    if (options_.xtc_probability > 0) {
      auto [draw_key, xtc_key] = mx::random::split(key);
      key = draw_key;
      const float draw = mx::random::uniform(0.0F, 1.0F, {1}, mx::float32, xtc_key).item<float>();
      if (draw <= static_cast<float>(options_.xtc_probability)) {
        filter_xtc(logits, options_.xtc_threshold, protected_tokens_);
      }
    }
    filter_top_k(logits, options_.top_k);
    sample.token = categorical(logits, options_.temperature, key);
  }
  sample.logprob = logits[static_cast<std::size_t>(sample.token)];  // filters leave what they keep as it is
  return sample;
}

}  // namespace tessera::execution
