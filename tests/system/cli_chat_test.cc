// chat over a pipe: one line is one turn, commands, a full context, and what goes wrong in a turn.
#include <csignal>

#include "tests/system/cli.h"

namespace tessera::test {
namespace {

Arguments chat(const Arguments& more = {}, int max_tokens = 8) {
  Arguments arguments = {"chat",         "--model",      fixture(),
                         "--ignore-eos", "--max-tokens", std::to_string(max_tokens)};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

/// What generate answers to a first question: a chat's first answer must be the same.
std::string first_answer(const std::string& question, const Arguments& more = {}) {
  Arguments arguments = {"generate", question, "--model", fixture(), "--ignore-eos", "--max-tokens", "8"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return text_of(run_cli(arguments));
}

TEST(CliChat, TheFirstAnswerIsGeneratesAnswer) {
  const ProcessResult result = run_cli(chat(), "Hello there\n");
  EXPECT_EQ(text_of(result), first_answer("Hello there") + "\n");
  EXPECT_EQ(result.err, "");
}

TEST(CliChat, ALastLineWithoutNewlineIsATurn) {
  EXPECT_EQ(text_of(run_cli(chat(), "\n\r\nHello there")), first_answer("Hello there") + "\n");
}

TEST(CliChat, LaterTurnsSeeEarlierOnes) {
  const std::string answers = text_of(run_cli(chat({"--verbose"}), "One\nHello there\n"));
  EXPECT_NE(answers, first_answer("One") + "\n" + first_answer("Hello there") + "\n");
}

TEST(CliChat, ResetForgets) {
  const ProcessResult result = run_cli(chat(), "Hello there\n/reset\nHello there\n");
  const std::string answer = first_answer("Hello there") + "\n";
  EXPECT_EQ(text_of(result), answer + answer);
  EXPECT_NE(result.err.find("forgotten"), std::string::npos);
}

TEST(CliChat, SystemCommandSetsAndRemovesTheSystemMessage) {
  const std::string with_system = first_answer("Hello there", {"--system", "Be brief."}) + "\n";
  const std::string without = first_answer("Hello there") + "\n";
  EXPECT_EQ(text_of(run_cli(chat(), "/system Be brief.\nHello there\n")), with_system);
  EXPECT_EQ(text_of(run_cli(chat({"--system", "Be brief."}), "Hello there\n")), with_system);
  EXPECT_EQ(text_of(run_cli(chat({"--system", "Be brief."}), "/system\nHello there\n")), without);
}

TEST(CliChat, ExitEndsAndUnknownCommandsAreNamed) {
  EXPECT_EQ(text_of(run_cli(chat(), "/exit\nHello there\n")), "");
  const ProcessResult result = run_cli(chat(), "/no-such-command\nHello there\n");
  EXPECT_NE(result.err.find("/no-such-command"), std::string::npos);
  EXPECT_EQ(result.out, first_answer("Hello there") + "\n");
  EXPECT_EQ(result.status, 1);
  EXPECT_NE(run_cli(chat(), "/help\n").err.find("/reset"), std::string::npos);
}

TEST(CliChat, TwoSlashesSendOne) {
  EXPECT_EQ(text_of(run_cli(chat(), "//reset\n")), first_answer("/reset") + "\n");
}

TEST(CliChat, AFullContextDropsTheOldestTurnsWithANotice) {
  std::string turns;
  for (int i = 0; i < 12; ++i) turns += "Tell me more about it\n";
  const ProcessResult result = run_cli(chat({"--context-length", "120"}), turns);
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_NE(result.err.find("the context of 120 tokens is full"), std::string::npos) << result.err;
  EXPECT_GE(std::count(result.out.begin(), result.out.end(), '\n'), 12);
}

TEST(CliChat, AMessageThatNeverFitsIsRefusedAndTheChatGoesOn) {
  std::string long_line;
  for (int i = 0; i < 1000; ++i) long_line += "word ";
  const ProcessResult result = run_cli(chat(), long_line + "\nHello there\n");
  EXPECT_EQ(result.status, 1);
  EXPECT_NE(result.err.find("does not fit"), std::string::npos) << result.err;
  EXPECT_EQ(result.out, first_answer("Hello there") + "\n");
}

TEST(CliChat, ASystemMessageThatNeverFitsIsNamed) {
  std::string long_text;
  for (int i = 0; i < 1000; ++i) long_text += "word ";
  const ProcessResult result = run_cli(chat({"--system", long_text}), "Hello there\n/system\nHello there\n");
  EXPECT_EQ(result.status, 1);
  EXPECT_NE(result.err.find("the system message leaves no room"), std::string::npos) << result.err;
  EXPECT_EQ(result.out, first_answer("Hello there") + "\n");
}

TEST(CliChat, InterruptStopsTheAnswerAndKeepsTheChat) {
  const ModelCopy model;
  model.edit_json("config.json", "max_position_embeddings", 200000);
  Subprocess process(
      command({"chat", "--model", model.path(), "--ignore-eos", "--max-tokens", "150000", "--seed", "1"}));
  ASSERT_TRUE(process.write_input("Hello there\n"));
  ASSERT_TRUE(process.wait_for_output(8));
  process.send_signal(SIGINT);
  ASSERT_TRUE(process.write_input("/reset\n/exit\n"));
  const ProcessResult result = process.finish(std::chrono::seconds(20));
  EXPECT_FALSE(result.is_timeout);
  EXPECT_EQ(result.status, 0);
  EXPECT_NE(result.err.find("[stopped]"), std::string::npos) << result.err;
  EXPECT_NE(result.err.find("forgotten"), std::string::npos) << result.err;
}

}  // namespace
}  // namespace tessera::test
