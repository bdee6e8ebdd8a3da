#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "tessera/error.h"
#include "tessera/text/utf8.h"
#include "tessera/tokenizer.h"
#include "tests/text/vocabularies.h"

namespace tessera {
namespace {

using text_testing::byte_id;
using text_testing::byte_level_source;
using text_testing::piece_id;

std::vector<std::string> deltas(const Tokenizer& tokenizer, const std::vector<int32_t>& ids,
                                const DecodeOptions& options = {}) {
  Detokenizer stream(tokenizer, options);
  std::vector<std::string> out;
  for (const int32_t id : ids) out.push_back(stream.append(id));
  out.push_back(stream.finish());
  return out;
}

std::string joined(const std::vector<std::string>& pieces) {
  std::string out;
  for (const std::string& piece : pieces) out += piece;
  return out;
}

using Pieces = std::vector<std::string>;

TEST(Detokenizer, PiecesAppearAsTheyCome) {
  const Tokenizer t = Tokenizer::load(byte_level_source({"He", "llo E", "N", "D tail"}));
  EXPECT_EQ(deltas(t, {piece_id(0), piece_id(1), piece_id(2), piece_id(3)}),
            (Pieces{"He", "llo E", "N", "D tail", ""}));
}

TEST(Detokenizer, ACharacterOfTwoTokensIsOneDelta) {
  const Tokenizer t = Tokenizer::load(byte_level_source({"\xF0\x9F", "\x91\x8B"}));
  EXPECT_EQ(deltas(t, {piece_id(0), piece_id(1)}), (Pieces{"", "\U0001F44B", ""}));
}

TEST(Detokenizer, ACutCharacterIsOneReplacementAtTheEnd) {
  const Tokenizer t = Tokenizer::load(byte_level_source({"\xF0\x9F", "\x91\x8B"}));
  EXPECT_EQ(deltas(t, {piece_id(0)}), (Pieces{"", "\uFFFD"}));
  EXPECT_EQ(deltas(t, {byte_id('a'), byte_id(0xE4), byte_id(0xB8)}), (Pieces{"a", "", "", "\uFFFD"}));
  // What breaks the character off shows that it was broken.
  EXPECT_EQ(deltas(t, {piece_id(0), byte_id('a')}), (Pieces{"", "\uFFFDa", ""}));
  EXPECT_EQ(deltas(t, {}), (Pieces{""}));
}

TEST(Detokenizer, StartsAgainAfterFinish) {
  const Tokenizer t = Tokenizer::load(text_testing::sentencepiece_source());
  const int32_t the = *t.token_id("▁the");
  Detokenizer stream(t);
  for (int round = 0; round < 2; ++round) {
    EXPECT_EQ(stream.append(the), "the");
    EXPECT_EQ(stream.append(the), " the");
    EXPECT_EQ(stream.finish(), "");
  }
}

TEST(Detokenizer, SpecialTokensAreKeptOrSkipped) {
  const Tokenizer t = Tokenizer::load(byte_level_source({"hi"}));
  const std::vector<int32_t> ids = {0, piece_id(0), 1};
  EXPECT_EQ(t.decode(ids), "<|endoftext|>hi<|im_end|>");
  EXPECT_EQ(t.decode(ids, {.skip_special_tokens = true}), "hi");
  // A skipped token does not come between the bytes of a character.
  const std::vector<int32_t> split = {byte_id(0xC3), 1, byte_id(0xA9)};
  EXPECT_EQ(t.decode(split, {.skip_special_tokens = true}), "é");
  EXPECT_EQ(t.decode(split), "\uFFFD<|im_end|>\uFFFD");
}

TEST(Detokenizer, SentencePieceDropsOneLeadingSpace) {
  const Tokenizer t = Tokenizer::load(text_testing::sentencepiece_source());
  const auto id = [&](const char* token) { return t.token_id(token).value(); };
  EXPECT_EQ(deltas(t, {id("▁the"), id("▁cat")}), (Pieces{"the", " cat", ""}));
  EXPECT_EQ(deltas(t, {id("▁"), id("▁"), id("t")}), (Pieces{"", " ", "t", ""}));
  EXPECT_EQ(deltas(t, {id("t"), id("▁the")}), (Pieces{"t", " the", ""}));
  EXPECT_EQ(t.decode(std::vector{1, id("▁the")}), "<s> the");
  EXPECT_EQ(t.decode(std::vector{1, id("▁the")}, {.skip_special_tokens = true}), "the");
  // A space that arrives as a byte is the leading one as well.
  EXPECT_EQ(t.decode(std::vector{id("<0x20>"), id("t")}), "t");
}

TEST(Detokenizer, MetaspaceDropsTheSpacesOfTheFirstToken) {
  TokenizerSource source =
      text_testing::json_source(R"({"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always"})");
  for (std::size_t at; (at = source.tokenizer_json.find("Ġ")) != std::string::npos;) {
    source.tokenizer_json.replace(at, std::string("Ġ").size(), "▁");
  }
  const Tokenizer t = Tokenizer::load(source);
  const int32_t space = *t.token_id("▁");
  EXPECT_EQ(deltas(t, {space, 7, space, 3}), (Pieces{"", "hell", " ", "o", ""}));
  EXPECT_EQ(deltas(t, {7, space, 3}), (Pieces{"hell", " ", "o", ""}));
}

TEST(Detokenizer, AnIdOutsideTheVocabularyChangesNothing) {
  const Tokenizer t = Tokenizer::load(byte_level_source());
  Detokenizer stream(t);
  EXPECT_EQ(stream.append(byte_id(0xC3)), "");
  for (const int32_t id : {-1, t.vocab_size(), INT32_MIN, INT32_MAX}) {
    try {
      stream.append(id);
      FAIL() << id;
    } catch (const Error& e) {
      EXPECT_EQ(e.kind(), ErrorKind::kInvalidArgument);
    }
  }
  EXPECT_EQ(stream.append(byte_id(0xA9)), "é");
}

// Any ids at all: every piece is whole characters, and the pieces are the text of decode().
TEST(Detokenizer, RandomIdsJoinToDecode) {
  std::mt19937 random(7);
  for (const TokenizerSource& source :
       {byte_level_source({"\xF0\x9F", "\x91\x8B", " the"}), text_testing::sentencepiece_source()}) {
    const Tokenizer t = Tokenizer::load(source);
    std::uniform_int_distribution<int32_t> any(0, t.vocab_size() - 1);
    for (int round = 0; round < 500; ++round) {
      std::vector<int32_t> ids(random() % 20);
      for (int32_t& id : ids) id = any(random);
      for (const bool skip : {false, true}) {
        const std::vector<std::string> pieces = deltas(t, ids, {.skip_special_tokens = skip});
        const std::string whole = t.decode(ids, {.skip_special_tokens = skip});
        ASSERT_EQ(joined(pieces), whole);
        // Were a piece cut inside a character, reading it alone would leave or replace something.
        for (std::string piece : pieces) {
          const std::string before = piece;
          std::string read;
          text::move_utf8(piece, read);
          ASSERT_EQ(read, before);
        }
      }
    }
  }
}

}  // namespace
}  // namespace tessera
