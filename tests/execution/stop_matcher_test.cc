// Stop sequences across pieces: the S4 cases and what surrounds them.
#include "tessera/execution/stop_matcher.h"

#include <gtest/gtest.h>

#include "tessera/error.h"

namespace tessera::execution {
namespace {

struct Outcome {
  std::string text;
  std::string matched;
};

Outcome run(const std::vector<std::string>& stops, const std::vector<std::string>& pieces) {
  StopMatcher matcher(stops);
  std::string text;
  for (const std::string& piece : pieces) {
    text += matcher.append(piece);
    // Nothing that belongs to a stop sequence may ever have gone out.
    for (const std::string& stop : stops) EXPECT_EQ(text.find(stop), std::string::npos);
    if (!matcher.matched().empty()) break;
  }
  text += matcher.finish();
  return {text, matcher.matched()};
}

TEST(StopMatcher, FindsAStopAcrossPieces) {
  const Outcome outcome = run({"END"}, {"He", "llo E", "N", "D tail"});
  EXPECT_EQ(outcome.text, "Hello ");
  EXPECT_EQ(outcome.matched, "END");
}

TEST(StopMatcher, ReleasesWhatWasNoStopAfterAll) {
  const Outcome outcome = run({"END"}, {"a E", "N", "X"});
  EXPECT_EQ(outcome.text, "a ENX");
  EXPECT_EQ(outcome.matched, "");
}

TEST(StopMatcher, ReleasesAnUnfinishedStopAtTheEnd) { EXPECT_EQ(run({"END"}, {"a E", "N"}).text, "a EN"); }

TEST(StopMatcher, TheEarliestStopWins) {
  const Outcome outcome = run({"world", "lo"}, {"hello world"});
  EXPECT_EQ(outcome.text, "hel");
  EXPECT_EQ(outcome.matched, "lo");
}

TEST(StopMatcher, RestartsInsideARepeatedPrefix) {
  EXPECT_EQ(run({"aab"}, {"a", "a", "a", "b", "c"}).text, "a");
  EXPECT_EQ(run({"\n\n"}, {"x\n", "y\n", "\n", "z"}).text, "x\ny");
}

TEST(StopMatcher, WorksByteByByte) {
  const std::string text = "one two STOP three";
  std::vector<std::string> pieces;
  for (const char c : text) pieces.emplace_back(1, c);
  EXPECT_EQ(run({"STOP"}, pieces).text, "one two ");
}

TEST(StopMatcher, PassesEverythingOnWithoutStops) { EXPECT_EQ(run({}, {"a", "", "b"}).text, "ab"); }

TEST(StopMatcher, RefusesAnEmptyStop) { EXPECT_THROW(StopMatcher({""}), Error); }

}  // namespace
}  // namespace tessera::execution
