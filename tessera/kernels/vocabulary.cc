#include "tessera/kernels/vocabulary.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "tessera/base/check.h"
#include "tessera/kernels/cpu/targets.h"

namespace tessera::kernels {
namespace {

constexpr float kLowest = -std::numeric_limits<float>::infinity();

void check_size(std::span<const float> values) {
  TESSERA_CHECK(values.size() <= static_cast<std::size_t>(std::numeric_limits<int32_t>::max()));
}

struct Entry {
  float value;
  int32_t index;
};

/// The order of the result. As the order of a heap it keeps the entry to drop next in front.
bool is_better(const Entry& a, const Entry& b) {
  return a.value != b.value ? a.value > b.value : a.index < b.index;
}

}  // namespace

Argmax argmax(std::span<const float> values) {
  check_size(values);
  Argmax result;
  result.index = cpu::target().argmax(values.data(), values.size(), &result.is_beyond);
  return result;
}

std::vector<int32_t> top_k(std::span<const float> values, std::size_t k) {
  check_size(values);
  std::vector<Entry> best;
  best.reserve(std::min(k, values.size()));
  std::size_t at = 0;
  for (; at < values.size() && best.size() < k; ++at) {
    if (std::isnan(values[at])) continue;
    best.push_back({values[at], static_cast<int32_t>(at)});
    std::push_heap(best.begin(), best.end(), is_better);
  }
  // Later indices lose against equal values, so only what exceeds the worst entry matters.
  while (!best.empty()) {
    at = cpu::target().find_above(values.data(), at, values.size(), best.front().value);
    if (at == values.size()) break;
    std::pop_heap(best.begin(), best.end(), is_better);
    best.back() = {values[at], static_cast<int32_t>(at)};
    std::push_heap(best.begin(), best.end(), is_better);
    ++at;
  }
  std::sort_heap(best.begin(), best.end(), is_better);
  std::vector<int32_t> indices;
  indices.reserve(best.size());
  for (const Entry& entry : best) indices.push_back(entry.index);
  return indices;
}

double log_sum_exp(std::span<const float> values) {
  const Argmax best = argmax(values);
  if (best.is_beyond) {
    const bool has_nan = std::any_of(values.begin(), values.end(), [](float x) { return std::isnan(x); });
    return has_nan ? std::numeric_limits<double>::quiet_NaN() : std::numeric_limits<double>::infinity();
  }
  const float largest = values.empty() ? kLowest : values[static_cast<std::size_t>(best.index)];
  if (largest == kLowest) return largest;
  return largest + std::log(cpu::target().sum_exp(values.data(), values.size(), largest));
}

}  // namespace tessera::kernels
