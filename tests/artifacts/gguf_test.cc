#include "tessera/artifacts/gguf.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tessera/error.h"
#include "tests/artifacts/file_builders.h"

namespace tessera::artifacts {
namespace {

using testing::Bytes;
using testing::GgufBuilder;
using ::testing::HasSubstr;

std::string refusal(const GgufBuilder& builder, ErrorKind kind = ErrorKind::kInvalidArtifact) {
  const Bytes bytes = builder.build();
  try {
    GgufFile::parse(bytes, "model.gguf");
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), kind) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "nothing was thrown";
  return "";
}

TEST(Gguf, ReadsEveryMetadataType) {
  for (const uint32_t version : {2u, 3u}) {
    GgufBuilder builder(version);
    builder.scalar<uint8_t>("u8", 0, 200).scalar<int8_t>("i8", 1, -3).scalar<uint16_t>("u16", 2, 60000);
    builder.scalar<int16_t>("i16", 3, -300)
        .u32("u32", 4000000000u)
        .i32("i32", -5)
        .f32("f32", 0.5f)
        .boolean("bool", true);
    builder.string("text", "hello")
        .scalar<uint64_t>("u64", 10, 1ull << 40)
        .scalar<int64_t>("i64", 11, -(1ll << 40));
    builder.scalar<double>("f64", 12, 0.25)
        .strings("texts", {"a", "", "c"})
        .array<int16_t>("i16s", 3, {1, -2});
    builder.array<uint8_t>("flags", 7, {1, 0})
        .array<float>("f32s", 6, {1.5f, 2.5f})
        .array<uint32_t>("u32s", 4, {});
    const Bytes bytes = builder.build();
    const GgufFile file = GgufFile::parse(bytes, "x");
    EXPECT_EQ(file.integer("u8"), 200);
    EXPECT_EQ(file.integer("i8"), -3);
    EXPECT_EQ(file.integer("u16"), 60000);
    EXPECT_EQ(file.integer("i16"), -300);
    EXPECT_EQ(file.integer("u32"), 4000000000);
    EXPECT_EQ(file.integer("i32"), -5);
    EXPECT_EQ(file.number("f32"), 0.5);
    EXPECT_EQ(file.number("i32"), -5.0);
    EXPECT_EQ(file.boolean("bool"), true);
    EXPECT_EQ(file.string("text"), "hello");
    EXPECT_EQ(file.integer("u64"), int64_t{1} << 40);
    EXPECT_EQ(file.integer("i64"), -(int64_t{1} << 40));
    EXPECT_EQ(file.number("f64"), 0.25);
    EXPECT_EQ(*file.strings("texts"), (std::vector<std::string>{"a", "", "c"}));
    EXPECT_EQ(file.integers("i16s"), (std::vector<int64_t>{1, -2}));
    EXPECT_EQ(file.integers("u32s"), std::vector<int64_t>{});
    EXPECT_EQ(file.numbers("f32s"), (std::vector<double>{1.5, 2.5}));
    EXPECT_EQ(file.numbers("i16s"), (std::vector<double>{1, -2}));
    EXPECT_EQ(file.integer("absent"), std::nullopt);
    EXPECT_EQ(file.strings("absent"), nullptr);
    EXPECT_THROW(file.integer("text"), Error);
    EXPECT_THROW(file.integer("f32"), Error);
    EXPECT_THROW(file.string("u8"), Error);
    EXPECT_THROW(file.boolean("u8"), Error);
    EXPECT_THROW(file.strings("u32s"), Error);
    EXPECT_THROW(file.integers("f32s"), Error);
  }
}

TEST(Gguf, ReadsTensorsRowMajor) {
  GgufBuilder builder;
  builder.tensor("a", {64, 3}, 2, testing::random_bytes(64 * 3 / 32 * 18, 1));
  builder.tensor("b", {5}, 0, testing::random_bytes(20, 2)).tensor("scalar", {}, 1, Bytes(2));
  const Bytes bytes = builder.build();
  const GgufFile file = GgufFile::parse(bytes, "x");
  ASSERT_EQ(file.tensors().size(), 3u);
  const GgufTensor& a = file.tensors().at("a");
  EXPECT_EQ(a.type, GgufType::kQ4_0);
  EXPECT_EQ(a.shape, (std::vector<int64_t>{3, 64}));
  EXPECT_EQ(a.data.size(), 64u * 3 / 32 * 18);
  const Bytes expected = testing::random_bytes(20, 2);
  const std::span<const std::byte> b = file.tensors().at("b").data;
  EXPECT_TRUE(std::equal(b.begin(), b.end(), expected.begin(), expected.end()));
  EXPECT_EQ((b.data() - bytes.data()) % 32, 0);
}

TEST(Gguf, HonoursAlignment) {
  for (const uint32_t alignment : {8u, 64u, 4096u}) {
    GgufBuilder builder;
    builder.alignment(alignment).tensor("a", {3}, 0, Bytes(12)).tensor("b", {3}, 0, Bytes(12, std::byte{7}));
    const Bytes bytes = builder.build();
    const GgufFile file = GgufFile::parse(bytes, "x");
    EXPECT_EQ(file.tensors().at("b").data[0], std::byte{7});
  }
  for (const uint32_t alignment : {0u, 1u, 3u, 48u, 1u << 31}) {
    GgufBuilder builder;
    builder.u32("general.alignment", alignment);
    EXPECT_THAT(refusal(builder), HasSubstr("general.alignment"));
  }
}

TEST(Gguf, RefusesWrongTensors) {
  EXPECT_THAT(refusal(GgufBuilder().tensor_at("t", {1, 1, 1, 1, 1}, 0, 0)), HasSubstr("5 axes"));
  EXPECT_THAT(refusal(GgufBuilder().tensor_at("t", {33}, 2, 0)), HasSubstr("multiple of 32"));
  EXPECT_THAT(refusal(GgufBuilder().tensor_at("t", {128}, 12, 0)), HasSubstr("multiple of 256"));
  EXPECT_THAT(refusal(GgufBuilder().tensor_at("t", {0}, 0, 0)), HasSubstr("axis of 0"));
  EXPECT_THAT(refusal(GgufBuilder().tensor_at("t", {~0ull}, 0, 0)), HasSubstr("axis of"));
  EXPECT_THAT(refusal(GgufBuilder().tensor_at("t", {0x7fffffff, 0x7fffffff, 0x7fffffff}, 0, 0)),
              HasSubstr("overflows"));
  EXPECT_THAT(refusal(GgufBuilder().tensor_at("t", {4}, 0, 0)), HasSubstr("leave the file"));
  EXPECT_THAT(refusal(GgufBuilder().tensor_at("t", {4}, 0, ~0ull - 31)), HasSubstr("leave the file"));
  EXPECT_THAT(refusal(GgufBuilder().tensor("a", {4}, 0, Bytes(64)).tensor_at("t", {4}, 0, 4)),
              HasSubstr("multiple of 32"));
  EXPECT_THAT(refusal(GgufBuilder().tensor("a", {4}, 0, Bytes(64)).tensor_at("t", {4}, 0, 0)),
              HasSubstr("overlaps"));
  EXPECT_THAT(refusal(GgufBuilder().tensor("a", {4}, 0, Bytes(16)).tensor("a", {4}, 0, Bytes(16))),
              HasSubstr("twice"));
  const std::string iq = refusal(GgufBuilder().tensor_at("blk.0.x", {256}, 16, 0), ErrorKind::kUnsupported);
  EXPECT_THAT(iq, HasSubstr("blk.0.x"));
  EXPECT_THAT(iq, HasSubstr("format number 16"));
}

TEST(Gguf, RefusesBytesThatBelongToNoTensor) {
  // Q8_0 takes fewer bytes than the F32 that the data holds.
  EXPECT_THAT(refusal(GgufBuilder().tensor("a", {32}, 8, Bytes(128)).tensor("b", {4}, 0, Bytes(16))),
              HasSubstr("tensor \"b\": offset 128; expected 64"));
  EXPECT_THAT(refusal(GgufBuilder().tensor("a", {32}, 8, Bytes(128))), HasSubstr("94 bytes follow"));
  EXPECT_THAT(refusal(GgufBuilder().tensor("a", {4}, 0, Bytes(33))), HasSubstr("follow the last tensor"));
  EXPECT_THAT(refusal(GgufBuilder().alignment(8).tensor_at("b", {1}, 0, 8).tensor("a", {4}, 0, Bytes(16))),
              HasSubstr("overlaps"));
  Bytes bytes = GgufBuilder().u32("key", 1).build();
  GgufFile::parse(bytes, "x");
  bytes.resize(bytes.size() + 1);
  EXPECT_THROW(GgufFile::parse(bytes, "x"), Error);
  for (const std::size_t padded : {16, 17, 32}) {
    const Bytes file = GgufBuilder().tensor("a", {4}, 0, Bytes(padded)).build();
    EXPECT_EQ(GgufFile::parse(file, "x").tensors().size(), 1u);
  }
  // The table may name tensors in any order.
  const Bytes swapped = GgufBuilder().tensor_at("b", {4}, 0, 32).tensor("a", {4}, 0, Bytes(48)).build();
  EXPECT_EQ(GgufFile::parse(swapped, "x").tensors().at("b").data.size(), 16u);
}

GgufBuilder split_part(int number, int count, const char* tensor) {
  GgufBuilder builder;
  if (number == 0) builder.string("general.architecture", "llama");
  builder.scalar<uint16_t>("split.no", 2, static_cast<uint16_t>(number));
  builder.scalar<uint16_t>("split.count", 2, static_cast<uint16_t>(count)).i32("split.tensors.count", 3);
  builder.tensor(tensor, {4}, 0, Bytes(16));
  return builder;
}

TEST(Gguf, MergesSplitParts) {
  const Bytes a = split_part(0, 3, "a").build();
  const Bytes b = split_part(1, 3, "b").build();
  const Bytes c = split_part(2, 3, "c").build();
  GgufFile file = GgufFile::parse(a, "a");
  EXPECT_THROW(file.check_complete(), Error);
  file.merge(GgufFile::parse(b, "b"));
  EXPECT_THROW(file.check_complete(), Error);
  file.merge(GgufFile::parse(c, "c"));
  file.check_complete();
  EXPECT_EQ(file.tensors().size(), 3u);
  EXPECT_EQ(file.string("general.architecture"), "llama");
}

TEST(Gguf, ChecksTheCountsOfAnUnsplitFile) {
  const auto check = [](const GgufBuilder& builder) {
    const Bytes bytes = builder.build();
    GgufFile::parse(bytes, "x").check_complete();
  };
  check(GgufBuilder());
  check(GgufBuilder().u32("split.count", 1).i32("split.tensors.count", 0));
  EXPECT_THROW(check(GgufBuilder().u32("split.count", 0)), Error);
  EXPECT_THROW(check(GgufBuilder().i32("split.count", -1)), Error);
  EXPECT_THROW(check(GgufBuilder().i32("split.tensors.count", 3)), Error);
}

TEST(Gguf, RefusesPartsThatDoNotBelongTogether) {
  const Bytes first = split_part(0, 2, "a").build();
  const auto merge = [&](const GgufBuilder& builder) {
    const Bytes other = builder.build();
    GgufFile file = GgufFile::parse(first, "first");
    file.merge(GgufFile::parse(other, "other"));
    file.check_complete();
  };
  EXPECT_THROW(merge(split_part(1, 3, "b")), Error);  // another count
  EXPECT_THROW(merge(split_part(0, 2, "b")), Error);  // the same part again
  EXPECT_THROW(merge(split_part(2, 2, "b")), Error);  // beyond the count
  EXPECT_THROW(merge(split_part(1, 2, "a")), Error);  // a tensor twice
  EXPECT_THROW(merge(split_part(1, 2, "b")), Error);  // 2 tensors where split.tensors.count says 3
  EXPECT_THROW(merge(GgufBuilder()), Error);          // no part at all
}

}  // namespace
}  // namespace tessera::artifacts
