#include "tessera/artifacts/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "tessera/error.h"
#include "tests/artifacts/file_builders.h"

namespace tessera::artifacts {
namespace {

using ::testing::HasSubstr;
using testing::safetensors;

/// The message of the InvalidArtifact that parsing throws.
std::string refusal(const testing::Bytes& bytes, ErrorKind kind = ErrorKind::kInvalidArtifact) {
  try {
    parse_safetensors(bytes, "model.safetensors");
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), kind) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "nothing was thrown";
  return "";
}

TEST(Safetensors, ReadsTensorsAndMetadata) {
  const auto bytes = safetensors(
      R"({"__metadata__":{"format":"mlx"},"b":{"dtype":"U8","shape":[2,3],"data_offsets":[8,14]},)"
      R"("a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"c":{"dtype":"BF16","shape":[],"data_offsets":[14,16]}}   )",
      16);
  const SafetensorsFile file = parse_safetensors(bytes, "x");
  ASSERT_EQ(file.tensors.size(), 3u);
  EXPECT_EQ(file.metadata.at("format"), "mlx");
  const SafetensorsEntry& b = file.tensors.at("b");
  EXPECT_EQ(b.type, ElementType::kU8);
  EXPECT_EQ(b.shape, (std::vector<int64_t>{2, 3}));
  ASSERT_EQ(b.data.size(), 6u);
  EXPECT_EQ(std::to_integer<int>(b.data[0]), 8);
  EXPECT_TRUE(file.tensors.at("c").shape.empty());
}

TEST(Safetensors, AcceptsEmptyTensorsAndNoTensors) {
  const auto bytes = safetensors(
      R"({"a":{"dtype":"F32","shape":[0,4],"data_offsets":[0,0]},"b":{"dtype":"I64","shape":[1],"data_offsets":[0,8]},)"
      R"("c":{"dtype":"I64","shape":[0],"data_offsets":[8,8]}})",
      8);
  EXPECT_EQ(parse_safetensors(bytes, "x").tensors.size(), 3u);
  EXPECT_TRUE(parse_safetensors(safetensors("{}", 0), "x").tensors.empty());
}

TEST(Safetensors, TypesHaveNamesAndSizes) {
  EXPECT_STREQ(element_type_name(ElementType::kBF16), "BF16");
  EXPECT_EQ(element_bytes(ElementType::kF64), 8u);
  EXPECT_EQ(element_bytes(ElementType::kBool), 1u);
}

TEST(Safetensors, RefusesWhatDoesNotTileTheFile) {
  const std::string a = R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]})";
  EXPECT_THAT(refusal(safetensors(a + "}", 3)), HasSubstr("\"a\""));
  EXPECT_THAT(refusal(safetensors(a + "}", 5)), HasSubstr("1 bytes belong to no tensor"));
  EXPECT_THAT(refusal(safetensors(a + R"(,"b":{"dtype":"U8","shape":[4],"data_offsets":[2,6]}})", 6)),
              HasSubstr("overlaps"));
  EXPECT_THAT(refusal(safetensors(a + R"(,"b":{"dtype":"U8","shape":[1],"data_offsets":[5,6]}})", 6)),
              HasSubstr("unused"));
  EXPECT_THAT(refusal(safetensors(R"({"b":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}})", 2)),
              HasSubstr("unused"));
}

TEST(Safetensors, RefusesWrongEntries) {
  const auto entry = [](const std::string& fields) { return safetensors(R"({"a":{)" + fields + "}}", 4); };
  EXPECT_THAT(refusal(entry(R"("dtype":"F32","shape":[2],"data_offsets":[0,4])")),
              HasSubstr("need 8 bytes, got 4"));
  EXPECT_THAT(refusal(entry(R"("dtype":"F33","shape":[1],"data_offsets":[0,4])")),
              HasSubstr("unknown dtype \"F33\""));
  EXPECT_THAT(refusal(entry(R"("dtype":7,"shape":[1],"data_offsets":[0,4])")), HasSubstr("dtype"));
  EXPECT_THAT(refusal(entry(R"("shape":[1],"data_offsets":[0,4])")), HasSubstr("no dtype"));
  EXPECT_THAT(refusal(entry(R"("dtype":"F32","data_offsets":[0,4])")), HasSubstr("no shape"));
  EXPECT_THAT(refusal(entry(R"("dtype":"F32","shape":[1])")), HasSubstr("no data_offsets"));
  EXPECT_THAT(refusal(entry(R"("dtype":"F32","shape":[-1],"data_offsets":[0,4])")),
              HasSubstr("non-negative"));
  EXPECT_THAT(refusal(entry(R"("dtype":"F32","shape":[1.0],"data_offsets":[0,4])")),
              HasSubstr("non-negative"));
  EXPECT_THAT(refusal(entry(R"("dtype":"F32","shape":[1],"data_offsets":[-4,0])")),
              HasSubstr("non-negative"));
  EXPECT_THAT(refusal(entry(R"("dtype":"F32","shape":[1],"data_offsets":[4,0])")),
              HasSubstr("leave the file"));
  EXPECT_THAT(refusal(entry(R"("dtype":"F32","shape":[1],"data_offsets":[0,4,8])")),
              HasSubstr("[begin, end]"));
  EXPECT_THAT(refusal(entry(R"("dtype":"F32","shape":[2147483648],"data_offsets":[0,4])")),
              HasSubstr("too long"));
  EXPECT_THAT(
      refusal(entry(R"("dtype":"F32","shape":[2147483647,2147483647,2147483647],"data_offsets":[0,4])")),
      HasSubstr("overflows"));
  EXPECT_THAT(
      refusal(entry(R"("dtype":"F8_E4M3","shape":[4],"data_offsets":[0,4])"), ErrorKind::kUnsupported),
      HasSubstr("F8_E4M3"));
}

TEST(Safetensors, RefusesDuplicateNames) {
  const std::string entry = R"("a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]})";
  EXPECT_THAT(refusal(safetensors("{" + entry + "," + entry + "}", 1)), HasSubstr("duplicate key \"a\""));
}

TEST(Safetensors, IndexNamesShards) {
  const auto shards = parse_safetensors_index(
      R"({"metadata":{},"weight_map":{"a":"m-1.safetensors","b":"m-2.safetensors"}})", "i");
  EXPECT_EQ(shards.at("b"), "m-2.safetensors");
  for (const char* bad :
       {R"({"weight_map":{"a":"../x"}})", R"({"weight_map":{"a":"/etc/x"}})", R"({"weight_map":{"a":".."}})",
        R"({"weight_map":{"a":""}})", R"({"weight_map":{"a":1}})", R"({"weight_map":[]})", "{}", "[]", "",
        R"({"weight_map":{"a":"x\u0000y"}})"}) {
    EXPECT_THROW(parse_safetensors_index(bad, "i"), Error) << bad;
  }
}

}  // namespace
}  // namespace tessera::artifacts
