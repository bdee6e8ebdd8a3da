// Block formats against hand-computed values, against goldens of the gguf package, and the affine
// form against the format's own values.
#include "tessera/artifacts/gguf_blocks.h"

#include <gtest/gtest.h>

#include <cctype>
#include <cmath>
#include <cstring>
#include <filesystem>

#include "tessera/artifacts/half.h"
#include "tessera/artifacts/safetensors.h"
#include "tessera/base/file.h"
#include "tessera/error.h"
#include "tests/artifacts/file_builders.h"

namespace tessera::artifacts {
namespace {

using testing::Bytes;

constexpr GgufType kAllTypes[] = {GgufType::kF32,  GgufType::kF16,  GgufType::kBF16, GgufType::kQ4_0,
                                  GgufType::kQ4_1, GgufType::kQ5_0, GgufType::kQ5_1, GgufType::kQ8_0,
                                  GgufType::kQ2_K, GgufType::kQ3_K, GgufType::kQ4_K, GgufType::kQ5_K,
                                  GgufType::kQ6_K};

void append_half(Bytes& out, float value) { testing::append(out, float_to_half(value)); }

std::vector<float> dequantized(GgufType type, std::span<const std::byte> blocks) {
  std::vector<float> values(blocks.size() / gguf_block_bytes(type) *
                            static_cast<std::size_t>(gguf_block_elements(type)));
  dequantize_blocks(type, blocks, values);
  return values;
}

TEST(Half, RoundTripsEveryPattern) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto half = static_cast<uint16_t>(bits);
    const float value = half_to_float(half);
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(half_to_float(float_to_half(value))));
    } else {
      ASSERT_EQ(float_to_half(value), half) << bits;
    }
  }
}

TEST(Half, RoundsToNearestEven) {
  EXPECT_EQ(half_to_float(0x3c00), 1.0f);
  EXPECT_EQ(half_to_float(0x0001), 0x1p-24f);
  EXPECT_EQ(half_to_float(0xfbff), -65504.0f);
  EXPECT_EQ(float_to_half(1.0f + 0x1p-11f), 0x3c00);  // halfway: to even
  EXPECT_EQ(float_to_half(1.0f + 0x1p-11f * 3), 0x3c02);
  EXPECT_EQ(float_to_half(65519.0f), 0x7bff);
  EXPECT_EQ(float_to_half(65520.0f), 0x7c00);
  EXPECT_EQ(float_to_half(0x1p-25f), 0x0000);
  EXPECT_EQ(float_to_half(0x1p-25f * 1.5f), 0x0001);
  EXPECT_EQ(float_to_half(-0.0f), 0x8000);
  EXPECT_EQ(float_to_half(INFINITY), 0x7c00);
}

TEST(GgufBlocks, SimpleFormatsByHand) {
  Bytes q4_0;
  append_half(q4_0, 0.5f);
  for (int i = 0; i < 16; ++i) q4_0.push_back(static_cast<std::byte>(i | (15 - i) << 4));
  std::vector<float> y = dequantized(GgufType::kQ4_0, q4_0);
  for (int i = 0; i < 16; ++i) {
    EXPECT_EQ(y[i], 0.5f * static_cast<float>(i - 8));
    EXPECT_EQ(y[i + 16], 0.5f * static_cast<float>(7 - i));
  }
  Bytes q5_1;
  append_half(q5_1, 2.0f);
  append_half(q5_1, -1.0f);
  testing::append<uint32_t>(q5_1, 0x80000001u);  // fifth bits of elements 0 and 31
  for (int i = 0; i < 16; ++i) q5_1.push_back(std::byte{0x21});
  y = dequantized(GgufType::kQ5_1, q5_1);
  EXPECT_EQ(y[0], 2.0f * 17 - 1);
  EXPECT_EQ(y[1], 2.0f * 1 - 1);
  EXPECT_EQ(y[30], 2.0f * 2 - 1);
  EXPECT_EQ(y[31], 2.0f * 18 - 1);
  Bytes q8_0;
  append_half(q8_0, 0.25f);
  for (int i = 0; i < 32; ++i) q8_0.push_back(static_cast<std::byte>(i * 8 - 128));
  y = dequantized(GgufType::kQ8_0, q8_0);
  EXPECT_EQ(y[0], -32.0f);
  EXPECT_EQ(y[31], 30.0f);
}

