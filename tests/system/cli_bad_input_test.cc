// Bad input: one clear line on standard error, nothing on standard output, status 2 for what was typed
// wrong and 1 for what turned out wrong.
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "tests/system/cli.h"

namespace tessera::test {
namespace {

constexpr int kRuntimeError = 1;
constexpr int kUsageError = 2;

TEST(CliBadInput, MissingModel) {
  expect_refused(run_cli({"generate", "hi", "--model", fixture("no-such-model")}), kRuntimeError,
                 "no-such-model");
  expect_refused(run_cli({"inspect", fixture("no-such-model.gguf")}), kRuntimeError, "no-such-model.gguf");
  expect_refused(run_cli({"tokenize", "hi", "--model", fixture("no-such-model")}), kRuntimeError,
                 "no-such-model");
}

TEST(CliBadInput, FolderWithoutWeights) {
  const ModelCopy model;
  std::filesystem::remove(model.file("model.safetensors"));
  expect_refused(run_cli({"generate", "hi", "--model", model.path()}), kRuntimeError, model.path());
}

TEST(CliBadInput, TruncatedWeights) {
  const ModelCopy model;
  std::filesystem::resize_file(model.file("model.safetensors"), 20000);
  expect_refused(run_cli({"generate", "hi", "--model", model.path()}), kRuntimeError, "model.safetensors");
}

TEST(CliBadInput, TruncatedGguf) {
  const ModelCopy folder;
  const auto copy = folder.file("short.gguf");
  std::filesystem::copy_file(fixture("gguf/llama-tiny-f16.gguf"), copy);
  std::filesystem::resize_file(copy, 3000);
  expect_refused(run_cli({"generate", "hi", "--model", copy.string()}), kRuntimeError, "short.gguf");
}

TEST(CliBadInput, UnknownArchitecture) {
  const ModelCopy model;
  model.edit_json("config.json", "model_type", "no_such_family");
  expect_refused(run_cli({"generate", "hi", "--model", model.path()}), kRuntimeError, "no_such_family");
}

TEST(CliBadInput, TokenizerWithoutTemplateNamesRaw) {
  const ModelCopy model;
  model.edit_json("tokenizer_config.json", "chat_template", nullptr);
  expect_refused(run_cli({"generate", "hi", "--model", model.path()}), kRuntimeError, "--raw");
  expect_refused(run_cli({"chat", "--model", model.path()}, "hi\n"), kRuntimeError, "--raw");
  EXPECT_EQ(run_cli({"generate", "hi", "--model", model.path(), "--raw", "--max-tokens", "2"}).status, 0);
}

TEST(CliBadInput, MissingTokenizer) {
  const ModelCopy model;
  std::filesystem::remove(model.file("tokenizer.json"));
  expect_refused(run_cli({"generate", "hi", "--model", model.path()}), kRuntimeError, "tokenizer");
}

TEST(CliBadInput, PromptLongerThanTheContext) {
  std::string prompt;
  for (int i = 0; i < 2000; ++i) prompt += "word ";
  expect_refused(run_cli({"generate", "-", "--model", fixture()}, prompt), kRuntimeError, "context");
  expect_refused(run_cli({"generate", "four words of prompt", "--model", fixture(), "--context-length", "4"}),
                 kRuntimeError, "context");
  for (const char* length : {"1", "2"}) {
    expect_refused(
        run_cli({"bench", "--model", fixture(), "--context-length", length, "--prompt-tokens", "1"}),
        kRuntimeError, std::string("the context holds ") + length);
  }
}

TEST(CliBadInput, EmptyPrompt) {
  expect_refused(run_cli({"generate", "", "--model", fixture()}), kUsageError, "prompt is empty");
  expect_refused(run_cli({"generate", "--prompt=", "--model", fixture()}), kUsageError, "prompt is empty");
  expect_refused(run_cli({"generate", "--prompt", "-", "--model", fixture()}), kUsageError,
                 "prompt is empty");
  expect_refused(run_cli({"generate", "--model", fixture()}), kUsageError, "no prompt");
}

TEST(CliBadInput, ContradictingSpellings) {
  expect_refused(run_cli(generate({"--temp", "0.5", "--temperature", "0.7"})), kUsageError,
                 "--temp 0.5 contradicts --temperature 0.7");
  expect_refused(run_cli(generate({"--system", "a", "--system-prompt", "b"})), kUsageError, "contradicts");
  expect_refused(run_cli(generate({"--prompt", "another"})), kUsageError, "contradicts");
  expect_refused(run_cli({"inspect", fixture(), "--model", fixture("llama-tiny-4bit")}), kUsageError,
                 "contradicts");
  expect_refused(run_cli(generate({"--raw", "--system", "be brief"})), kUsageError, "--system");
}

TEST(CliBadInput, ValuesOutOfRange) {
  for (const char* verb : {"generate", "chat"}) {
    expect_refused(run_cli({verb, "--model", fixture(), "--max-tokens", "0"}), kUsageError, "--max-tokens");
  }
  expect_refused(run_cli(generate({"--top-p", "1.5"})), kUsageError, "--top-p");
  expect_refused(run_cli(generate({"--dtype", "int3"})), kUsageError, "--dtype");
  expect_refused(run_cli({"bench", "--prompt-tokens", "0", "--generation-tokens", "0"}), kUsageError,
                 "nothing");
}

TEST(CliBadInput, BenchLongerThanTheContext) {
  expect_refused(run_cli({"bench", "--model", fixture(), "--prompt-tokens", "5000"}), kRuntimeError, "5000");
  expect_refused(run_cli({"bench", "--model", fixture(), "--prompt-tokens", "8", "--context", "5000"}),
                 kRuntimeError, "context");
}

TEST(CliBadInput, KlTextsThatCannotBeScored) {
  const ModelCopy folder;
  const auto path = folder.file("text.txt");
  const auto kl = [&](const Arguments& more) {
    Arguments arguments = {"kl", fixture(), "--data-path", path.string()};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run_cli(arguments);
  };
  expect_refused(kl({}), kRuntimeError, "--data-path " + path.string() + ": No such file");
  std::ofstream(path) << "";
  expect_refused(kl({}), kRuntimeError, "--data-path " + path.string() + " is empty");
  std::ofstream(path) << "a few words";
  expect_refused(kl({}), kRuntimeError, path.string() + " has ");
  expect_refused(run_cli({"kl", fixture(), "--data-path", folder.path()}), kRuntimeError, folder.path());
  expect_refused(run_cli({"kl", fixture()}), kUsageError, "--data-path");
}

TEST(CliBadInput, KlSidesThatCannotBeCompared) {
  const std::string text = std::string(TESSERA_FIXTURES) + "/text.txt";
  const auto kl = [&](const Arguments& more) {
    Arguments arguments = {"kl", fixture(), "--data-path", text, "--context", "64"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run_cli(arguments);
  };
  expect_refused(kl({"--model-b", fixture("no-such-model")}), kRuntimeError, "no-such-model");
  const ModelCopy model;
  model.edit_json("config.json", "vocab_size", 385);
  expect_refused(kl({"--model-b", model.path()}), kRuntimeError, "vocabularies differ");
}

TEST(CliBadInput, KlValuesOutOfRange) {
  const auto kl = [](const Arguments& more) {
    Arguments arguments = {"kl", fixture(), "--data-path", std::string(TESSERA_FIXTURES) + "/text.txt"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run_cli(arguments);
  };
  expect_refused(kl({"--context", "2"}), kUsageError, "--context");
  expect_refused(kl({"--context", "513"}), kRuntimeError, "513");
  expect_refused(kl({"--max-tokens", "-1"}), kUsageError, "--max-tokens");
  expect_refused(kl({"--max-tokens", "100"}), kUsageError, "--max-tokens");
  expect_refused(kl({"--dtype-b", "float16"}), kUsageError, "--dtype-b");
  expect_refused(kl({"--threads", "-1"}), kUsageError, "--threads");
  expect_refused(kl({"--model-b", "x", "y"}), kUsageError, "contradicts");
}

TEST(CliBadInput, TokensThatDoNotExist) {
  expect_refused(run_cli({"tokenize", "--decode", "1 2 three", "--model", fixture()}), kUsageError, "three");
  expect_refused(run_cli({"tokenize", "--decode", "999999", "--model", fixture()}), kUsageError, "999999");
  EXPECT_NE(run_cli(generate({"--logit-bias", "999999=1"})).status, 0);
}

TEST(CliBadInput, UnknownCommandsAndFlags) {
  expect_refused(run_cli({"generat", "hi"}), kUsageError, "generat");
  expect_refused(run_cli({"--no-such-flag"}), kUsageError, "--no-such-flag");
  expect_refused(run_cli(generate({"--no-such-flag"})), kUsageError, "--no-such-flag");
  expect_refused(run_cli(generate({"--max-tokens"})), kUsageError, "--max-tokens");
  expect_refused(run_cli({"pull"}), kUsageError, "no model");
}

TEST(CliBadInput, UnreachableEndpoint) {
  expect_refused(run_cli({"pull", "some/model", "--endpoint", "http://127.0.0.1:1"}, "",
                         {"HF_HUB_CACHE=" + testing::TempDir() + "tessera-empty-hub"}),
                 kRuntimeError, "127.0.0.1");
}

TEST(CliBadInput, PullFlagsWithoutEffect) {
  for (const char* flag : {"--endpoint", "--revision", "--file"}) {
    expect_refused(run_cli({"pull", "default", flag, "http://127.0.0.1:1"}), kUsageError, flag);
    expect_refused(run_cli({"pull", "some/model", flag, ""}), kUsageError, std::string(flag) + " is empty");
  }
}

TEST(CliBadInput, ErrorLinesAreCleanAndBounded) {
  expect_refused(run_cli({"\x1B[31m\xFF\n"}), kUsageError, "'\\x1b[31m\\xff '");
  const ProcessResult result = run_cli({std::string(100000, 'x')});
  expect_refused(result, kUsageError, "xxx...");
  EXPECT_LT(result.err.size(), 2100u);
}

TEST(CliBadInput, OptionalFilesThatCannotBeRead) {
  for (const char* name : {"tokenizer_config.json", "generation_config.json"}) {
    const ModelCopy model;
    const auto path = model.file(name);
    std::filesystem::remove(path);
    std::filesystem::create_symlink("nowhere", path);
    expect_refused(run_cli({"generate", "hi", "--model", model.path()}), kRuntimeError, path.string());
    std::filesystem::remove(path);
    ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
    expect_refused(run_cli({"generate", "hi", "--model", model.path()}), kRuntimeError, path.string());
  }
}

TEST(CliBadInput, NoArgumentsPrintTheHelp) {
  const ProcessResult result = run_cli({});
  EXPECT_EQ(result.status, kUsageError);
  EXPECT_EQ(result.out, "");
  EXPECT_NE(result.err.find("Usage: tessera COMMAND"), std::string::npos);
}

}  // namespace
}  // namespace tessera::test
