#include "tessera/kernels/reference/vocabulary.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace tessera::kernels::reference {

Argmax argmax(std::span<const float> values) {
  Argmax result;
  float best = -std::numeric_limits<float>::infinity();
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (std::isnan(values[i]) || values[i] == std::numeric_limits<float>::infinity()) result.is_beyond = true;
    if (!(values[i] > best)) continue;
    best = values[i];
    result.index = static_cast<int32_t>(i);
  }
  return result;
}

std::vector<int32_t> top_k(std::span<const float> values, std::size_t k) {
  std::vector<int32_t> indices;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (!std::isnan(values[i])) indices.push_back(static_cast<int32_t>(i));
  }
  std::stable_sort(indices.begin(), indices.end(), [&](int32_t a, int32_t b) {
    return values[static_cast<std::size_t>(a)] > values[static_cast<std::size_t>(b)];
  });
  indices.resize(std::min(k, indices.size()));
  return indices;
}

double log_sum_exp(std::span<const float> values) {
  double largest = -std::numeric_limits<double>::infinity();
  for (const float x : values) {
    if (std::isnan(x)) return std::numeric_limits<double>::quiet_NaN();
    largest = std::max(largest, static_cast<double>(x));
  }
  if (std::isinf(largest)) return largest;
  double sum = 0;
  for (const float x : values) sum += std::exp(x - largest);
  return largest + std::log(sum);
}

}  // namespace tessera::kernels::reference
