// The smaller verbs: inspect, tokenize, bench, kl, pull, and the program's own help.
#include <map>
#include <sstream>

#include "tests/system/cli.h"

namespace tessera::test {
namespace {

TEST(CliProgram, HelpAndVersion) {
  EXPECT_TRUE(text_of(run_cli({"--version"})).starts_with("tessera "));
  const std::string help = text_of(run_cli({"--help"}));
  for (const char* verb : {"generate", "chat", "inspect", "tokenize", "pull", "bench", "kl"}) {
    EXPECT_NE(help.find(verb), std::string::npos) << verb;
    EXPECT_NE(text_of(run_cli({verb, "--help"})).find("--"), std::string::npos) << verb;
  }
}

TEST(CliInspect, JsonDescribesTheModel) {
  const auto json = json_of(run_cli({"inspect", fixture(), "--json"}));
  EXPECT_EQ(json["architecture"], "llama");
  EXPECT_EQ(json["format"], "safetensors");
  EXPECT_EQ(json["n_layers"], 2);
  EXPECT_EQ(json["vocab_size"], 384);
  EXPECT_EQ(json["context_length"], 512);
  EXPECT_EQ(json["is_tied"], true);
  EXPECT_EQ(json["has_chat_template"], true);
  EXPECT_EQ(json["eos_token_ids"], nlohmann::json({2, 0}));
  EXPECT_GT(json["kv_bytes_per_token"].get<int>(), 0);
  EXPECT_GT(json["loaded_bytes"].get<int>(), 0);
  ASSERT_FALSE(json["tensors"].empty());
  for (const char* key : {"class", "stored_as", "loaded_as", "parameters", "stored_bytes", "loaded_bytes"}) {
    EXPECT_TRUE(json["tensors"][0].contains(key)) << key;
  }
  std::vector<std::string> special;
  for (const auto& token : json["special_tokens"]) special.push_back(token["token"]);
  EXPECT_EQ(special, (std::vector<std::string>{"<|endoftext|>", "<|im_start|>", "<|im_end|>"}));
}

TEST(CliInspect, BothWaysToNameTheModelAgree) {
  EXPECT_EQ(text_of(run_cli({"inspect", fixture()})), text_of(run_cli({"inspect", "--model", fixture()})));
  EXPECT_EQ(text_of(run_cli({"inspect", fixture()})),
            text_of(run_cli({"inspect", fixture(), "--model", fixture()})));
}

TEST(CliInspect, TextNamesQuantizationPerTensorClass) {
  const std::string text = text_of(run_cli({"inspect", fixture("llama-tiny-4bit")}));
  for (const char* part : {"4-bit", "mlp", "attention", "per token", "<|im_end|>", "template"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
  }
}

TEST(CliInspect, DescribesGgufFiles) {
  const auto json = json_of(run_cli({"inspect", fixture("gguf/llama-tiny-q4_1.gguf"), "--json"}));
  EXPECT_EQ(json["format"], "gguf");
  EXPECT_EQ(json["n_layers"], 2);
}

TEST(CliInspect, EnvironmentListsNamesNotValues) {
  const std::string secret = "do-not-print-me";
  const std::string text = text_of(run_cli({"inspect", "--env"}, "", {"HF_TOKEN=" + secret}));
  EXPECT_NE(text.find("HF_TOKEN"), std::string::npos);
  EXPECT_EQ(text.find(secret), std::string::npos);
  const auto json = json_of(run_cli({"inspect", "--env", "--json"}, "", {"HF_TOKEN=" + secret}));
  EXPECT_TRUE(json.is_array());
  EXPECT_TRUE(json.at(0).contains("meaning"));
}

TEST(CliInspect, KernelsListWhatRunsHere) {
  const std::string text = text_of(run_cli({"inspect", "--kernels"}));
  for (const char* part : {"packed_matmul", "attention_half", "baseline", "reference", "in use", "4/5/6/8"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
  }
  const auto json = json_of(run_cli({"inspect", "--kernels", "--json"}));
  std::map<std::string, int> in_use;
  for (const auto& kernel : json) {
    in_use[kernel["operation"]] += kernel["is_in_use"].get<bool>() ? 1 : 0;
    EXPECT_TRUE(kernel["is_supported"].get<bool>() || !kernel["is_in_use"].get<bool>());
    EXPECT_FALSE(kernel["inputs"].empty()) << kernel;
  }
  for (const auto& [operation, count] : in_use) EXPECT_EQ(count, 1) << operation;
  EXPECT_TRUE(in_use.contains("packed_matmul"));
}

TEST(CliInspect, TheEnvironmentChoosesTheKernels) {
  const auto json =
      json_of(run_cli({"inspect", "--kernels", "--json"}, "", {"TESSERA_KERNEL_TARGET=baseline"}));
  for (const auto& kernel : json) {
    EXPECT_EQ(kernel["is_in_use"].get<bool>() && kernel["operation"] == "packed_matmul",
              kernel["operation"] == "packed_matmul" && kernel["target"] == "baseline");
  }
  const Arguments wrong = {"TESSERA_KERNEL_TARGET=z80"};
  expect_refused(run_cli({"inspect", "--kernels"}, "", wrong), 1, "TESSERA_KERNEL_TARGET is 'z80'");
  expect_refused(run_cli({"inspect", fixture()}, "", wrong), 1, "expected one of");
  expect_refused(run_cli(generate({}), "", wrong), 1, "TESSERA_KERNEL_TARGET is 'z80'");
  EXPECT_EQ(text_of(run_cli(generate({}), "", {"TESSERA_KERNEL_TARGET=baseline"})),
            text_of(run_cli(generate({}))));
}

TEST(CliTokenize, RoundTrip) {
  const std::string text = "Hello w\xC3\xB6rld, \xF0\x9F\x91\x8B!\n  two lines\n";
  const std::string ids = text_of(run_cli({"tokenize", "-", "--model", fixture()}, text));
  EXPECT_EQ(ids.find_first_not_of("0123456789 \n"), std::string::npos) << ids;
  EXPECT_EQ(text_of(run_cli({"tokenize", "--decode", "-", "--model", fixture()}, ids)), text);
  const auto json = json_of(run_cli({"tokenize", "-", "--json", "--model", fixture()}, text));
  EXPECT_EQ(json["ids"].size(), json["tokens"].size());
  const auto decoded =
      json_of(run_cli({"tokenize", "--decode", json["ids"].dump(), "--json", "--model", fixture()}));
  EXPECT_EQ(decoded["text"], text);
}

TEST(CliTokenize, SpecialTokensAreHiddenOnRequest) {
  const ProcessResult shown = run_cli({"tokenize", "--decode", "1 2", "--model", fixture()});
  EXPECT_EQ(text_of(shown), "<|im_start|><|im_end|>");
  EXPECT_EQ(text_of(run_cli({"tokenize", "--decode", "--no-special", "1 2", "--model", fixture()})), "");
}

TEST(CliTokenize, VerboseListsTheTokens) {
  const ProcessResult result = run_cli({"tokenize", "Hello", "--verbose", "--model", fixture()});
  std::istringstream ids(text_of(result));
  int count = 0;
  for (std::string id; ids >> id;) ++count;
  EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), count);
}

const Arguments kSmallBench = {"bench", "--prompt-tokens", "16", "--generation-tokens", "4", "--context",
                               "8",     "--repeat",        "1"};

TEST(CliBench, JsonIsOneLinePerCase) {
  Arguments arguments = kSmallBench;
  arguments.insert(arguments.end(), {"--json", "--model", fixture(), "--threads", "1"});
  std::istringstream lines(text_of(run_cli(arguments)));
  std::vector<std::string> cases;
  for (std::string line; std::getline(lines, line);) {
    const auto json = nlohmann::json::parse(line);
    cases.push_back(json["case"]);
    EXPECT_GT(json["tokens_per_second"].get<double>(), 0);
    EXPECT_GT(json["read_gb_per_s"].get<double>(), 0);
    EXPECT_GT(json["peak_memory_bytes"].get<double>(), 0);
    EXPECT_EQ(json["threads"], 1);
    EXPECT_EQ(json.contains("read_fraction"), json["case"] == "decode");
  }
  EXPECT_EQ(cases, (std::vector<std::string>{"prefill", "decode"}));
}

TEST(CliBench, FitsAContextOfThreePositions) {
  text_of(run_cli({"bench", "--prompt-tokens", "2", "--generation-tokens", "1", "--repeat", "2", "--model",
                   fixture(), "--context-length", "3"}));
}

TEST(CliBench, TableNamesBothCases) {
  Arguments arguments = kSmallBench;
  arguments.insert(arguments.end(), {"--model", fixture()});
  const std::string table = text_of(run_cli(arguments));
  for (const char* part : {"prefill", "decode", "tokens/s", "GB/s"}) {
    EXPECT_NE(table.find(part), std::string::npos) << table;
  }
}

/// kl over the first tokens of the fixtures' text.
Arguments small_kl(const Arguments& more) {
  Arguments arguments = {"kl",        fixture(), "--data-path",  std::string(TESSERA_FIXTURES) + "/text.txt",
                         "--context", "64",      "--max-tokens", "200"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

TEST(CliKl, JsonHasBothSides) {
  const auto json = json_of(run_cli(small_kl({"--dtype", "float32", "--dtype-b", "bfloat16", "--json"})));
  EXPECT_EQ(json["a"]["model"], fixture());
  EXPECT_EQ(json["b"]["model"], fixture());
  EXPECT_EQ(json["a"]["dtype"], "float32");
  EXPECT_EQ(json["b"]["dtype"], "bfloat16");
  EXPECT_EQ(json["windows"], 3);
  EXPECT_EQ(json["tokens"], 3 * 31);
  EXPECT_EQ(json["context"], 64);
  EXPECT_EQ(json["infinite_tokens"], 0);
  EXPECT_EQ(json["is_cancelled"], false);
  EXPECT_GT(json["text_tokens"].get<int>(), 200);
  EXPECT_GT(json["kl"]["mean"].get<double>(), 0);
  EXPECT_LT(json["kl"]["mean"].get<double>(), 0.1);
  EXPECT_GE(json["kl"]["max"].get<double>(), json["kl"]["q99"].get<double>());
  EXPECT_GT(json["same_top"].get<double>(), 0.5);
  for (const char* side : {"a", "b"}) EXPECT_GT(json[side]["perplexity"].get<double>(), 1);
}

TEST(CliKl, IdenticalSidesAreZeroApart) {
  const auto json = json_of(run_cli(small_kl({"--json"})));
  EXPECT_EQ(json["kl"]["mean"], 0.0);
  EXPECT_EQ(json["kl"]["max"], 0.0);
  EXPECT_EQ(json["same_top"], 1.0);
  EXPECT_EQ(json["ln_ratio"], 0.0);
}

TEST(CliKl, TheSecondModelIsAFlagOrAnArgument) {
  const std::string by_flag = text_of(run_cli(small_kl({"--model-b", fixture("llama-tiny-4bit")})));
  EXPECT_EQ(text_of(run_cli(small_kl({fixture("llama-tiny-4bit")}))), by_flag);
  EXPECT_EQ(text_of(run_cli(small_kl({fixture("llama-tiny-4bit"), "--threads", "1"}))), by_flag);
  for (const char* part :
       {"KL(A||B)", "perplexity", "same top", "93 in 3 windows of 64", "llama-tiny-4bit"}) {
    EXPECT_NE(by_flag.find(part), std::string::npos) << by_flag;
  }
}

TEST(CliKl, TheTextMayComeFromStandardInput) {
  std::string text;
  for (int i = 0; i < 100; ++i) text += "words and more words ";
  const ProcessResult result =
      run_cli({"kl", fixture(), "--data-path", "-", "--context", "16", "--json"}, text);
  EXPECT_GT(json_of(result)["windows"].get<int>(), 5);
}

TEST(CliPull, RefusesNamesThatCannotBeOne) {
  const ProcessResult result = run_cli({"pull", "../etc", "--endpoint", "http://127.0.0.1:1"});
  EXPECT_EQ(result.status, 1);
  EXPECT_EQ(result.out, "");
}

}  // namespace
}  // namespace tessera::test