TEST(GgufBlocks, KFormatsByHand) {
  // Q6_K: element 0 has low nibble 5 and high pair 2: 37 - 32 = 5; element 128 sits in the second half.
  Bytes q6(210);
  q6[0] = std::byte{0x05};
  q6[128] = std::byte{0x02};
  q6[64] = std::byte{0x0f};
  q6[160] = std::byte{0x03};
  for (int i = 0; i < 16; ++i) q6[192 + i] = static_cast<std::byte>(i - 4);
  store(q6.data() + 208, float_to_half(0.5f));
  std::vector<float> y = dequantized(GgufType::kQ6_K, q6);
  EXPECT_EQ(y[0], 0.5f * -4 * 5);
  EXPECT_EQ(y[1], 0.5f * -4 * -32);
  EXPECT_EQ(y[128], 0.5f * 4 * 31);
  EXPECT_EQ(y[255], 0.5f * 11 * -32);
  // Q4_K: group 5's scale is split over two bytes; minimum likewise.
  Bytes q4(144);
  store(q4.data(), float_to_half(1.0f));
  store(q4.data() + 2, float_to_half(2.0f));
  q4[4 + 9] = std::byte{0x31};  // low nibbles: scale 1, minimum 3
  q4[4 + 1] = std::byte{0x80};  // top bits of scale 5: 2
  q4[4 + 5] = std::byte{0x40};  // top bits of minimum 5: 1
  q4[16 + 64] = std::byte{0x70};
  y = dequantized(GgufType::kQ4_K, q4);
  EXPECT_EQ(y[160], 33.0f * 7 - 2.0f * 19);
  EXPECT_EQ(y[161], -38.0f);
  EXPECT_EQ(y[0], 0.0f);
}

/// Code i of a contiguous little-endian bit stream.
uint32_t code_at(std::span<const uint32_t> codes, int bits, std::size_t i) {
  uint32_t code = 0;
  for (std::size_t b = 0; b < static_cast<std::size_t>(bits); ++b) {
    const std::size_t at = i * static_cast<std::size_t>(bits) + b;
    code |= (codes[at / 32] >> (at % 32) & 1u) << b;
  }
  return code;
}

/// The value of element i of repacked blocks, in the arithmetic of float32.
float affine_value(const AffineForm& form, std::span<const uint32_t> codes, const Bytes& scales,
                   const Bytes& biases, std::size_t i) {
  const auto read = [&](const Bytes& from) {
    const std::size_t group = i / 32;
    return form.has_f32_scales ? load<float>(from.data() + group * 4)
                               : half_to_float(load<uint16_t>(from.data() + group * 2));
  };
  return read(scales) * static_cast<float>(code_at(codes, form.bits, i)) + read(biases);
}

/// Random blocks whose float16 fields are finite and small enough for a float16 bias.
Bytes random_blocks(GgufType type, std::size_t n, uint32_t seed) {
  Bytes blocks = testing::random_bytes(n * gguf_block_bytes(type), seed);
  for (std::size_t i = 0; i < n; ++i) {
    std::byte* block = blocks.data() + i * gguf_block_bytes(type);
    // Exponents of at most 15 + 7: every format has its scale first and its minimum after it.
    block[1] = (block[1] & std::byte{0x87}) | static_cast<std::byte>(i % 22 << 2 & 0x58);
    block[3] = type == GgufType::kQ4_0 || type == GgufType::kQ5_0 || type == GgufType::kQ8_0
                   ? block[3]
                   : (block[3] & std::byte{0xbf});
  }
  return blocks;
}

