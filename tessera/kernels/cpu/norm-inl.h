// Normalization for one target. Included inside its namespace by target-inl.h.
#pragma once

#include "tessera/kernels/cpu/vectors-inl.h"

namespace {

/// out = x * factor (* weight).
inline void scale_row(const float* x, const float* weight, float factor, std::size_t n, float* out) {
  for_blocks(n, [&](std::size_t i, auto block) {
    Floats value = block.load(x + i) * broadcast(factor);
    if (weight != nullptr) value *= block.load(weight + i);
    block.store(out + i, value);
  });
}

inline float rms_factor(const Floats& squares, float eps, std::size_t n) {
  return 1.0F / std::sqrt(sum(squares) / static_cast<float>(n) + eps);
}

}  // namespace

void rms_norm(const float* x, const float* weight, float eps, std::size_t n, float* out) {
  Floats squares{};
  for_blocks(n, [&](std::size_t i, auto block) {
    const Floats value = block.load(x + i);
    squares += value * value;
  });
  scale_row(x, weight, rms_factor(squares, eps, n), n, out);
}

void add_rms_norm(const float* x, const float* residual, const float* weight, float eps, std::size_t n,
                  float* total, float* out) {
  Floats squares{};
  for_blocks(n, [&](std::size_t i, auto block) {
    const Floats value = block.load(x + i) + block.load(residual + i);
    block.store(total + i, value);
    squares += value * value;
  });
  scale_row(total, weight, rms_factor(squares, eps, n), n, out);
}

void layer_norm(const float* x, const float* weight, const float* bias, float eps, std::size_t n,
                float* out) {
  Floats values{};
  for_blocks(n, [&](std::size_t i, auto block) { values += block.load(x + i); });
  const Floats mean = broadcast(sum(values) / static_cast<float>(n));
  Floats squares{};
  for_blocks(n, [&](std::size_t i, auto block) {
    // Lanes beyond the end hold the mean, not 0, as their distance from it must be 0.
    Floats part = mean;
    block.store(reinterpret_cast<float*>(&part), block.load(x + i));
    const Floats centred = part - mean;
    squares += centred * centred;
  });
  const Floats factor = broadcast(rms_factor(squares, eps, n));
  for_blocks(n, [&](std::size_t i, auto block) {
    Floats value = (block.load(x + i) - mean) * factor;
    if (weight != nullptr) value *= block.load(weight + i);
    if (bias != nullptr) value += block.load(bias + i);
    block.store(out + i, value);
  });
}
