// The parts of the program that need neither a process nor a model.
#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <string>
#include <thread>
#include <vector>

#include "apps/cli/bandwidth.h"
#include "apps/cli/conversation.h"
#include "apps/cli/interrupt.h"
#include "apps/cli/json.h"
#include "apps/cli/terminal.h"

namespace tessera::cli {
namespace {

TEST(Terminal, SizesHaveThreeDigits) {
  EXPECT_EQ(human_bytes(0), "0 B");
  EXPECT_EQ(human_bytes(1023), "1023 B");
  EXPECT_EQ(human_bytes(1536), "1.50 KiB");
  EXPECT_EQ(human_bytes(102000000), "97.3 MiB");
  EXPECT_EQ(human_bytes(uint64_t{5} << 40), "5.00 TiB");
}

TEST(Terminal, ProgressShowsTheFraction) {
  EXPECT_EQ(progress_line("weights", 512, 1024, 4), "weights [##..]  50 % of 1.00 KiB");
  EXPECT_EQ(progress_line("weights", 2048, 1024, 4), "weights [####] 100 % of 1.00 KiB");
  EXPECT_EQ(progress_line("weights", 512, 0, 4), "weights 512 B");
}

TEST(JsonOutput, InvalidUtf8IsReplaced) { EXPECT_EQ(dump_line("a\xFF"), "\"a\xEF\xBF\xBD\"\n"); }

// One "token" per character of content, five for the marks around a message.
int64_t count(const std::vector<ChatMessage>& messages) {
  int64_t tokens = 0;
  for (const ChatMessage& message : messages) tokens += 5 + static_cast<int64_t>(message.content.size());
  return tokens;
}

TEST(Conversation, RendersSystemTurnsAndQuestion) {
  Conversation conversation("system");
  conversation.add_turn("first", "answer");
  const auto messages = conversation.messages("second");
  ASSERT_EQ(messages.size(), 4u);
  EXPECT_EQ(messages[0].role, "system");
  EXPECT_EQ(messages[1].content, "first");
  EXPECT_EQ(messages[2].role, "assistant");
  EXPECT_EQ(messages[3].content, "second");
  EXPECT_EQ(conversation.messages("second", 1).size(), 2u);
}

TEST(Conversation, DropsOnlyAsManyTurnsAsNeeded) {
  Conversation conversation("1234567890");                              // 15 tokens
  for (int i = 0; i < 4; ++i) conversation.add_turn("12345", "12345");  // 20 tokens a turn
  const std::string question = "12345";                                 // 10 tokens
  EXPECT_EQ(turns_to_drop(conversation, question, 115, 10, count), 0u);
  EXPECT_EQ(turns_to_drop(conversation, question, 114, 10, count), 1u);
  EXPECT_EQ(turns_to_drop(conversation, question, 60, 10, count), 3u);
  // Alone, the question may use the room of the answer, down to one position.
  EXPECT_EQ(turns_to_drop(conversation, question, 26, 10, count), 4u);
  EXPECT_EQ(turns_to_drop(conversation, question, 25, 10, count), std::nullopt);
}

TEST(Conversation, RoomForAnAnswerLeavesMostOfTheContext) {
  EXPECT_EQ(answer_room(256, 8192), 256);
  EXPECT_EQ(answer_room(8192, 8192), 2048);
  EXPECT_EQ(answer_room(256, 2), 1);
}

TEST(Bandwidth, ReadsEveryWord) {
  const std::vector<uint64_t> words = {1, 2, 3, 4, 5};
  EXPECT_EQ(sum_words(words.data(), words.size()), 15u);
  EXPECT_GT(measure_read_bandwidth(2, size_t{8} << 20, 2), 1e6);
}

TEST(Interrupt, ASignalTriggersTheToken) {
  std::signal(SIGINT, SIG_DFL);  // a background job would have inherited that it is ignored
  for (int round = 0; round < 3; ++round) {
    Interrupt interrupt;
    EXPECT_FALSE(interrupt.token().stop_requested());
    std::raise(SIGINT);
    for (int i = 0; i < 1000 && !interrupt.token().stop_requested(); ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    EXPECT_TRUE(interrupt.token().stop_requested());
  }
}

}  // namespace
}  // namespace tessera::cli
