// The lossless half of gguf_blocks.h: formats with groups of 32 as MLX's affine codes.
#include <cmath>
#include <string>

#include "tessera/artifacts/gguf_blocks.h"
#include "tessera/artifacts/half.h"
#include "tessera/base/check.h"

namespace tessera::artifacts {
namespace {

constexpr uint64_t kNibbles = 0x0f0f0f0f0f0f0f0f;

/// Packs the low four bits of eight bytes into 32 bits, first byte lowest.
uint32_t pack_nibbles(uint64_t x) {
  x &= kNibbles;
  x = (x | x >> 4) & 0x00ff00ff00ff00ff;
  x = (x | x >> 8) & 0x0000ffff0000ffff;
  return static_cast<uint32_t>(x | x >> 16);
}

/// Packs the low five bits of eight bytes into 40 bits, first byte lowest.
uint64_t pack_fives(uint64_t x) {
  x = (x & 0x001f001f001f001f) | (x & 0x1f001f001f001f00) >> 3;
  x = (x & 0x000003ff000003ff) | (x & 0x03ff000003ff0000) >> 6;
  return (x & 0xfffff) | (x >> 32 & 0xfffff) << 20;
}

/// Writes 32 five-bit codes given as bytes, 8 to a word: 20 bytes.
void store_fives(const uint64_t (&bytes)[4], std::byte* out) {
  const uint64_t a = pack_fives(bytes[0]);
  const uint64_t b = pack_fives(bytes[1]);
  const uint64_t c = pack_fives(bytes[2]);
  const uint64_t d = pack_fives(bytes[3]);
  store<uint64_t>(out, a | b << 40);
  store<uint64_t>(out + 8, b >> 24 | c << 16 | d << 56);
  store<uint32_t>(out + 16, static_cast<uint32_t>(d >> 8));
}

/// Eight bytes that hold bit k of `bits` in their bit 4, first byte bit 0.
uint64_t spread_fifth(uint32_t bits) {
  const uint64_t picked = (bits & 0xffu) * 0x0101010101010101u & 0x8040201008040201u;
  return ((picked + 0x7f7f7f7f7f7f7f7f) >> 3) & 0x1010101010101010;
}

void nibble_codes(const std::byte* qs, std::byte* codes) {
  const auto a = load<uint64_t>(qs);
  const auto b = load<uint64_t>(qs + 8);
  store(codes, pack_nibbles(a));
  store(codes + 4, pack_nibbles(b));
  store(codes + 8, pack_nibbles(a >> 4));
  store(codes + 12, pack_nibbles(b >> 4));
}

void five_codes(const std::byte* fifth_bits, const std::byte* qs, std::byte* codes) {
  const auto fifth = load<uint32_t>(fifth_bits);
  const auto a = load<uint64_t>(qs);
  const auto b = load<uint64_t>(qs + 8);
  const uint64_t bytes[4] = {(a & kNibbles) | spread_fifth(fifth), (b & kNibbles) | spread_fifth(fifth >> 8),
                             (a >> 4 & kNibbles) | spread_fifth(fifth >> 16),
                             (b >> 4 & kNibbles) | spread_fifth(fifth >> 24)};
  store_fives(bytes, codes);
}

/// Where one block's affine form goes.
struct Target {
  std::byte* codes;
  std::byte* scales;
  std::byte* biases;
};

/// Stores a float16 scale and the bias scale * `factor`, a power of two: exact unless it overflows.
/// Returns whether both are finite.
bool store_symmetric(uint16_t scale, float factor, Target to) {
  const uint16_t bias = float_to_half(half_to_float(scale) * factor);
  store(to.scales, scale);
  store(to.biases, bias);
  return (bias & 0x7c00u) != 0x7c00u;
}

bool store_pair(uint16_t scale, uint16_t bias, Target to) {
  store(to.scales, scale);
  store(to.biases, bias);
  return (scale & 0x7c00u) != 0x7c00u && (bias & 0x7c00u) != 0x7c00u;
}

// Each returns whether its scales and biases are finite.

bool q4_0(const std::byte* block, Target to) {
  nibble_codes(block + 2, to.codes);
  return store_symmetric(load<uint16_t>(block), -8.0f, to);
}

bool q4_1(const std::byte* block, Target to) {
  nibble_codes(block + 4, to.codes);
  return store_pair(load<uint16_t>(block), load<uint16_t>(block + 2), to);
}

bool q5_0(const std::byte* block, Target to) {
  five_codes(block + 2, block + 6, to.codes);
  return store_symmetric(load<uint16_t>(block), -16.0f, to);
}

bool q5_1(const std::byte* block, Target to) {
  five_codes(block + 4, block + 8, to.codes);
  return store_pair(load<uint16_t>(block), load<uint16_t>(block + 2), to);
}

bool q8_0(const std::byte* block, Target to) {
  for (int i = 0; i < 32; i += 8) {
    store(to.codes + i, load<uint64_t>(block + 2 + i) ^ 0x8080808080808080u);  // q + 128
  }
  return store_symmetric(load<uint16_t>(block), -128.0f, to);
}

/// The two-level scales as float32: an 11-bit times a 6-bit significand is exact there.
bool store_k_scales(const std::byte* block, Target to) {
  const float d = half_to_float(load<uint16_t>(block));
  const float dmin = half_to_float(load<uint16_t>(block + 2));
  for (int group = 0; group < 8; ++group) {
    const SubScale sub = k_sub_scale(block + 4, group);
    store(to.scales + group * 4, d * static_cast<float>(sub.scale));
    store(to.biases + group * 4, -(dmin * static_cast<float>(sub.minimum)));
  }
  return std::isfinite(d) && std::isfinite(dmin);
}

bool q4_k(const std::byte* block, Target to) {
  for (int pair = 0; pair < 4; ++pair) {
    const std::byte* qs = block + 16 + pair * 32;
    std::byte* codes = to.codes + pair * 32;
    for (int i = 0; i < 4; ++i) {
      const auto x = load<uint64_t>(qs + i * 8);
      store(codes + i * 4, pack_nibbles(x));
      store(codes + 16 + i * 4, pack_nibbles(x >> 4));
    }
  }
  return store_k_scales(block, to);
}

bool q5_k(const std::byte* block, Target to) {
  constexpr uint64_t kBit4 = 0x1010101010101010;
  uint64_t fifth[4];
  for (int i = 0; i < 4; ++i) fifth[i] = load<uint64_t>(block + 16 + i * 8);
  for (int group = 0; group < 8; ++group) {
    uint64_t bytes[4];
    for (int i = 0; i < 4; ++i) {
      const auto x = load<uint64_t>(block + 48 + group / 2 * 32 + i * 8);
      // Bit `group` of every byte moves to bit 4; what it drags along is masked away.
      const uint64_t bit = (group <= 4 ? fifth[i] << (4 - group) : fifth[i] >> (group - 4)) & kBit4;
      bytes[i] = (x >> (group % 2 * 4) & kNibbles) | bit;
    }
    store_fives(bytes, to.codes + group * 20);
  }
  return store_k_scales(block, to);
}

template <bool (*Block)(const std::byte*, Target)>
void each_block(GgufType type, std::span<const std::byte> blocks, Target to) {
  const AffineForm form = *affine_form(type);
  const std::size_t block_bytes = gguf_block_bytes(type);
  const auto elements = static_cast<std::size_t>(gguf_block_elements(type));
  const std::size_t code_bytes = elements * static_cast<std::size_t>(form.bits) / 8;
  const std::size_t scale_bytes = elements / 32 * (form.has_f32_scales ? 4 : 2);
  const std::size_t n = blocks.size() / block_bytes;
  for (std::size_t i = 0; i < n; ++i) {
    if (!Block(blocks.data() + i * block_bytes, to)) {
      base::fail_artifact("[gguf.repack_affine] block ", i, " of format ", gguf_type_name(type),
                          ": the scale or bias is not finite or overflows float16");
    }
    to.codes += code_bytes;
    to.scales += scale_bytes;
    to.biases += scale_bytes;
  }
}

}  // namespace

std::optional<AffineForm> affine_form(GgufType type) {
  switch (type) {
    case GgufType::kQ4_0:
    case GgufType::kQ4_1: return AffineForm{4, 32, false};
    case GgufType::kQ5_0:
    case GgufType::kQ5_1: return AffineForm{5, 32, false};
    case GgufType::kQ8_0: return AffineForm{8, 32, false};
    case GgufType::kQ4_K: return AffineForm{4, 32, true};
    case GgufType::kQ5_K: return AffineForm{5, 32, true};
    default: return std::nullopt;
  }
}

void repack_affine(GgufType type, std::span<const std::byte> blocks, std::span<uint32_t> codes,
                   std::span<std::byte> scales, std::span<std::byte> biases) {
  const std::optional<AffineForm> form = affine_form(type);
  TESSERA_CHECK(form.has_value());
  TESSERA_CHECK(blocks.size() % gguf_block_bytes(type) == 0);
  const std::size_t n =
      blocks.size() / gguf_block_bytes(type) * static_cast<std::size_t>(gguf_block_elements(type));
  TESSERA_CHECK(codes.size() == n / 32 * static_cast<std::size_t>(form->bits));
  TESSERA_CHECK(scales.size() == n / 32 * (form->has_f32_scales ? 4u : 2u));
  TESSERA_CHECK(biases.size() == scales.size());
  const Target to{std::as_writable_bytes(codes).data(), scales.data(), biases.data()};
  switch (type) {
    case GgufType::kQ4_0: return each_block<q4_0>(type, blocks, to);
    case GgufType::kQ4_1: return each_block<q4_1>(type, blocks, to);
    case GgufType::kQ5_0: return each_block<q5_0>(type, blocks, to);
    case GgufType::kQ5_1: return each_block<q5_1>(type, blocks, to);
    case GgufType::kQ8_0: return each_block<q8_0>(type, blocks, to);
    case GgufType::kQ4_K: return each_block<q4_k>(type, blocks, to);
    case GgufType::kQ5_K: return each_block<q5_k>(type, blocks, to);
    default: base::check_failed("format has an affine form", __FILE__, __LINE__);
  }
}

}  // namespace tessera::artifacts
