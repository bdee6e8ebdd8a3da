// Tokenizers from tokenizer.json, and what all tokenizers share.
#include "tessera/tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

#include "tessera/error.h"
#include "tests/text/vocabularies.h"

namespace tessera {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using text_testing::json_source;

Error failure(const TokenizerSource& source) {
  try {
    Tokenizer::load(source);
  } catch (const Error& e) {
    EXPECT_THAT(std::string(e.what()), testing::StartsWith("[text.load] "));
    EXPECT_THAT(std::string(e.what()), testing::Not(HasSubstr("\n")));
    return e;
  }
  ADD_FAILURE() << "loaded";
  return Error(ErrorKind::kInternal, "");
}

TEST(TokenizerJson, EncodesAndDecodes) {
  const Tokenizer t = Tokenizer::load(json_source());
  EXPECT_THAT(t.encode("hello"), ElementsAre(8, 7, 3));
  EXPECT_THAT(t.encode("hello he"), ElementsAre(8, 7, 3, 4, 5));
  EXPECT_THAT(t.encode("hello", {.add_special_tokens = false}), ElementsAre(7, 3));
  EXPECT_THAT(t.encode(""), ElementsAre(8));
  EXPECT_THAT(t.encode("", {.add_special_tokens = false}), ElementsAre());
  EXPECT_EQ(t.decode(std::vector{8, 7, 3, 4, 5, 9}), "<s>hello he</s>");
  EXPECT_EQ(t.decode(std::vector{8, 7, 3, 4, 5, 9}, {.skip_special_tokens = true}), "hello he");
}

TEST(TokenizerJson, SpecialTokensInTextFollowTheOption) {
  const Tokenizer t = Tokenizer::load(json_source());
  EXPECT_THAT(t.encode("he</s>"), ElementsAre(8, 5, 9));
  // As plain text the characters that the vocabulary lacks vanish, as BPE without <unk> has it.
  EXPECT_THAT(t.encode("he</s>", {.parse_special_tokens = false}), ElementsAre(8, 5));
  // BOS that the caller writes stays; one more is added only when asked for.
  EXPECT_THAT(t.encode("<s>he", {.add_special_tokens = false}), ElementsAre(8, 5));
}

TEST(TokenizerJson, FactsAboutTheVocabulary) {
  const Tokenizer t = Tokenizer::load(json_source());
  EXPECT_EQ(t.vocab_size(), 10);
  EXPECT_EQ(t.bos_id(), 8);
  EXPECT_EQ(t.eos_id(), 9);
  EXPECT_EQ(t.bos_token(), "<s>");
  EXPECT_EQ(t.eos_token(), "</s>");
  EXPECT_THAT(t.end_of_turn_ids(), ElementsAre(9));
  EXPECT_TRUE(t.is_special(9));
  EXPECT_FALSE(t.is_special(7));
  EXPECT_EQ(t.token_id("hell"), 7);
  EXPECT_EQ(t.token_id("nothing"), std::nullopt);
  EXPECT_EQ(t.token_id("\xff"), std::nullopt);
  EXPECT_EQ(t.token_bytes(4), " ");
  EXPECT_EQ(t.token_bytes(7), "hell");
  EXPECT_EQ(t.origin(), "tokenizer.json");
}

TEST(TokenizerJson, WithoutConfigurationThereAreNoNamedTokens) {
  TokenizerSource source = json_source();
  source.tokenizer_config.clear();
  const Tokenizer t = Tokenizer::load(source);
  EXPECT_EQ(t.bos_id(), std::nullopt);
  EXPECT_EQ(t.eos_token(), "");
  EXPECT_THAT(t.end_of_turn_ids(), ElementsAre());
  EXPECT_THAT(t.encode("he"), ElementsAre(8, 5)) << "the post-processor is the file's own";
}

TEST(TokenizerJson, KnownEndOfTurnTokensAreFound) {
  TokenizerSource source = json_source();
  const std::string json = source.tokenizer_json;
  const auto ends = [&](const std::string& spelling) {
    source.tokenizer_json = json;
    source.tokenizer_json.replace(source.tokenizer_json.find("</s>"), 4, spelling);
    source.tokenizer_config.clear();
    return Tokenizer::load(source).end_of_turn_ids();
  };
  EXPECT_THAT(ends("<|im_end|>"), ElementsAre(9));
  EXPECT_THAT(ends("<|eot_id|>"), ElementsAre(9));
  EXPECT_THAT(ends("<|end|>"), ElementsAre(9));
  EXPECT_THAT(ends("<|something|>"), ElementsAre());
}

TEST(TokenizerJson, HolesInTheVocabularyAreEmptyTokens) {
  TokenizerSource source = json_source();
  source.tokenizer_json.replace(source.tokenizer_json.find("\"hell\": 7"), 9, "\"hell\": 12");
  const Tokenizer t = Tokenizer::load(source);
  EXPECT_EQ(t.vocab_size(), 13);
  EXPECT_EQ(t.token_bytes(7), "");
  EXPECT_EQ(t.decode(std::vector{12, 7, 11, 3}), "hello");
}

TEST(TokenizerJson, BadFilesAreRefused) {
  TokenizerSource source;
  EXPECT_EQ(failure(source).kind(), ErrorKind::kInvalidArgument);
  for (const std::string& json : {std::string("{"), std::string("{}"), std::string("[]"), std::string("null"),
                                  std::string("\xff\xfe"), std::string(1, '\0'), std::string(100000, '[')}) {
    source.origin = "bad.json";
    source.tokenizer_json = json;
    const Error e = failure(source);
    EXPECT_EQ(e.kind(), ErrorKind::kInvalidArtifact) << json.substr(0, 10);
    EXPECT_THAT(std::string(e.what()), HasSubstr("bad.json"));
  }
  const std::string good = json_source().tokenizer_json;
  for (std::size_t size = 0; size < good.size(); size += 97) {
    source.tokenizer_json = good.substr(0, size);
    EXPECT_THROW(Tokenizer::load(source), Error) << size;
  }
  source.tokenizer_json = good;
  source.tokenizer_config = "{";
  EXPECT_EQ(failure(source).kind(), ErrorKind::kInvalidArtifact);
  source.tokenizer_config = "";
  source.tokenizer_json.replace(source.tokenizer_json.find("\"hell\": 7"), 9, "\"hell\": 4000000000");
  EXPECT_EQ(failure(source).kind(), ErrorKind::kInvalidArtifact);
}

TEST(TokenizerJson, FilesThatMakeTheLibraryPanicAreNamed) {
  const auto with_normalizer = [](const std::string& json) {
    TokenizerSource source = json_source();
    const std::string none = "\"normalizer\": null";
    source.tokenizer_json.replace(source.tokenizer_json.find(none), none.size(), "\"normalizer\": " + json);
    return source;
  };
  const Error at_load = failure(with_normalizer(R"({"type": "Prepend", "prepend": ""})"));
  EXPECT_EQ(at_load.kind(), ErrorKind::kInvalidArtifact);
  EXPECT_THAT(std::string(at_load.what()), HasSubstr("tokenizer.json: the tokenizer file makes"));

  const Tokenizer late = Tokenizer::load(
      with_normalizer(R"j({"type": "Replace", "pattern": {"Regex": "(?=q)"}, "content": "x"})j"));
  EXPECT_THAT(late.encode("hello"), ElementsAre(8, 7, 3));
  try {
    late.encode("q");
    FAIL() << "encoded";
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::kInvalidArtifact);
    EXPECT_THAT(std::string(e.what()), HasSubstr("[text.encode] tokenizer.json: the tokenizer file makes"));
  }
}

