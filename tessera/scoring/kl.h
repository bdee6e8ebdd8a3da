// Kullback-Leibler divergence of one position's logits, and the figures of many positions.
#pragma once

#include <cstdint>
#include <span>

#include "tessera/scorer.h"

namespace tessera::scoring {

/// What two sides say about one position.
struct TokenScore {
  double kl = 0.0;           // KL(P || Q) in nats, >= 0
  double nll_a = 0.0;        // -log P(target)
  double nll_b = 0.0;        // -log Q(target)
  bool is_same_top = false;  // the likeliest token is the same; the lowest id on ties
  bool is_defined = true;    // false: a side's logits hold no distribution (NaN, +inf, or all -inf)
};

/// a, b [V] float32 logits of P and Q; target in [0, V).
/// KL = sum_i p_i * ((a_i - b_i) - (lse_a - lse_b)), in float64 throughout: equal logits give exactly 0.
/// A token with a logit of -inf in P adds nothing; one that P allows (a finite logit) and Q does not
/// (-inf) makes it infinite. Source: klPerToken of the reference system, without its NaN.
/// REQUIRES: a.size() == b.size() > 0.
TokenScore score_token(std::span<const float> a, std::span<const float> b, int32_t target);

/// Figures of `scores`, which it leaves as they are; fields of KlReport that the scores do not determine
/// keep their defaults. REQUIRES: !scores.empty().
KlReport summarize(std::span<const TokenScore> scores);

/// The value at `fraction` in [0, 1] of the way through `sorted`, interpolated between its neighbours
/// (Hyndman and Fan's definition 7, NumPy's default). Infinities at the end stay themselves.
/// REQUIRES: ascending, not empty.
double quantile(std::span<const double> sorted, double fraction);

}  // namespace tessera::scoring
