// Reductions over a vocabulary for one target. Included inside its namespace by target-inl.h.
#pragma once

#include "tessera/kernels/cpu/vectors-inl.h"

namespace {

constexpr int kChains = 4;  // running results side by side: a comparison need not wait for the one before

/// Up to 16 values, the rest -inf: those are never larger than anything.
inline Floats load_values(const float* x, std::size_t count) {
  Floats values = broadcast(-__builtin_inff());
  std::memcpy(&values, x, (count < kLanes ? count : kLanes) * sizeof(float));
  return values;
}

inline bool any(const Ints& mask) {
  typedef int64_t Four __attribute__((vector_size(32)));
  typedef int64_t Two __attribute__((vector_size(16)));
  const Four four = load<Four>(&mask) | load<Four>(reinterpret_cast<const char*>(&mask) + 32);
  const Two two = load<Two>(&four) | load<Two>(reinterpret_cast<const char*>(&four) + 16);
  return (two[0] | two[1]) != 0;
}

/// Lane-wise maxima and the first block of 16 that has each.
struct Maximum {
  Floats values = broadcast(-__builtin_inff());
  Ints blocks{};
  Ints beyond{};

  inline void take(Floats x, int32_t block) {
    const Ints is_larger = x > values;
    values = is_larger ? x : values;
    blocks = is_larger ? block - Ints{} : blocks;
    beyond |= ~(x < broadcast(__builtin_inff()));
  }
};

}  // namespace

int32_t argmax(const float* x, std::size_t n, bool* is_beyond) {
  Maximum chains[kChains];
  std::size_t i = 0;
  int32_t block = 0;
  for (; i + kChains * kLanes <= n; i += kChains * kLanes, block += kChains) {
    for (int chain = 0; chain < kChains; ++chain)
      chains[chain].take(load<Floats>(x + i + static_cast<std::size_t>(chain * kLanes)), block + chain);
  }
  for (; i < n; i += kLanes) chains[0].take(load_values(x + i, n - i), block++);
  int32_t best = 0;
  float best_value = -__builtin_inff();
  Ints beyond{};
  for (const Maximum& chain : chains) {
    beyond |= chain.beyond;
    for (int lane = 0; lane < kLanes; ++lane) {
      const int32_t at = chain.blocks[lane] * kLanes + lane;
      const float value = chain.values[lane];
      const bool is_first_of_equals = value == best_value && value > -__builtin_inff() && at < best;
      if (!(value > best_value) && !is_first_of_equals) continue;
      best = at;
      best_value = value;
    }
  }
  *is_beyond = any(beyond);
  return best;
}

std::size_t find_above(const float* x, std::size_t begin, std::size_t n, float threshold) {
  const Floats limit = broadcast(threshold);
  std::size_t i = begin;
  for (; i + kChains * kLanes <= n; i += kChains * kLanes) {
    Ints is_above{};
    for (std::size_t chain = 0; chain < kChains; ++chain)
      is_above |= load<Floats>(x + i + chain * kLanes) > limit;
    if (any(is_above)) break;
  }
  while (i < n && !(x[i] > threshold)) ++i;
  return i;
}

namespace {

/// Sixteen running sums in double.
struct DoubleSums {
  typedef double Doubles __attribute__((vector_size(64)));
  typedef float Eight __attribute__((vector_size(32)));
  Doubles low{}, high{};

  inline void add(Floats x) {
    low += __builtin_convertvector(load<Eight>(&x), Doubles);
    high += __builtin_convertvector(load<Eight>(reinterpret_cast<const char*>(&x) + 32), Doubles);
  }
  inline double total() const {
    const Doubles both = low + high;
    double sum = 0;
    for (int lane = 0; lane < 8; ++lane) sum += both[lane];
    return sum;
  }
};

}  // namespace

double sum_exp(const float* x, std::size_t n, float largest) {
  DoubleSums sums;
  std::size_t i = 0;
  for (; i + kLanes <= n; i += kLanes) sums.add(exp_nonpositive(load<Floats>(x + i) - broadcast(largest)));
  if (i < n) sums.add(exp_nonpositive(load_values(x + i, n - i) - broadcast(largest)));
  return sums.total();
}
