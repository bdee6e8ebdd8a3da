// Reductions over a vocabulary one value at a time, sums in double: the oracle of kernels/vocabulary.h.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "tessera/kernels/vocabulary.h"

namespace tessera::kernels::reference {

Argmax argmax(std::span<const float> values);
std::vector<int32_t> top_k(std::span<const float> values, std::size_t k);
double log_sum_exp(std::span<const float> values);

}  // namespace tessera::kernels::reference
