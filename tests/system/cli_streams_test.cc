// Standard streams that are closed or cannot be read: an error, never silence, never another file.
#include <string>

#include "tests/system/cli.h"

namespace tessera::test {
namespace {

/// Runs the program from a shell, with redirections such as "<&-" (a closed standard input).
ProcessResult run_redirected(const Arguments& arguments, const std::string& redirections) {
  Arguments argv = {"/bin/sh", "-c", "exec \"$0\" \"$@\" " + redirections};
  const Arguments program = command(arguments);
  argv.insert(argv.end(), program.begin(), program.end());
  return run_process(argv);
}

TEST(CliStreams, AClosedOutputIsAnError) {
  for (const char* redirections : {">&-", "<&- >&-"}) {
    for (const Arguments& arguments : {generate({}), generate({"--json"}), Arguments{"--version"}}) {
      const ProcessResult result = run_redirected(arguments, redirections);
      EXPECT_FALSE(result.is_timeout);
      expect_refused(result, 1, "cannot write standard output");
    }
  }
}

TEST(CliStreams, AClosedInputIsNotMissed) {
  EXPECT_EQ(text_of(run_redirected(generate({}), "<&-")), text_of(run_cli(generate({}))));
  json_of(run_redirected(generate({"--json"}), "<&-"));
}

TEST(CliStreams, AClosedErrorStreamLosesOnlyMessages) {
  const ProcessResult result = run_redirected(generate({"--verbose"}), "<&- 2>&-");
  EXPECT_EQ(result.out, text_of(run_cli(generate({}))));
  EXPECT_EQ(result.status, 0);
  EXPECT_EQ(run_redirected({"no-such-command"}, "<&- >&- 2>&-").status, 2);
}

TEST(CliStreams, AnInputThatCannotBeReadIsAnError) {
  for (const char* redirections : {"<&-", "< /"}) {
    for (const Arguments& arguments :
         {Arguments{"generate", "-", "--model", fixture()}, Arguments{"tokenize", "-", "--model", fixture()},
          Arguments{"chat", "--model", fixture()}}) {
      expect_refused(run_redirected(arguments, redirections), 1, "cannot read standard input");
    }
  }
}

}  // namespace
}  // namespace tessera::test
