// Damaged and hostile files: every parser either succeeds or throws InvalidArtifact or Unsupported.
// Run under AddressSanitizer and UBSan these tests also show that nothing else happens.
#include <gtest/gtest.h>

#include <cstring>
#include <functional>

#include "tessera/artifacts/gguf.h"
#include "tessera/artifacts/gguf_blocks.h"
#include "tessera/artifacts/model_config.h"
#include "tessera/artifacts/safetensors.h"
#include "tessera/artifacts/tokenizer_files.h"
#include "tessera/error.h"
#include "tests/artifacts/file_builders.h"

namespace tessera::artifacts {
namespace {

using testing::append;
using testing::Bytes;
using testing::GgufBuilder;

/// Whether `parse` succeeds; any exception but the two allowed kinds fails the test.
bool survives(const std::function<void()>& parse) {
  try {
    parse();
    return true;
  } catch (const Error& error) {
    EXPECT_TRUE(error.kind() == ErrorKind::kInvalidArtifact || error.kind() == ErrorKind::kUnsupported)
        << error.what();
    EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos);
    EXPECT_LT(std::string(error.what()).size(), 1000u);
  }
  return false;
}

/// Parses and reads every byte that a loader would.
void use_gguf(std::span<const std::byte> bytes) {
  const GgufFile file = GgufFile::parse(bytes, "m.gguf");
  for (const auto& [name, tensor] : file.tensors()) {
    std::vector<float> values(tensor.data.size() / gguf_block_bytes(tensor.type) *
                              static_cast<std::size_t>(gguf_block_elements(tensor.type)));
    dequantize_blocks(tensor.type, tensor.data, values);
  }
  read_gguf_vocabulary(file);
  parse_model_config(file);
}

void use_safetensors(std::span<const std::byte> bytes) {
  unsigned sum = 0;
  for (const auto& [name, entry] : parse_safetensors(bytes, "m.safetensors").tensors) {
    for (const std::byte b : entry.data) sum += std::to_integer<unsigned>(b);
  }
  volatile unsigned keep = sum;  // so that the reads are not removed
  (void)keep;
}

/// A copy in exactly as many bytes as it has, so that AddressSanitizer sees the first byte beyond.
Bytes prefix(const Bytes& bytes, std::size_t n) {
  return Bytes(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(n));
}

Bytes small_safetensors() {
  return testing::safetensors(
      R"({"__metadata__":{"format":"pt"},"a":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},)"
      R"("b":{"dtype":"U8","shape":[8],"data_offsets":[24,32]}})",
      32);
}

TEST(ArtifactsFault, TruncatedAnywhere) {
  const Bytes gguf = testing::tiny_gguf_model().build();
  EXPECT_TRUE(survives([&] { use_gguf(gguf); }));
  for (std::size_t n = 0; n < gguf.size(); ++n) {
    const Bytes cut = prefix(gguf, n);
    EXPECT_FALSE(survives([&] { use_gguf(cut); })) << n;
  }
  const Bytes safetensors = small_safetensors();
  EXPECT_TRUE(survives([&] { use_safetensors(safetensors); }));
  for (std::size_t n = 0; n < safetensors.size(); ++n) {
    const Bytes cut = prefix(safetensors, n);
    EXPECT_FALSE(survives([&] { use_safetensors(cut); })) << n;
  }
}

TEST(ArtifactsFault, RandomBitFlips) {
  std::mt19937 random(20240601);
  const Bytes files[] = {testing::tiny_gguf_model().build(), small_safetensors()};
  for (int round = 0; round < 6000; ++round) {
    const bool is_gguf = round % 2 == 0;
    Bytes bytes = files[is_gguf ? 0 : 1];
    // Mostly in the header, where every bit has a meaning.
    const std::size_t span = std::min<std::size_t>(bytes.size(), round % 3 == 0 ? bytes.size() : 1400);
    const int flips = 1 + static_cast<int>(random() % 4);
    for (int i = 0; i < flips; ++i) bytes[random() % span] ^= static_cast<std::byte>(1u << (random() % 8));
    survives([&] { is_gguf ? use_gguf(bytes) : use_safetensors(bytes); });
  }
}

TEST(ArtifactsFault, OverwrittenLengths) {
  const Bytes gguf = testing::tiny_gguf_model().build();
  const Bytes safetensors = small_safetensors();
  for (const uint64_t value : {uint64_t{0}, uint64_t{1} << 31, uint64_t{1} << 40, uint64_t{1} << 60,
                               uint64_t{1} << 63, ~uint64_t{0}}) {
    for (std::size_t at = 0; at + 8 <= 1400; ++at) {
      Bytes bytes = gguf;
      std::memcpy(bytes.data() + at, &value, 8);
      survives([&] { use_gguf(bytes); });
    }
    Bytes bytes = safetensors;
    std::memcpy(bytes.data(), &value, 8);
    EXPECT_FALSE(survives([&] { use_safetensors(bytes); })) << value;
  }
}

TEST(ArtifactsFault, HugeCountsAreRefusedBeforeAllocation) {
  for (const uint64_t count : {uint64_t{1} << 24, uint64_t{1} << 40, uint64_t{1} << 60, ~uint64_t{0}}) {
    Bytes tensors;
    testing::append_text(tensors, "GGUF");
    append<uint32_t>(tensors, 3);
    append<uint64_t>(tensors, count);
    append<uint64_t>(tensors, 0);
    EXPECT_FALSE(survives([&] { use_gguf(tensors); }));
    Bytes keys;
    testing::append_text(keys, "GGUF");
    append<uint32_t>(keys, 3);
    append<uint64_t>(keys, 0);
    append<uint64_t>(keys, count);
    EXPECT_FALSE(survives([&] { use_gguf(keys); }));
    for (const uint32_t type : {0u, 7u, 8u, 12u}) {
      Bytes array;
      append<uint32_t>(array, 9);
      append<uint32_t>(array, type);
      append<uint64_t>(array, count);
      array.resize(array.size() + 64);
      const Bytes file = GgufBuilder().raw("k", array).build();
      EXPECT_FALSE(survives([&] { use_gguf(file); }));
    }
    Bytes text;
    append<uint32_t>(text, 8);
    append<uint64_t>(text, count);
    const Bytes file = GgufBuilder().raw("k", text).build();
    EXPECT_FALSE(survives([&] { use_gguf(file); }));
  }
}

TEST(ArtifactsFault, WrongMetadata) {
  const auto refused = [](const GgufBuilder& builder) {
    const Bytes bytes = builder.build();
    EXPECT_FALSE(survives([&] { GgufFile::parse(bytes, "m.gguf"); }));
  };
  refused(GgufBuilder(1));
  refused(GgufBuilder(4));
  refused(GgufBuilder(0x03000000));  // big endian
  refused(GgufBuilder().scalar<uint32_t>("k", 13, 0));
  refused(GgufBuilder().scalar<uint32_t>("k", 0xffffffff, 0));
  refused(GgufBuilder().scalar<uint8_t>("k", 7, 2));
  refused(GgufBuilder().array<uint8_t>("k", 7, {0, 255}));
  refused(GgufBuilder().array<uint32_t>("k", 13, {1}));
  refused(GgufBuilder().array<uint64_t>("k", 9, {1, 2, 3}));  // an array of arrays
  refused(GgufBuilder().u32("k", 1).u32("k", 2));
  refused(GgufBuilder().u32(std::string(70000, 'k'), 1));
  refused(GgufBuilder().string("general.alignment", "32"));
  refused(GgufBuilder().i32("general.alignment", -32));
  refused(GgufBuilder().tensor_at(std::string(70000, 't'), {4}, 0, 0));
}

TEST(ArtifactsFault, HostileNamesStayOnOneShortLine) {
  const Bytes gguf = GgufBuilder().tensor_at("a\nb\x1b[31m" + std::string(60000, 'x'), {4}, 0, 0).build();
  EXPECT_FALSE(survives([&] { GgufFile::parse(gguf, "m.gguf"); }));
  const Bytes safetensors =
      testing::safetensors(R"({"a\nb)" + std::string(60000, 'x') + R"(":{"dtype":"\n"}})", 0);
  EXPECT_FALSE(survives([&] { use_safetensors(safetensors); }));
}

TEST(ArtifactsFault, HeadersThatAreNotTheExpectedJson) {
  const std::string deep_arrays = R"({"a":)" + std::string(200000, '[');
  std::string deep_objects = "{";
  for (int i = 0; i < 100000; ++i) deep_objects += R"("a":{)";
  for (const std::string& header :
       {std::string(), std::string("x"), std::string("[]"), std::string("null"), std::string("{"),
        std::string("{}x"), std::string("{\"a\":1}"), std::string("{\"a\":[]}"), std::string("{\"\xff\":{}}"),
        std::string("{\"a\":{}}"), std::string(R"({"__metadata__":1})"),
        std::string(R"({"__metadata__":{"a":1}})"), std::string(R"({"a":{"dtype":"F32","shape":1e400}})"),
        std::string(
            R"({"a":{"dtype":"U8","shape":[0],"data_offsets":[18446744073709551615,18446744073709551615]}})"),
        std::string(R"({"a":{"dtype":"U8","shape":[0],"data_offsets":[99999999999999999999,1]}})"),
        deep_arrays, deep_objects}) {
    const Bytes bytes = testing::safetensors(header, 0);
    EXPECT_FALSE(survives([&] { use_safetensors(bytes); })) << header.substr(0, 100);
    EXPECT_FALSE(survives([&] { parse_safetensors_index(header, "i"); }));
    EXPECT_FALSE(survives([&] { parse_model_config(header, "", "m"); }));
    survives([&] { chat_template_in(header, "t"); });
  }
}

TEST(ArtifactsFault, ConfigTextDamagedAnywhere) {
  const std::string config =
      R"({"model_type":"llama","hidden_size":64,"intermediate_size":96,"num_hidden_layers":2,"num_attention_heads":4,)"
      R"("vocab_size":100,"max_position_embeddings":128,"rms_norm_eps":1e-6,"eos_token_id":[1,2],)"
      R"("rope_parameters":{"rope_type":"llama3","factor":8.0,"original_max_position_embeddings":64},)"
      R"("quantization":{"bits":4,"group_size":32,"a.b":false,"c":{"bits":8}}})";
  EXPECT_TRUE(survives([&] { parse_model_config(config, config, "m"); }));
  for (std::size_t n = 0; n < config.size(); ++n) {
    EXPECT_FALSE(survives([&] { parse_model_config(config.substr(0, n), "", "m"); }));
  }
  constexpr std::string_view kBytes = "0-9\"{}[],:.eE\\ntf\xff ";
  std::mt19937 random(7);
  for (int round = 0; round < 4000; ++round) {
    std::string text = config;
    for (int i = 0; i < 2; ++i) text[random() % text.size()] = kBytes[random() % kBytes.size()];
    survives([&] { parse_model_config(text, text, "m"); });
  }
}

}  // namespace
}  // namespace tessera::artifacts
