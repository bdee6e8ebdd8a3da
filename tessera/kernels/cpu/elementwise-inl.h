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

void rope_angles(float position, const float* frequencies, int half, float* cosines, float* sines) {
  for (int i = 0; i < half; i += kLanes) {
    float at[kLanes] = {};
    const int count = half - i < kLanes ? half - i : kLanes;
    std::memcpy(at, frequencies + i, static_cast<std::size_t>(count) * sizeof(float));
    Floats sine, cosine;
    sine_cosine(load<Floats>(at) * broadcast(position), sine, cosine);
    std::memcpy(sines + i, &sine, static_cast<std::size_t>(count) * sizeof(float));
    std::memcpy(cosines + i, &cosine, static_cast<std::size_t>(count) * sizeof(float));
  }
}

void rotate(const float* x, const float* cosines, const float* sines, int half, int dim, float* out) {
  int i = 0;
  for (; i + kLanes <= half; i += kLanes) {
    const Floats a = load<Floats>(x + i);
    const Floats b = load<Floats>(x + half + i);
    const Floats c = load<Floats>(cosines + i);
    const Floats s = load<Floats>(sines + i);
    store(out + i, a * c - b * s);
    store(out + half + i, a * s + b * c);
  }
  for (; i < half; ++i) {
    const float a = x[i];
    const float b = x[half + i];
    out[i] = a * cosines[i] - b * sines[i];
    out[half + i] = a * sines[i] + b * cosines[i];
  }
  if (out == x) return;
  std::memcpy(out + 2 * half, x + 2 * half, static_cast<std::size_t>(dim - 2 * half) * sizeof(float));
}
