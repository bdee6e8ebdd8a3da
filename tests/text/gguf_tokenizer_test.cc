// Tokenizers from the vocabulary of a GGUF file.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "tessera/error.h"
#include "tessera/tokenizer.h"
#include "tests/text/vocabularies.h"

namespace tessera {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using text_testing::byte_id;
using text_testing::byte_level_source;
using text_testing::piece_id;
using text_testing::sentencepiece_source;

TEST(GgufTokenizer, ByteLevelMergesWithinPreTokens) {
  TokenizerSource source = byte_level_source({" ab", "ab", "12"});
  const Tokenizer t = Tokenizer::load(source);
  EXPECT_THAT(t.encode("ab ab12"), ElementsAre(piece_id(1), piece_id(0), byte_id('1'), byte_id('2')));
  source.gguf->pre = "gpt-2";
  EXPECT_THAT(Tokenizer::load(source).encode("ab ab12"), ElementsAre(piece_id(1), piece_id(0), piece_id(2)));
  EXPECT_EQ(t.decode(t.encode("ab \xE4\xB8\xAD\t")), "ab 中\t");
}

TEST(GgufTokenizer, BosIsWhatTheFileDefines) {
  TokenizerSource source = byte_level_source({"ab"});
  EXPECT_THAT(Tokenizer::load(source).encode("ab"), ElementsAre(piece_id(0)));
  source.gguf->add_bos = true;
  source.gguf->add_eos = true;
  const Tokenizer t = Tokenizer::load(source);
  EXPECT_THAT(t.encode("ab"), ElementsAre(0, piece_id(0), 1));
  EXPECT_THAT(t.encode("ab", {.add_special_tokens = false}), ElementsAre(piece_id(0)));
  // A vocabulary whose models expect BOS has it even where the file does not say so.
  source = byte_level_source({"ab"});
  source.gguf->pre = "llama-bpe";
  EXPECT_THAT(Tokenizer::load(source).encode("ab"), ElementsAre(0, piece_id(0)));
  source.gguf->add_bos = false;
  EXPECT_THAT(Tokenizer::load(source).encode("ab"), ElementsAre(piece_id(0)));
}

TEST(GgufTokenizer, NamedTokens) {
  TokenizerSource source = byte_level_source();
  source.gguf->eot_id = 5;
  source.gguf->eom_id = 4;
  source.gguf->pad_id = -1;
  const Tokenizer t = Tokenizer::load(source);
  EXPECT_EQ(t.bos_token(), "<|endoftext|>");
  EXPECT_EQ(t.eos_id(), 1);
  EXPECT_THAT(t.end_of_turn_ids(), ElementsAre(0, 1, 4, 5));
  EXPECT_TRUE(t.is_special(0));
  EXPECT_FALSE(t.is_special(byte_id('a')));
  EXPECT_EQ(t.token_bytes(byte_id(0xFF)), "\xFF");
}

TEST(GgufTokenizer, SentencePieceMergesByScoreAndFallsBackToBytes) {
  const Tokenizer t = Tokenizer::load(sentencepiece_source());
  const auto id = [&](const char* token) { return t.token_id(token).value(); };
  EXPECT_THAT(t.encode("the cat"), ElementsAre(1, id("▁the"), id("▁cat")));
  EXPECT_THAT(t.encode("é", {.add_special_tokens = false}), ElementsAre(id("▁"), id("<0xC3>"), id("<0xA9>")));
  EXPECT_THAT(t.encode("</s>", {.add_special_tokens = false}), ElementsAre(2));
  EXPECT_EQ(t.token_bytes(id("<0xC3>")), "\xC3");
  EXPECT_EQ(t.token_bytes(id("▁the")), " the");
  for (const std::string text : {"the cat", " the", "  é\n\t", "中文 cat"}) {
    EXPECT_EQ(t.decode(t.encode(text), {.skip_special_tokens = true}), text);
  }
}

TEST(GgufTokenizer, SentencePieceWithoutSpacePrefix) {
  TokenizerSource source = sentencepiece_source();
  source.gguf->add_space_prefix = false;
  const Tokenizer t = Tokenizer::load(source);
  EXPECT_THAT(t.encode("the cat"), ElementsAre(1, *t.token_id("t"), *t.token_id("he"), *t.token_id("▁cat")));
  EXPECT_EQ(t.decode(t.encode(" the"), {.skip_special_tokens = true}), " the");
}

TEST(GgufTokenizer, BrokenVocabulariesAreRefused) {
  struct Case {
    const char* expected;
    ErrorKind kind;
    std::function<void(GgufVocabulary&)> change;
  };
  const ErrorKind artifact = ErrorKind::kInvalidArtifact;
  const ErrorKind unsupported = ErrorKind::kUnsupported;
  const std::vector<Case> cases = {
      {"\"bert\"", unsupported, [](GgufVocabulary& v) { v.model = "bert"; }},
      {"got \"\"", unsupported, [](GgufVocabulary& v) { v.model = ""; }},
      {"smollm", unsupported, [](GgufVocabulary& v) { v.pre = "unheard-of"; }},
      {"tokens", artifact, [](GgufVocabulary& v) { v.tokens.clear(); }},
      {"tokens[7]", artifact, [](GgufVocabulary& v) { v.tokens[7] = "\xC3"; }},
      {"token_type", artifact, [](GgufVocabulary& v) { v.token_types.pop_back(); }},
      {"scores", artifact, [](GgufVocabulary& v) { v.scores = {1.0F}; }},
      {"merges", artifact, [](GgufVocabulary& v) { v.merges.clear(); }},
      {"merges[0]", artifact, [](GgufVocabulary& v) { v.merges[0] = "ab"; }},
      {"merges[0]", artifact, [](GgufVocabulary& v) { v.merges[0] = ""; }},
      {"merges[0]", artifact, [](GgufVocabulary& v) { v.merges[0] = " "; }},
      {"merges[0]", artifact, [](GgufVocabulary& v) { v.merges[0] = "q q"; }},
      {"bos_token_id", artifact, [](GgufVocabulary& v) { v.bos_id = 1 << 20; }},
      {"eos_token_id", artifact,
       [](GgufVocabulary& v) {
         v.eos_id.reset();
         v.add_eos = true;
       }},
  };
  for (const Case& c : cases) {
    TokenizerSource source = byte_level_source({"ab"});
    c.change(*source.gguf);
    try {
      Tokenizer::load(source);
      ADD_FAILURE() << "accepted; expected " << c.expected;
    } catch (const Error& e) {
      EXPECT_EQ(e.kind(), c.kind) << e.what();
      EXPECT_THAT(std::string(e.what()), HasSubstr(c.expected));
      EXPECT_THAT(std::string(e.what()), HasSubstr("[text.load] tiny.gguf: tokenizer.ggml."));
    }
  }
  TokenizerSource source = sentencepiece_source();
  source.gguf->scores.clear();
  EXPECT_THROW(Tokenizer::load(source), Error);
  source = sentencepiece_source();
  source.gguf->tokens.resize(1);
  source.gguf->token_types.resize(1);
  source.gguf->scores.resize(1);
  EXPECT_THROW(Tokenizer::load(source), Error) << "the assumed BOS id is outside of the vocabulary";
}

}  // namespace
}  // namespace tessera
