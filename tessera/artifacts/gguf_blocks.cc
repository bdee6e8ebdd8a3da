#include "tessera/artifacts/gguf_blocks.h"

#include <string>

#include "tessera/artifacts/half.h"
#include "tessera/base/check.h"

namespace tessera::artifacts {
namespace {

int low(std::byte b) { return std::to_integer<int>(b & std::byte{15}); }
int high(std::byte b) { return std::to_integer<int>(b >> 4); }
int number(std::byte b) { return std::to_integer<int>(b); }
int signed_number(std::byte b) { return static_cast<int8_t>(std::to_integer<uint8_t>(b)); }
float half_at(const std::byte* p) { return half_to_float(load<uint16_t>(p)); }

// ---- groups of 32, one scale (and minimum) each -----------------------------------------------

/// d, 16 bytes: element i < 16 is the low nibble of byte i, element i + 16 its high nibble.
void q4_0(const std::byte* block, float* y) {
  const float d = half_at(block);
  for (int i = 0; i < 16; ++i) {
    y[i] = static_cast<float>(low(block[2 + i]) - 8) * d;
    y[i + 16] = static_cast<float>(high(block[2 + i]) - 8) * d;
  }
}

/// d, m, 16 bytes.
void q4_1(const std::byte* block, float* y) {
  const float d = half_at(block);
  const float m = half_at(block + 2);
  for (int i = 0; i < 16; ++i) {
    y[i] = static_cast<float>(low(block[4 + i])) * d + m;
    y[i + 16] = static_cast<float>(high(block[4 + i])) * d + m;
  }
}

/// d, 32 fifth bits, 16 bytes.
void q5_0(const std::byte* block, float* y) {
  const float d = half_at(block);
  const auto fifth = load<uint32_t>(block + 2);
  for (int i = 0; i < 16; ++i) {
    const int a = low(block[6 + i]) | static_cast<int>((fifth >> i) & 1u) << 4;
    const int b = high(block[6 + i]) | static_cast<int>((fifth >> (i + 16)) & 1u) << 4;
    y[i] = static_cast<float>(a - 16) * d;
    y[i + 16] = static_cast<float>(b - 16) * d;
  }
}

/// d, m, 32 fifth bits, 16 bytes.
void q5_1(const std::byte* block, float* y) {
  const float d = half_at(block);
  const float m = half_at(block + 2);
  const auto fifth = load<uint32_t>(block + 4);
  for (int i = 0; i < 16; ++i) {
    const int a = low(block[8 + i]) | static_cast<int>((fifth >> i) & 1u) << 4;
    const int b = high(block[8 + i]) | static_cast<int>((fifth >> (i + 16)) & 1u) << 4;
    y[i] = static_cast<float>(a) * d + m;
    y[i + 16] = static_cast<float>(b) * d + m;
  }
}

/// d, 32 signed bytes.
void q8_0(const std::byte* block, float* y) {
  const float d = half_at(block);
  for (int i = 0; i < 32; ++i) y[i] = static_cast<float>(signed_number(block[2 + i])) * d;
}

// ---- super-blocks of 256 with two-level scales ------------------------------------------------

/// 16 bytes of (scale, minimum) nibbles, 64 bytes of 2-bit codes, d, dmin. Groups of 16.
void q2_k(const std::byte* block, float* y) {
  const std::byte* scales = block;
  const std::byte* codes = block + 16;
  const float d = half_at(block + 80);
  const float dmin = half_at(block + 82);
  for (int group = 0; group < 16; ++group) {
    // Each 32 bytes hold 128 elements, two bits deep per 32 of them.
    const std::byte* from = codes + group / 8 * 32 + group % 2 * 16;
    const int shift = group % 8 / 2 * 2;
    const float scale = d * static_cast<float>(low(scales[group]));
    const float minimum = dmin * static_cast<float>(high(scales[group]));
    for (int i = 0; i < 16; ++i) {
      y[group * 16 + i] = scale * static_cast<float>((number(from[i]) >> shift) & 3) - minimum;
    }
  }
}

/// 32 bytes of third bits (clear means minus 4), 64 bytes of 2-bit codes, 16 packed 6-bit scales
/// offset by 32, d. Groups of 16.
void q3_k(const std::byte* block, float* y) {
  const std::byte* third = block;
  const std::byte* codes = block + 32;
  const std::byte* scales = block + 96;
  const float d = half_at(block + 108);
  for (int group = 0; group < 16; ++group) {
    const int low_bits = group < 8 ? low(scales[group]) : high(scales[group - 8]);
    const int high_bits = (number(scales[8 + group % 4]) >> (group / 4 * 2)) & 3;
    const float scale = d * static_cast<float>((low_bits | high_bits << 4) - 32);
    const std::byte* from = codes + group / 8 * 32 + group % 2 * 16;
    const std::byte* bit_from = third + group % 2 * 16;
    const int shift = group % 8 / 2 * 2;
    const int bit = group / 2;
    for (int i = 0; i < 16; ++i) {
      const int third_bit = (number(bit_from[i]) >> bit) & 1;
      const int code = ((number(from[i]) >> shift) & 3) - (third_bit != 0 ? 0 : 4);
      y[group * 16 + i] = scale * static_cast<float>(code);
    }
  }
}

/// d, dmin, 12 bytes of scales, 128 bytes of nibbles: 32 bytes hold two groups, low then high.
void q4_k(const std::byte* block, float* y) {
  const float d = half_at(block);
  const float dmin = half_at(block + 2);
  for (int group = 0; group < 8; ++group) {
    const SubScale sub = k_sub_scale(block + 4, group);
    const float scale = d * static_cast<float>(sub.scale);
    const float minimum = dmin * static_cast<float>(sub.minimum);
    const std::byte* from = block + 16 + group / 2 * 32;
    for (int i = 0; i < 32; ++i) {
      const int code = group % 2 == 0 ? low(from[i]) : high(from[i]);
      y[group * 32 + i] = scale * static_cast<float>(code) - minimum;
    }
  }
}

/// Q4_K with 32 bytes of fifth bits before the nibbles: bit g of byte i is of element i of group g.
void q5_k(const std::byte* block, float* y) {
  const float d = half_at(block);
  const float dmin = half_at(block + 2);
  const std::byte* fifth = block + 16;
  for (int group = 0; group < 8; ++group) {
    const SubScale sub = k_sub_scale(block + 4, group);
    const float scale = d * static_cast<float>(sub.scale);
    const float minimum = dmin * static_cast<float>(sub.minimum);
    const std::byte* from = block + 48 + group / 2 * 32;
    for (int i = 0; i < 32; ++i) {
      const int nibble = group % 2 == 0 ? low(from[i]) : high(from[i]);
      const int code = nibble | ((number(fifth[i]) >> group) & 1) << 4;
      y[group * 32 + i] = scale * static_cast<float>(code) - minimum;
    }
  }
}

/// 128 bytes of low nibbles, 64 bytes of high bit pairs, 16 signed scales, d. Groups of 16.
void q6_k(const std::byte* block, float* y) {
  const std::byte* scales = block + 192;
  const float d = half_at(block + 208);
  for (int group = 0; group < 16; ++group) {
    // A half of 128 elements is four quarters of 32: bytes 0-31 low, 32-63 low, then both high.
    const int quarter = group % 8 / 2;
    const std::byte* nibbles = block + group / 8 * 64 + quarter % 2 * 32 + group % 2 * 16;
    const std::byte* pairs = block + 128 + group / 8 * 32 + group % 2 * 16;
    const float scale = d * static_cast<float>(signed_number(scales[group]));
    for (int i = 0; i < 16; ++i) {
      const int nibble = quarter < 2 ? low(nibbles[i]) : high(nibbles[i]);
      const int code = nibble | ((number(pairs[i]) >> (quarter * 2)) & 3) << 4;
      y[group * 16 + i] = scale * static_cast<float>(code - 32);
    }
  }
}

// ---- dense formats ----------------------------------------------------------------------------

void f32(const std::byte* block, float* y) { *y = load<float>(block); }
void f16(const std::byte* block, float* y) { *y = half_at(block); }
void bf16(const std::byte* block, float* y) { *y = bfloat_to_float(load<uint16_t>(block)); }

/// One loop per format, so that the block function inlines into it.
template <void (*Block)(const std::byte*, float*), std::size_t kBytes, std::size_t kElements>
void each_block(std::span<const std::byte> blocks, std::span<float> values) {
  const std::size_t n = values.size() / kElements;
  for (std::size_t i = 0; i < n; ++i) Block(blocks.data() + i * kBytes, values.data() + i * kElements);
}

}  // namespace

SubScale k_sub_scale(const std::byte* scales, int group) {
  // Groups 0-3 sit in six bits of a byte; groups 4-7 are nibbles whose upper two bits fill the
  // first eight bytes' spare bits.
  if (group < 4) return {number(scales[group]) & 63, number(scales[group + 4]) & 63};
  return {low(scales[group + 4]) | number(scales[group - 4]) >> 6 << 4,
          high(scales[group + 4]) | number(scales[group]) >> 6 << 4};
}

void dequantize_blocks(GgufType type, std::span<const std::byte> blocks, std::span<float> values) {
  const auto elements = static_cast<std::size_t>(gguf_block_elements(type));
  TESSERA_CHECK(values.size() % elements == 0);
  TESSERA_CHECK(blocks.size() == values.size() / elements * gguf_block_bytes(type));
  switch (type) {
    case GgufType::kF32: return each_block<f32, 4, 1>(blocks, values);
    case GgufType::kF16: return each_block<f16, 2, 1>(blocks, values);
    case GgufType::kBF16: return each_block<bf16, 2, 1>(blocks, values);
    case GgufType::kQ4_0: return each_block<q4_0, 18, 32>(blocks, values);
    case GgufType::kQ4_1: return each_block<q4_1, 20, 32>(blocks, values);
    case GgufType::kQ5_0: return each_block<q5_0, 22, 32>(blocks, values);
    case GgufType::kQ5_1: return each_block<q5_1, 24, 32>(blocks, values);
    case GgufType::kQ8_0: return each_block<q8_0, 34, 32>(blocks, values);
    case GgufType::kQ2_K: return each_block<q2_k, 84, 256>(blocks, values);
    case GgufType::kQ3_K: return each_block<q3_k, 110, 256>(blocks, values);
    case GgufType::kQ4_K: return each_block<q4_k, 144, 256>(blocks, values);
    case GgufType::kQ5_K: return each_block<q5_k, 176, 256>(blocks, values);
    case GgufType::kQ6_K: return each_block<q6_k, 210, 256>(blocks, values);
  }
  base::check_failed("format is listed", __FILE__, __LINE__);
}

}  // namespace tessera::artifacts
