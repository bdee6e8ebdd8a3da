// Normalization and gating for one target. Included inside its namespace by target-inl.h.
#pragma once

#include "tessera/kernels/cpu/vectors-inl.h"

namespace {

/// x sigmoid(x) y, by e^-|x| so that nothing overflows.
inline Floats gate_with(Floats x, Floats y) {
  const Floats e = exp_nonpositive(x > 0.0F ? -x : x);
  const Floats numerator = x > 0.0F ? broadcast(1.0F) : e;
  return x * numerator / (e + broadcast(1.0F)) * y;
}

}  // namespace

void rms_norm(const float* x, const float* weight, float eps, std::size_t n, float* out) {
  Floats squares{};
  for (std::size_t i = 0; i < n; i += kLanes) {
    const Floats value = load<Floats>(x + i);
    squares += value * value;
  }
  const Floats factor = broadcast(1.0F / std::sqrt(sum(squares) / static_cast<float>(n) + eps));
  for (std::size_t i = 0; i < n; i += kLanes) {
    Floats value = load<Floats>(x + i) * factor;
    if (weight != nullptr) value *= load<Floats>(weight + i);
    store(out + i, value);
  }
}

void swiglu(const float* gate, const float* up, std::size_t n, float* out) {
  std::size_t i = 0;
  for (; i + kLanes <= n; i += kLanes)
    store(out + i, gate_with(load<Floats>(gate + i), load<Floats>(up + i)));
  if (i == n) return;
  float tail[3][kLanes] = {};
  std::memcpy(tail[0], gate + i, (n - i) * sizeof(float));
  std::memcpy(tail[1], up + i, (n - i) * sizeof(float));
  store(tail[2], gate_with(load<Floats>(tail[0]), load<Floats>(tail[1])));
  std::memcpy(out + i, tail[2], (n - i) * sizeof(float));
}