TEST(TokenizerJson, ThePostProcessorAddsTokensOfTheVocabulary) {
  TokenizerSource source = json_source();
  source.tokenizer_json.replace(source.tokenizer_json.find("\"ids\": [8]"), 10, "\"ids\": [4294967295]");
  const Error e = failure(source);
  EXPECT_EQ(e.kind(), ErrorKind::kInvalidArtifact);
  EXPECT_THAT(std::string(e.what()), HasSubstr("4294967295"));
}

TEST(TokenizerJson, UnsupportedKindsAreNamed) {
  Error e = failure(json_source(R"({"type": "WordPiece", "prefix": "##", "cleanup": true})"));
  EXPECT_EQ(e.kind(), ErrorKind::kUnsupported);
  EXPECT_THAT(std::string(e.what()), HasSubstr("WordPiece"));
  e = failure(json_source("null"));
  EXPECT_EQ(e.kind(), ErrorKind::kUnsupported);
}

TEST(Tokenizer, BytesThatAreNotUtf8AreReplaced) {
  const Tokenizer t = Tokenizer::load(text_testing::byte_level_source());
  const std::string broken =
      "a\xF0\x9F"
      "b\xff";
  EXPECT_EQ(t.encode(broken), t.encode("a\uFFFDb\uFFFD"));
  EXPECT_EQ(t.decode(t.encode(broken)), "a\uFFFDb\uFFFD");
  const std::string zero("a\0b", 3);
  EXPECT_EQ(t.decode(t.encode(zero)), zero);
}

TEST(Tokenizer, LongRunsOfWhiteSpaceAreExactOrRefused) {
  const Tokenizer t = Tokenizer::load(text_testing::byte_level_source());
  EXPECT_EQ(t.encode(std::string(500'000, '\n')).size(), 500'000U);
  try {
    t.encode("x" + std::string(500'001, ' '));
    FAIL() << "accepted";
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::kInvalidArgument);
    EXPECT_THAT(std::string(e.what()), HasSubstr("[text.encode]"));
  }
}

TEST(Tokenizer, IdsOutsideTheVocabularyAreRefused) {
  const Tokenizer t = Tokenizer::load(json_source());
  for (const int32_t id : {-1, 10, INT32_MAX, INT32_MIN}) {
    EXPECT_THROW(t.decode(std::vector{id}), Error);
    EXPECT_THROW(t.token_bytes(id), Error);
    EXPECT_THROW(t.is_special(id), Error);
  }
}

TEST(Tokenizer, ThreadsAndCopiesShareOneObject) {
  Tokenizer copy = Tokenizer::load(text_testing::sentencepiece_source());
  const std::vector<int32_t> expected = copy.encode("the cat é");
  std::vector<std::thread> threads;
  std::vector<std::vector<int32_t>> results(4);
  for (std::vector<int32_t>& result : results) {
    threads.emplace_back([t = copy, &result] {
      for (int i = 0; i < 50; ++i) result = t.encode("the cat é");
    });
  }
  copy = Tokenizer::load(json_source());
  for (std::thread& thread : threads) thread.join();
  for (const std::vector<int32_t>& result : results) EXPECT_EQ(result, expected);
}

}  // namespace
}  // namespace tessera
