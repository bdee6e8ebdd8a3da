// Which tokens make a window, and which of its positions are scored.
#include "tessera/scoring/windows.h"

#include <gtest/gtest.h>

#include "tessera/error.h"
#include "tests/text/vocabularies.h"

namespace tessera::scoring {
namespace {

TEST(Windows, DoNotOverlapAndLeaveTheRestOut) {
  const std::vector<int32_t> tokens = {10, 11, 12, 13, 14, 15, 16, 17};
  EXPECT_EQ(count_windows(8, 3), 2);
  EXPECT_EQ(count_windows(2, 3), 0);
  EXPECT_EQ(window_at(tokens, 3, 0, std::nullopt), (std::vector<int32_t>{10, 11, 12}));
  EXPECT_EQ(window_at(tokens, 3, 1, std::nullopt), (std::vector<int32_t>{13, 14, 15}));
  EXPECT_THROW(window_at(tokens, 3, 2, std::nullopt), Error);
}

TEST(Windows, BeginWithBosInPlaceOfTheirFirstToken) {
  const std::vector<int32_t> tokens = {1, 11, 12, 13, 14, 15};
  EXPECT_EQ(window_at(tokens, 3, 0, 1), (std::vector<int32_t>{1, 11, 12}));
  EXPECT_EQ(window_at(tokens, 3, 1, 1), (std::vector<int32_t>{1, 14, 15}));
}

TEST(Windows, TheSecondHalfIsScoredButTheLastPosition) {
  // llama.cpp: n_ctx - 1 - n_ctx / 2 tokens of a chunk.
  for (const int64_t window : {3, 4, 5, 16, 511, 512}) {
    const ScoredPositions scored = scored_positions(window);
    EXPECT_EQ(scored.first, window / 2);
    EXPECT_EQ(scored.last - scored.first, window - 1 - window / 2);
    EXPECT_GT(scored.last, scored.first);
  }
}

TEST(Windows, OnlyAVocabularyThatPutsBosBeforeATextHasAStart) {
  TokenizerSource source = text_testing::byte_level_source();
  source.gguf->add_bos = false;
  EXPECT_EQ(window_start(Tokenizer::load(source)), std::nullopt);
  source.gguf->add_bos = true;
  EXPECT_EQ(window_start(Tokenizer::load(source)), 0);
  EXPECT_EQ(window_start(Tokenizer::load(text_testing::sentencepiece_source())), 1);
}

}  // namespace
}  // namespace tessera::scoring
