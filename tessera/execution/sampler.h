// Choosing the next token from logits.
// Source of order and formulas: spec of the reference system 2.15, which follows mlx-lm's samplers.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "tessera/engine.h"
#include "tessera/options.h"

namespace tessera::execution {

/// One drawn token. Log-probabilities are those after bias and penalties, before any filter.
struct Sample {
  int32_t token = 0;
  double logprob = 0.0;
  std::vector<TokenLogprob> top;  // the options' top_logprobs most likely tokens, best first
};

/// Draws tokens for one sequence. The draw of a step depends on (seed, step, logits, history) only.
class Sampler {
 public:
  /// `protected_tokens` are never excluded by XTC (end of sequence, line break).
  /// Throws InvalidArgument naming the option that is out of range.
  Sampler(const SamplingOptions& options, uint64_t seed, int64_t vocab_size,
          std::vector<int32_t> protected_tokens);

  /// The token that follows `history` (prompt and generated tokens). `logits` has V values and is
  /// used as scratch. Throws InvalidArgument when every token is excluded,
  /// InvalidArtifact when a logit is NaN or infinite.
  /// Evaluates: draws run through mx::random, greedy choices do not touch MLX.
  Sample sample(std::span<float> logits, std::span<const int32_t> history, uint64_t step) const;

 private:
  SamplingOptions options_;
  uint64_t seed_;
  std::vector<int32_t> protected_tokens_;
};

/// Logit bias, then repetition, presence and frequency penalties, in place.
void apply_penalties(std::span<float> logits, std::span<const int32_t> history,
                     const SamplingOptions& options);

/// Log-softmax in place: x - logsumexp(x), as kernels::log_sum_exp(). Tokens at -inf stay there.
void log_softmax(std::span<float> logits);

// The filters set the log-probability of dropped tokens to -inf and keep at least one token. Only XTC
// renormalizes what the earlier ones left.

/// Keeps the most likely tokens whose ascending cumulative probability exceeds 1 - p.
void filter_top_p(std::span<float> logprobs, double p);
/// Keeps tokens with at least `min_p` times the probability of the best one.
void filter_min_p(std::span<float> logprobs, double min_p);
/// Of the tokens whose probability among those left exceeds `threshold`, excludes all but the least
/// likely; protected tokens stay.
void filter_xtc(std::span<float> logprobs, double threshold, std::span<const int32_t> protected_tokens);
/// Keeps the k most likely tokens, the lowest ids among equals.
void filter_top_k(std::span<float> logprobs, int64_t k);

/// The index of the largest value, the lowest one on ties; NaN is never chosen.
int32_t argmax(std::span<const float> values);

/// The random key of a step: seed XOR ((step + 1) * 0x9e3779b97f4a7c15), modulo 2^64.
uint64_t step_seed(uint64_t seed, uint64_t step);

}  // namespace tessera::execution
