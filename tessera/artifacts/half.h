// IEEE float16 and bfloat16 bit patterns as float32 and back, without hardware support, so that
// parsers need nothing but the standard library.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace tessera::artifacts {

/// An unaligned little-endian value. Tessera runs on little-endian machines only.
template <typename T>
T load(const std::byte* from) {
  static_assert(std::endian::native == std::endian::little);
  T value;
  std::memcpy(&value, from, sizeof(T));
  return value;
}

/// Writes `value` at an unaligned place.
template <typename T>
void store(std::byte* to, T value) {
  std::memcpy(to, &value, sizeof(T));
}

/// The exact float32 value of a float16 bit pattern; NaN payloads are kept.
inline float half_to_float(uint16_t half) {
  const uint32_t sign = static_cast<uint32_t>(half & 0x8000u) << 16;
  const uint32_t magnitude = half & 0x7fffu;
  if (magnitude >= 0x7c00u) return std::bit_cast<float>(sign | 0x7f800000u | ((magnitude & 0x3ffu) << 13));
  if (magnitude < 0x0400u) {
    // Zero and subnormals: magnitude * 2^-24, exact in float32.
    const float value = static_cast<float>(magnitude) * 0x1p-24f;
    return sign != 0 ? -value : value;
  }
  return std::bit_cast<float>(sign | ((magnitude << 13) + ((127u - 15u) << 23)));
}

/// The float16 nearest to `value`, ties to even; infinity beyond 65504 + half a step.
inline uint16_t float_to_half(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const auto sign = static_cast<uint16_t>((bits >> 16) & 0x8000u);
  const uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return static_cast<uint16_t>(sign | 0x7e00u);
  if (magnitude >= 0x47800000u) return static_cast<uint16_t>(sign | 0x7c00u);
  if (magnitude < 0x38800000u) {
    // Below 2^-14 the float16 step is 2^-24; adding 0.5 makes float32's own rounding do the work,
    // because the step of float32 in [0.5, 1) is 2^-24 too.
    const float shifted = std::bit_cast<float>(magnitude) + 0.5f;
    return static_cast<uint16_t>(sign | (std::bit_cast<uint32_t>(shifted) - 0x3f000000u));
  }
  const uint32_t odd = (magnitude >> 13) & 1u;
  return static_cast<uint16_t>(sign | ((magnitude - ((127u - 15u) << 23) + 0xfffu + odd) >> 13));
}

/// The exact float32 value of a bfloat16 bit pattern.
inline float bfloat_to_float(uint16_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}

}  // namespace tessera::artifacts
