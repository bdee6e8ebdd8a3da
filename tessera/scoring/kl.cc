#include "tessera/scoring/kl.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>
#include <utility>
#include <vector>

#include "tessera/base/check.h"

namespace tessera::scoring {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// The largest logit and the first token that has it.
struct Top {
  float logit = -std::numeric_limits<float>::infinity();
  std::size_t token = 0;
  bool has_nan = false;

  bool is_distribution() const { return !has_nan && std::isfinite(logit); }
};

Top find_top(std::span<const float> logits) {
  Top top;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    if (std::isnan(logits[i])) top.has_nan = true;
    if (logits[i] > top.logit) top = {.logit = logits[i], .token = i, .has_nan = top.has_nan};
  }
  return top;
}

/// Mean and its standard error, by two passes; both infinite when a value is.
std::pair<double, double> mean_and_error(std::span<const double> values) {
  const auto n = static_cast<double>(values.size());
  double sum = 0.0;
  for (const double value : values) sum += value;
  const double mean = sum / n;
  if (std::isinf(mean)) return {mean, mean};
  double squares = 0.0;
  for (const double value : values) squares += (value - mean) * (value - mean);
  return {mean, values.size() > 1 ? std::sqrt(squares / (n - 1) / n) : 0.0};
}

}  // namespace

TokenScore score_token(std::span<const float> a, std::span<const float> b, int32_t target) {
  TESSERA_DCHECK(a.size() == b.size() && target >= 0 && static_cast<std::size_t>(target) < a.size());
  const Top top_a = find_top(a);
  const Top top_b = find_top(b);
  TokenScore score;
  score.is_same_top = top_a.token == top_b.token;
  score.is_defined = top_a.is_distribution() && top_b.is_distribution();
  if (!score.is_defined) return score;

  double sum_a = 0.0;
  double sum_b = 0.0;
  double weighted = 0.0;  // sum of exp(a_i - max a) * (a_i - b_i)
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double x = a[i];
    const double y = b[i];
    sum_b += std::exp(y - top_b.logit);
    if (x == -kInfinity) continue;
    const double weight = std::exp(x - top_a.logit);
    sum_a += weight;
    // Not weight * inf: a weight that underflowed to 0 would make that a NaN.
    weighted = y == -kInfinity ? kInfinity : weighted + weight * (x - y);
  }
  const double log_sum_a = top_a.logit + std::log(sum_a);
  const double log_sum_b = top_b.logit + std::log(sum_b);
  // Rounding leaves values around -1e-17 where the sides agree.
  score.kl = std::max(0.0, weighted / sum_a - (log_sum_a - log_sum_b));
  score.nll_a = log_sum_a - a[static_cast<std::size_t>(target)];
  score.nll_b = log_sum_b - b[static_cast<std::size_t>(target)];
  return score;
}

double quantile(std::span<const double> sorted, double fraction) {
  TESSERA_CHECK(!sorted.empty());
  const double position = fraction * static_cast<double>(sorted.size() - 1);
  const auto low = static_cast<std::size_t>(position);
  const double part = position - static_cast<double>(low);
  // A neighbour that does not count may be infinite.
  if (part == 0.0 || sorted[low] == sorted[low + 1]) return sorted[low];
  return sorted[low] + part * (sorted[low + 1] - sorted[low]);
}

KlReport summarize(std::span<const TokenScore> scores) {
  TESSERA_CHECK(!scores.empty());
  std::vector<double> kl;
  double nll_a = 0.0;
  double nll_b = 0.0;
  int64_t same_top = 0;
  KlReport report;
  for (const TokenScore& score : scores) {
    kl.push_back(score.kl);
    nll_a += score.nll_a;
    nll_b += score.nll_b;
    same_top += score.is_same_top ? 1 : 0;
    report.infinite_tokens += std::isinf(score.kl) ? 1 : 0;
  }
  const auto n = static_cast<double>(scores.size());
  report.tokens = static_cast<int64_t>(scores.size());
  std::tie(report.kl_mean, report.kl_standard_error) = mean_and_error(kl);
  std::sort(kl.begin(), kl.end());
  report.kl_median = quantile(kl, 0.5);
  report.kl_q90 = quantile(kl, 0.9);
  report.kl_q95 = quantile(kl, 0.95);
  report.kl_q99 = quantile(kl, 0.99);
  report.kl_max = kl.back();
  report.same_top = static_cast<double>(same_top) / n;
  report.perplexity_a = std::exp(nll_a / n);
  report.perplexity_b = std::exp(nll_b / n);
  report.ln_ratio = std::isinf(nll_a) && std::isinf(nll_b) ? 0.0 : (nll_b - nll_a) / n;
  return report;
}

}  // namespace tessera::scoring
