// The parts of the program that need neither a process nor a model.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "apps/cli/bandwidth.h"
#include "apps/cli/conversation.h"
#include "apps/cli/input.h"
#include "apps/cli/interrupt.h"
#include "apps/cli/json.h"
#include "apps/cli/output.h"
#include "apps/cli/terminal.h"
#include "apps/cli/utf8.h"

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
  EXPECT_EQ(progress_line("windows", 1000, 2000, 4, ProgressUnit::kCount), "windows [##..]  50 % of 2000");
}

TEST(JsonOutput, InvalidUtf8IsReplaced) { EXPECT_EQ(dump_line("a\xFF"), "\"a\xEF\xBF\xBD\"\n"); }

TEST(Utf8, KnowsWellFormedCharacters) {
  for (const char* text :
       {"", "a", "\xC2\x80", "\xE0\xA0\x80", "\xED\x9F\xBF", "\xF0\x90\x80\x80", "\xF4\x8F\xBF\xBF"}) {
    EXPECT_TRUE(is_utf8(text)) << text;
    EXPECT_EQ(utf8_size(text), std::string(text).size());
  }
  for (const char* text : {"\x80", "\xC0\x80", "\xC3", "\xC3(", "\xE0\x9F\x80", "\xED\xA0\x80", "\xE2\x82",
                           "\xE2\x82(", "\xF0\x8F\xBF\xBF", "\xF4\x90\x80\x80", "\xF5\x80\x80\x80", "\xFF"}) {
    EXPECT_FALSE(is_utf8(text));
    EXPECT_EQ(utf8_size(text), 0u);
    EXPECT_FALSE(is_utf8(std::string("ok") + text));
  }
  EXPECT_TRUE(is_utf8(std::string(3, '\0')));
}

TEST(OneLine, EscapesWhatWouldNotShow) {
  EXPECT_EQ(one_line("caf\xC3\xA9 \xE2\x82\xAC \xF0\x9F\x98\x80"),
            "caf\xC3\xA9 \xE2\x82\xAC \xF0\x9F\x98\x80");
  EXPECT_EQ(one_line("a\nb\r\tc"), "a b  c");
  EXPECT_EQ(one_line("\x1B[31m\x7F"), "\\x1b[31m\\x7f");
  EXPECT_EQ(one_line(std::string("a\0b", 3)), "a\\x00b");
  EXPECT_EQ(one_line("\xC2\x9B"), "\\xc2\\x9b");           // CSI in one character
  EXPECT_EQ(one_line("\xE2\x80\xAE"), "\\xe2\\x80\\xae");  // right-to-left override
  EXPECT_EQ(one_line("x\xFF\xC3"), "x\\xff\\xc3");
}

TEST(OneLine, CutsBetweenCharacters) {
  EXPECT_EQ(one_line(std::string(2000, 'a')), std::string(2000, 'a'));
  EXPECT_EQ(one_line(std::string(2001, 'a')), std::string(2000, 'a') + "...");
  std::string euros;
  for (int i = 0; i < 100000; ++i) euros += "\xE2\x82\xAC";
  const std::string line = one_line(euros);
  EXPECT_LT(line.size(), 2010u);
  EXPECT_TRUE(is_utf8(line));
}

/// A descriptor from which `text` can be read, then the end.
class TextInput {
 public:
  explicit TextInput(const std::string& text) {
    int ends[2];
    if (pipe(ends) != 0) throw std::system_error(errno, std::generic_category(), "pipe");
    writer_ = std::thread([end = ends[1], text] {
      for (const char& c : text) EXPECT_EQ(write(end, &c, 1), 1);
      close(end);
    });
    fd_ = ends[0];
  }
  ~TextInput() {
    writer_.join();
    close(fd_);
  }
  int fd() const { return fd_; }

 private:
  int fd_ = -1;
  std::thread writer_;
};

TEST(Input, ReadsLinesOrTheRest) {
  const std::string long_line(10000, 'x');
  const TextInput text("one\ntwo\r\n\n" + long_line + "\nlast");
  Input input(text.fd());
  for (const std::string& expected : {std::string("one"), std::string("two"), std::string(), long_line}) {
    EXPECT_EQ(input.line(), expected);
  }
  EXPECT_EQ(input.line(), "last");
  EXPECT_EQ(input.line(), std::nullopt);
  EXPECT_EQ(input.line(), std::nullopt);
  const TextInput other("one\ntwo\nthree\n");
  Input rest(other.fd());
  EXPECT_EQ(rest.line(), "one");
  EXPECT_EQ(rest.rest(), "two\nthree\n");
  EXPECT_EQ(rest.rest(), "");
}

TEST(Input, WaitsForANonBlockingDescriptor) {
  const TextInput text("one\n");
  ASSERT_EQ(fcntl(text.fd(), F_SETFL, O_NONBLOCK), 0);
  EXPECT_EQ(Input(text.fd()).rest(), "one\n");
}

TEST(Input, AFailedReadIsNoEnd) {
  const int folder = open("/", O_RDONLY | O_DIRECTORY);
  ASSERT_GE(folder, 0);
  EXPECT_THROW(Input(folder).rest(), std::system_error);
  EXPECT_THROW(Input(folder).line(), std::system_error);
  close(folder);
  EXPECT_THROW(Input(folder).rest(), std::system_error);
}

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
