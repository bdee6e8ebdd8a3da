#include "tessera/text/utf8.h"

#include <gtest/gtest.h>

#include <string>

namespace tessera::text {
namespace {

// All at once and byte by byte must give the same text.
std::string read(const std::string& bytes) {
  std::string pending = bytes;
  std::string whole;
  move_utf8(pending, whole);
  std::string tail;
  std::string in_pieces;
  for (const char byte : bytes) {
    tail += byte;
    move_utf8(tail, in_pieces);
  }
  EXPECT_EQ(whole, in_pieces);
  EXPECT_EQ(pending, tail);
  EXPECT_LE(pending.size(), 3U);
  return whole;
}

TEST(Utf8, WholeCharactersPass) {
  const std::string text =
      "a\u00e9\u4e2d\U0001F44B\x7f\u0080\u07ff\u0800\ud7ff\ue000\uffff\U00010000\U0010ffff";
  EXPECT_EQ(read(text), text);
  EXPECT_EQ(read(""), "");
  EXPECT_EQ(read(std::string(1, '\0')), std::string(1, '\0'));
}

// Unicode 15, section 3.9, table 3-8 and its neighbours; Python's errors="replace" agrees.
TEST(Utf8, MaximalUndecodablePartsBecomeOneReplacementEach) {
  EXPECT_EQ(read("a\xF1\x80\x80\xE1\x80\xC2"
                 "b\x80"
                 "c\x80\xBF"
                 "d"),
            "a\uFFFD\uFFFD\uFFFDb\uFFFDc\uFFFD\uFFFDd");
  EXPECT_EQ(read("\xED\xA0\x80."), "\uFFFD\uFFFD\uFFFD.");            // a surrogate
  EXPECT_EQ(read("\xC0\xAF."), "\uFFFD\uFFFD.");                      // overlong
  EXPECT_EQ(read("\xE0\x80\xAF."), "\uFFFD\uFFFD\uFFFD.");            // overlong
  EXPECT_EQ(read("\xF4\x90\x80\x80."), "\uFFFD\uFFFD\uFFFD\uFFFD.");  // beyond U+10FFFF
  EXPECT_EQ(read("\xFF\xFE"), "\uFFFD\uFFFD");
  EXPECT_EQ(read("\xF0\x9F\x91"
                 "a"),
            "\uFFFDa");
}

TEST(Utf8, AnIncompleteCharacterIsHeldBack) {
  for (const std::string tail : {"\xC3", "\xE4\xB8", "\xF0\x9F\x91"}) {
    std::string pending = "a" + tail;
    std::string out;
    move_utf8(pending, out);
    EXPECT_EQ(out, "a");
    EXPECT_EQ(pending, tail);
  }
}

}  // namespace
}  // namespace tessera::text
