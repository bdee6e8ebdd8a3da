// Reductions over the scores of a vocabulary. Host values in, host values out: what they feed is a choice,
// not a graph.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace tessera::kernels {

/// Where the largest of some values stands.
struct Argmax {
  int32_t index = 0;       // the lowest one on ties; NaN is never chosen; 0 when nothing exceeds -inf
  bool is_beyond = false;  // a value is NaN or +inf
};

/// REQUIRES: fewer than 2^31 values.
Argmax argmax(std::span<const float> values);

/// The indices of the k largest values, descending, the lower index first among equals. NaN is never
/// chosen, -inf is: min(k, values that are not NaN) indices. REQUIRES: fewer than 2^31 values.
std::vector<int32_t> top_k(std::span<const float> values, std::size_t k);

/// log(sum(e^x)): exponentials of x - max(x) in float32, summed in double; the sum is within 1e-6 of itself, so
/// the result is within 1e-6 of the true one. -inf when there is nothing above -inf, NaN when a value is NaN,
/// otherwise +inf when one is.
double log_sum_exp(std::span<const float> values);

}  // namespace tessera::kernels
