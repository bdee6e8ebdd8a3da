// GGUF's block formats read as numbers. Every one of them is affine in small groups,
// value = scale * code + bias: formats with groups of 32 are repacked into the MLX affine layout
// without loss, those with groups of 16 (Q6_K, Q3_K, Q2_K) are dequantized.
// Source of the layouts: ggml's ggml-quants.c, block_q* (read as documentation).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "tessera/artifacts/gguf.h"

namespace tessera::artifacts {

/// How a format maps onto MLX's affine layout.
struct AffineForm {
  int bits;             // bits per code
  int group_size;       // 32
  bool has_f32_scales;  // true: two-level scales (Q4_K, Q5_K) that only float32 holds exactly
};

/// The affine form of `type`; absent for dense types and for groups of 16.
std::optional<AffineForm> affine_form(GgufType type);

/// Repacks `n` elements (whole blocks) into MLX's affine layout.
/// codes   n * bits / 32 words; element i occupies bits [i * bits, (i + 1) * bits) of the stream
/// scales, biases   n / 32 values: IEEE float16 bit patterns, or float32 when has_f32_scales
/// REQUIRES: affine_form(type); spans of exactly these sizes (bytes for scales and biases).
/// Exact: scale * code + bias equals the format's own value in real arithmetic.
/// Throws InvalidArtifact naming the block when a scale or bias is not finite, a float16 bias that
/// overflows included.
void repack_affine(GgufType type, std::span<const std::byte> blocks, std::span<uint32_t> codes,
                   std::span<std::byte> scales, std::span<std::byte> biases);

/// Dequantizes `n` elements of any format to float32 in ggml's order of operations.
/// REQUIRES: whole blocks; `values` holds exactly their elements.
void dequantize_blocks(GgufType type, std::span<const std::byte> blocks, std::span<float> values);

/// Scale and minimum, six bits each, of one group of 32 in Q4_K's and Q5_K's 12 packed bytes.
struct SubScale {
  int scale;
  int minimum;
};
SubScale k_sub_scale(const std::byte* scales, int group);

}  // namespace tessera::artifacts
