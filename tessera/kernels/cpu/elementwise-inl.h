// Gating and rotation for one target. Included inside its namespace by target-inl.h.
#pragma once

#include "tessera/kernels/cpu/vectors-inl.h"

namespace {

/// x sigmoid(s), by e^-|s| so that nothing overflows.
inline Floats times_sigmoid(Floats x, Floats s) {
  const Floats e = exp_nonpositive(s > 0.0F ? -s : s);
  const Floats numerator = s > 0.0F ? broadcast(1.0F) : e;
  return x * numerator / (e + broadcast(1.0F));
}

/// x times the normal distribution function at x. The tail beyond a = |x| is
/// erfc(a / sqrt 2) / 2 = e^(-a^2 / 2) t P(t), t = 1 / (1 + 0.26 a): the form of Abramowitz & Stegun 7.1.26
/// with a minimax polynomial of degree 8 fitted for a up to 14, 2.5e-8 of the tail at most.
inline Floats gelu(Floats x) {
  constexpr float kPolynomial[] = {0.030504942F, -0.15282910F, 0.25149184F, -0.15094960F, 0.16094829F,
                                   0.051027503F, 0.10303030F,  0.10301674F, 0.10375906F};
  const Floats a = x > 0.0F ? x : -x;
  const Floats t = broadcast(1.0F) / (a * broadcast(0.26F) + broadcast(1.0F));
  Floats p = broadcast(kPolynomial[0]);
  for (int i = 1; i < 9; ++i) p = p * t + broadcast(kPolynomial[i]);
  const Floats tail = exp_nonpositive(a * a * broadcast(-0.5F)) * t * p;
  return x * (x > 0.0F ? broadcast(1.0F) - tail : tail);
}

/// x (1 + tanh(u)) / 2 = x sigmoid(2 u), u = sqrt(2 / pi) (x + 0.044715 x^3). Beyond 10 the cube would
/// overflow, and the sigmoid is 0 or 1 long before.
inline Floats gelu_tanh(Floats x) {
  Floats at = x > 10.0F ? broadcast(10.0F) : x;
  at = at < -10.0F ? broadcast(-10.0F) : at;
  constexpr float kTwice = 1.5957691216F;  // 2 sqrt(2 / pi)
  return times_sigmoid(x, (at * at * broadcast(0.044715F) + broadcast(1.0F)) * at * broadcast(kTwice));
}

template <typename Activation>
inline void gate(const float* gates, const float* up, std::size_t n, float* out, Activation activation) {
  for_blocks(n, [&](std::size_t i, auto block) {
    block.store(out + i, activation(block.load(gates + i)) * block.load(up + i));
  });
}

}  // namespace

void swiglu(const float* gates, const float* up, std::size_t n, float* out) {
  gate(gates, up, n, out, [](Floats x) { return times_sigmoid(x, x); });
}

void geglu(const float* gates, const float* up, std::size_t n, float* out) {
  gate(gates, up, n, out, [](Floats x) { return gelu(x); });
}

void geglu_tanh(const float* gates, const float* up, std::size_t n, float* out) {
  gate(gates, up, n, out, [](Floats x) { return gelu_tanh(x); });
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

/// Like rotate(), elements 2 i and 2 i + 1 together.
void rotate_pairs(const float* x, const float* cosines, const float* sines, int half, int dim, float* out) {
  int i = 0;
  for (; i + kLanes <= half; i += kLanes) {
    const Floats low = load<Floats>(x + 2 * i);
    const Floats high = load<Floats>(x + 2 * i + kLanes);
    const Floats a =
        __builtin_shufflevector(low, high, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
    const Floats b =
        __builtin_shufflevector(low, high, 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31);
    const Floats c = load<Floats>(cosines + i);
    const Floats s = load<Floats>(sines + i);
    const Floats first = a * c - b * s;
    const Floats second = a * s + b * c;
    store(out + 2 * i,
          __builtin_shufflevector(first, second, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23));
    store(out + 2 * i + kLanes, __builtin_shufflevector(first, second, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28,
                                                        13, 29, 14, 30, 15, 31));
  }
  for (; i < half; ++i) {
    const float a = x[2 * i];
    const float b = x[2 * i + 1];
    out[2 * i] = a * cosines[i] - b * sines[i];
    out[2 * i + 1] = a * sines[i] + b * cosines[i];
  }
  if (out == x) return;
  std::memcpy(out + 2 * half, x + 2 * half, static_cast<std::size_t>(dim - 2 * half) * sizeof(float));
}