TEST(GgufBlocks, AffineFormIsExact) {
  constexpr std::size_t kBlocks = 200;
  for (const GgufType type : kAllTypes) {
    const std::optional<AffineForm> form = affine_form(type);
    if (!form) continue;
    SCOPED_TRACE(gguf_type_name(type));
    const Bytes blocks = random_blocks(type, kBlocks, 17);
    const std::vector<float> expected = dequantized(type, blocks);
    std::vector<uint32_t> codes(expected.size() / 32 * static_cast<std::size_t>(form->bits));
    Bytes scales(expected.size() / 32 * (form->has_f32_scales ? 4 : 2));
    Bytes biases(scales.size());
    repack_affine(type, blocks, codes, scales, biases);
    for (std::size_t i = 0; i < expected.size(); ++i) {
      ASSERT_EQ(affine_value(*form, codes, scales, biases, i), expected[i]) << "element " << i;
    }
  }
}

TEST(GgufBlocks, RefusesBiasesThatOverflow) {
  std::vector<uint32_t> codes(8);
  Bytes scale(2);
  Bytes bias(2);
  Bytes block;
  append_half(block, 512.0f);  // -128 * 512 is beyond float16
  block.resize(34);
  EXPECT_THROW(repack_affine(GgufType::kQ8_0, block, codes, scale, bias), Error);
  store(block.data(), float_to_half(511.5f));
  repack_affine(GgufType::kQ8_0, block, codes, scale, bias);
  store(block.data(), uint16_t{0x7e00});
  EXPECT_THROW(repack_affine(GgufType::kQ8_0, block, codes, scale, bias), Error);
}

TEST(GgufBlocks, MatchGoldens) {
  const std::filesystem::path folder = std::filesystem::path(TESSERA_FIXTURES) / "gguf-blocks";
  for (const GgufType type : kAllTypes) {
    SCOPED_TRACE(gguf_type_name(type));
    std::string stem = gguf_type_name(type);
    for (char& c : stem) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    const std::string raw = base::read_file(folder / (stem + ".bin"));
    const auto golden = base::MappedFile::open(folder / (stem + ".safetensors"));
    const SafetensorsFile expected = parse_safetensors(golden->bytes(), stem);
    const SafetensorsEntry& values = expected.tensors.at("values");
    ASSERT_EQ(values.type, ElementType::kF32);
    const std::vector<float> got = dequantized(type, std::as_bytes(std::span(raw)));
    ASSERT_EQ(values.data.size(), got.size() * sizeof(float));
    for (std::size_t i = 0; i < got.size(); ++i) {
      const auto want = load<float>(values.data.data() + i * sizeof(float));
      ASSERT_EQ(got[i], want) << "element " << i;
    }
  }
}

template <typename T>
std::vector<T> values_of(const SafetensorsFile& file, const char* name) {
  const std::span<const std::byte> data = file.tensors.at(name).data;
  std::vector<T> values(data.size() / sizeof(T));
  std::memcpy(values.data(), data.data(), data.size());
  return values;
}

// MLX's own packing of every bit width is the same bit stream that repack_affine writes.
TEST(GgufBlocks, CodesAreTheBitStreamOfMlx) {
  for (const int bits : {2, 3, 4, 5, 6, 8}) {
    SCOPED_TRACE(bits);
    const std::string name = "quantized_b" + std::to_string(bits) + "_g32.safetensors";
    const auto mapped = base::MappedFile::open(std::filesystem::path(TESSERA_FIXTURES) / "operations" / name);
    const SafetensorsFile file = parse_safetensors(mapped->bytes(), name);
    const auto codes = values_of<uint32_t>(file, "w");
    const auto scales = values_of<float>(file, "scales");
    const auto biases = values_of<float>(file, "biases");
    const auto expected = values_of<float>(file, "dequantized");
    ASSERT_EQ(codes.size() * 32, expected.size() * static_cast<std::size_t>(bits));
    for (std::size_t i = 0; i < expected.size(); ++i) {
      const float value = scales[i / 32] * static_cast<float>(code_at(codes, bits, i)) + biases[i / 32];
      // One rounding apart at most, where MLX's build fuses the multiply and the add.
      ASSERT_NEAR(value, expected[i], 1e-6f * (std::abs(expected[i]) + std::abs(biases[i / 32])))
          << "element " << i;
    }
  }
}

}  // namespace
}  // namespace tessera::artifacts
