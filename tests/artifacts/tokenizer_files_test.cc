#include "tessera/artifacts/tokenizer_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "tessera/artifacts/gguf.h"
#include "tessera/error.h"
#include "tests/artifacts/file_builders.h"
#include "tests/temporary_folder.h"

namespace tessera::artifacts {
namespace {

using test::TemporaryFolder;
using testing::Bytes;
using ::testing::HasSubstr;

GgufVocabulary vocabulary_of(const testing::GgufBuilder& builder) {
  const Bytes bytes = builder.build();
  return read_gguf_vocabulary(GgufFile::parse(bytes, "m.gguf"));
}

TEST(TokenizerFiles, ReadsAGgufVocabulary) {
  const GgufVocabulary v = vocabulary_of(testing::tiny_gguf_model());
  EXPECT_EQ(v.model, "gpt2");
  EXPECT_EQ(v.pre, "smollm");
  EXPECT_EQ(v.tokens, (std::vector<std::string>{"<s>", "a", "b", "ab"}));
  EXPECT_EQ(v.token_types, (std::vector<int32_t>{3, 1, 1, 1}));
  EXPECT_EQ(v.scores, (std::vector<float>{0, -1, -2, -3}));
  EXPECT_EQ(v.merges, std::vector<std::string>{"a b"});
  EXPECT_EQ(v.bos_id, 0);
  EXPECT_EQ(v.eos_id, 3);
  EXPECT_EQ(v.unk_id, std::nullopt);
  EXPECT_EQ(v.add_bos, false);
  EXPECT_EQ(v.add_eos, std::nullopt);
}

TEST(TokenizerFiles, RefusesContradictions) {
  const auto refused = [](testing::GgufBuilder builder, const char* part) {
    builder.string("tokenizer.ggml.model", "gpt2");
    try {
      vocabulary_of(builder);
      ADD_FAILURE() << "nothing was thrown for " << part;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kInvalidArtifact);
      EXPECT_THAT(error.what(), HasSubstr(part));
    }
  };
  const auto two_tokens = [] { return testing::GgufBuilder().strings("tokenizer.ggml.tokens", {"a", "b"}); };
  refused(testing::GgufBuilder(), "tokenizer.ggml.tokens is missing");
  refused(testing::GgufBuilder().strings("tokenizer.ggml.tokens", {}), "tokens is missing");
  refused(two_tokens().array<float>("tokenizer.ggml.scores", 6, {1.0f}), "scores; expected one per token");
  refused(two_tokens().array<float>("tokenizer.ggml.scores", 6, {1.0f, NAN}), "NaN");
  refused(two_tokens().array<int32_t>("tokenizer.ggml.token_type", 5, {1}), "token_type");
  refused(two_tokens().array<int32_t>("tokenizer.ggml.token_type", 5, {1, 9}), "token_type");
  refused(two_tokens().u32("tokenizer.ggml.eos_token_id", 2), "eos_token_id; expected an id below 2");
  EXPECT_EQ(
      vocabulary_of(
          two_tokens().string("tokenizer.ggml.model", "llama").i32("tokenizer.ggml.padding_token_id", -1))
          .pad_id,
      std::nullopt);
}

TEST(TokenizerFiles, RefusesEntriesThatCannotBeRead) {
  for (const std::string name :
       {"tokenizer.json", "tokenizer_config.json", "chat_template.jinja", "chat_template.json"}) {
    for (const bool is_folder : {false, true}) {
      const TemporaryFolder folder;
      if (name != "tokenizer.json") folder.write("tokenizer.json", "{}");
      if (is_folder) {
        std::filesystem::create_directory(folder.path() / name);
      } else {
        std::filesystem::create_symlink("nowhere", folder.path() / name);
      }
      ModelFiles files;
      files.folder = folder.path();
      try {
        read_tokenizer_source(files);
        ADD_FAILURE() << "nothing was thrown for " << name;
      } catch (const Error& error) {
        EXPECT_EQ(error.kind(), ErrorKind::kInvalidArtifact);
        EXPECT_THAT(error.what(), HasSubstr((folder.path() / name).string()));
      }
    }
  }
}

TEST(TokenizerFiles, ReadsAFolder) {
  const TemporaryFolder folder;
  ModelFiles files;
  files.folder = folder.path();
  EXPECT_THROW(read_tokenizer_source(files), Error);
  folder.write("tokenizer.json", "{\"model\":{}}");
  EXPECT_EQ(read_tokenizer_source(files).tokenizer_json, "{\"model\":{}}");
  EXPECT_EQ(read_tokenizer_source(files).chat_template, "");
  folder.write("tokenizer_config.json", R"({"chat_template":"from config"})");
  EXPECT_EQ(read_tokenizer_source(files).chat_template, "from config");
  folder.write("chat_template.json", R"({"chat_template":"from json"})");
  EXPECT_EQ(read_tokenizer_source(files).chat_template, "from json");
  folder.write("chat_template.jinja", "from jinja");
  EXPECT_EQ(read_tokenizer_source(files).chat_template, "from jinja");
  EXPECT_FALSE(read_tokenizer_source(files).gguf);
}

TEST(TokenizerFiles, ReadsAGgufFile) {
  const TemporaryFolder folder;
  const Bytes bytes = testing::tiny_gguf_model().build();
  ModelFiles files;
  files.gguf = {
      folder.write("m.gguf", std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()))};
  const TokenizerSource read = read_tokenizer_source(files);
  ASSERT_TRUE(read.gguf);
  EXPECT_EQ(read.gguf->tokens.size(), 4u);
  EXPECT_EQ(read.chat_template, "{{ messages }}");
  EXPECT_EQ(read.tokenizer_json, "");
}

TEST(TokenizerFiles, PicksATemplateOfAList) {
  EXPECT_EQ(
      chat_template_in(
          R"({"chat_template":[{"name":"tool","template":"t"},{"name":"default","template":"d"}]})", "x"),
      "d");
  EXPECT_EQ(chat_template_in(R"({"chat_template":[{"name":"tool","template":"t"}]})", "x"), "t");
  EXPECT_EQ(chat_template_in(R"({"chat_template":null})", "x"), "");
  for (const char* bad : {R"({"chat_template":[1]})", R"({"chat_template":[{"name":"x"}]})",
                          R"({"chat_template":7})", "[]", "x"}) {
    EXPECT_THROW(chat_template_in(bad, "x"), Error) << bad;
  }
}

}  // namespace
}  // namespace tessera::artifacts
