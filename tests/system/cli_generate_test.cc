// generate through argv: what is printed where, that sampling flags reach the sampler, and how it ends.
#include <chrono>
#include <csignal>

#include "tests/system/cli.h"

namespace tessera::test {
namespace {

/// The id of a text that is one token of the tiny tokenizer.
std::string token_id(const std::string& text) {
  const auto ids =
      json_of(run_cli({"tokenize", text, "--no-special", "--json", "--model", fixture()}))["ids"];
  EXPECT_EQ(ids.size(), 1u) << text;
  return std::to_string(ids.at(0).get<int>());
}

/// Arguments that make the model say only `text`.
Arguments saying(const std::string& text, const Arguments& more) {
  Arguments arguments = generate({"--logit-bias", token_id(text) + "=1000"});
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

TEST(CliGenerate, StreamedTextIsTheTextOfTheJson) {
  const ProcessResult streamed = run_cli(generate({}));
  const auto json = json_of(run_cli(generate({"--json"})));
  EXPECT_EQ(text_of(streamed), json["text"]);
  EXPECT_EQ(streamed.err, "");
  EXPECT_NE(streamed.out, "");
}

TEST(CliGenerate, JsonHasOpenAisUsage) {
  const auto json = json_of(run_cli(generate({"--json"}, 7)));
  EXPECT_EQ(json["finish_reason"], "length");
  const auto& usage = json["usage"];
  EXPECT_EQ(usage["completion_tokens"], 7);
  EXPECT_GT(usage["prompt_tokens"], 0);
  EXPECT_EQ(usage["total_tokens"], usage["prompt_tokens"].get<int>() + 7);
  EXPECT_EQ(usage["prompt_tokens_details"]["cached_tokens"], 0);
  for (const char* key : {"prompt_tokens_per_s", "generation_tokens_per_s", "time_to_first_token_s"}) {
    EXPECT_GT(json["timings"][key].get<double>(), 0) << key;
  }
  EXPECT_GT(json["timings"]["peak_memory_bytes"].get<double>(), 1e6);
}

TEST(CliGenerate, MaxTokensIsRespected) {
  for (const int max_tokens : {1, 5}) {
    EXPECT_EQ(json_of(run_cli(generate({"--json"}, max_tokens)))["usage"]["completion_tokens"], max_tokens);
  }
}

TEST(CliGenerate, AFullContextEndsTheAnswer) {
  const auto json = json_of(run_cli(generate({"--json", "--raw", "--context-length", "40"}, 1000)));
  EXPECT_EQ(json["finish_reason"], "length");
  EXPECT_LE(json["usage"]["total_tokens"].get<int>(), 41);
  EXPECT_GE(json["usage"]["total_tokens"].get<int>(), 40);
}

TEST(CliGenerate, ASeedRepeatsAndSeedsDiffer) {
  const auto text = [](const Arguments& seed) {
    Arguments more = {"--temp", "1.5"};
    more.insert(more.end(), seed.begin(), seed.end());
    return text_of(run_cli(generate(more, 24)));
  };
  EXPECT_EQ(text({"--seed", "1"}), text({"--seed", "1"}));
  EXPECT_NE(text({"--seed", "1"}), text({"--seed", "2"}));
}

TEST(CliGenerate, TheReportedSeedRepeatsTheAnswer) {
  const auto drawn = json_of(run_cli(generate({"--temp", "1.5", "--json"})));
  const std::string seed = std::to_string(drawn["seed"].get<uint64_t>());
  EXPECT_EQ(text_of(run_cli(generate({"--temp", "1.5", "--seed", seed}))), drawn["text"]);
}

TEST(CliGenerate, SamplingFlagsReachTheSampler) {
  const std::string greedy = text_of(run_cli(generate({}, 24)));
  EXPECT_EQ(text_of(run_cli(generate({"--temp", "5", "--top-k", "1"}, 24))), greedy);
  EXPECT_EQ(text_of(run_cli(generate({"--temp", "5", "--top-p", "0.000001"}, 24))), greedy);
  EXPECT_EQ(text_of(run_cli(generate({"--temp", "5", "--min-p", "1"}, 24))), greedy);
  EXPECT_NE(text_of(run_cli(generate({"--temp", "5", "--seed", "3"}, 24))), greedy);
  EXPECT_EQ(text_of(run_cli(saying("a", {"--max-tokens", "12"}))), "aaaaaaaaaaaa");
  // A penalty above the bias makes the second token another one.
  EXPECT_FALSE(text_of(run_cli(saying("a", {"--presence-penalty", "2000"}))).starts_with("aa"));
  EXPECT_FALSE(text_of(run_cli(saying("a", {"--frequency-penalty", "2000"}))).starts_with("aa"));
  EXPECT_FALSE(text_of(run_cli(saying("a", {"--repetition-penalty", "1000"}))).starts_with("aa"));
}

TEST(CliGenerate, StopSequencesEndTheAnswerAndAreNotShown) {
  const auto json = json_of(run_cli(saying("a", {"--stop", "aaaa", "--json"})));
  EXPECT_EQ(json["text"], "");
  EXPECT_EQ(json["finish_reason"], "stop");
  EXPECT_EQ(json["stop_sequence"], "aaaa");
  EXPECT_EQ(text_of(run_cli(saying("a", {"--stop", "zz", "--stop", "aaaa"}))), "");
  EXPECT_EQ(text_of(run_cli(saying("a", {"--stop", "ab"}))), "aaaaaaaaaaaa");
}

TEST(CliGenerate, EndOfSequenceEndsUnlessIgnoredAndIsNeverShown) {
  const Arguments arguments = {"generate",     "hi",     "--model",      fixture(),
                               "--logit-bias", "2=1000", "--max-tokens", "6"};
  Arguments as_json = arguments;
  as_json.push_back("--json");
  auto json = json_of(run_cli(as_json));
  EXPECT_EQ(json["finish_reason"], "stop");
  EXPECT_EQ(json["text"], "");
  as_json.push_back("--ignore-eos");
  json = json_of(run_cli(as_json));
  EXPECT_EQ(json["finish_reason"], "length");
  EXPECT_EQ(json["usage"]["completion_tokens"], 6);
  EXPECT_EQ(json["text"], "");
}

TEST(CliGenerate, PromptComesFromArgumentFlagOrInput) {
  const Arguments rest = {"--model", fixture(), "--max-tokens", "8", "--ignore-eos"};
  const auto text = [&](Arguments first, const std::string& input = "") {
    first.insert(first.begin(), "generate");
    first.insert(first.end(), rest.begin(), rest.end());
    return text_of(run_cli(first, input));
  };
  const std::string expected = text({"A prompt"});
  EXPECT_EQ(text({"--prompt", "A prompt"}), expected);
  EXPECT_EQ(text({"-p", "A prompt"}), expected);
  EXPECT_EQ(text({"--prompt", "-"}, "A prompt"), expected);
  EXPECT_EQ(text({"-"}, "A prompt"), expected);
  EXPECT_NE(text({"Another one entirely"}), expected);
}

TEST(CliGenerate, SystemMessageAndTemplateCount) {
  const auto tokens = [](const Arguments& more) {
    Arguments arguments = more;
    arguments.push_back("--json");
    return json_of(run_cli(generate(arguments, 1)))["usage"]["prompt_tokens"].get<int>();
  };
  EXPECT_LT(tokens({"--raw"}), tokens({}));
  EXPECT_LT(tokens({}), tokens({"--system", "Be brief."}));
  EXPECT_EQ(tokens({"--system-prompt", "Be brief."}), tokens({"--system", "Be brief."}));
}

TEST(CliGenerate, LogprobsAreInTheJson) {
  const auto json = json_of(run_cli(generate({"--json", "--logprobs", "3"}, 4)));
  const auto& content = json["logprobs"]["content"];
  ASSERT_EQ(content.size(), 4u);
  for (const auto& token : content) {
    EXPECT_LE(token["logprob"].get<double>(), 0);
    EXPECT_FALSE(token["bytes"].empty());
    ASSERT_EQ(token["top_logprobs"].size(), 3u);
    EXPECT_EQ(token["top_logprobs"][0]["token_id"], token["token_id"]);  // greedy takes the likeliest
  }
  expect_refused(run_cli(generate({"--logprobs", "3"})), 2, "--json");
}

TEST(CliGenerate, LoadingFlagsLeaveTheTextAlone) {
  const std::string text = text_of(run_cli(generate({"--dtype", "float32"})));
  EXPECT_EQ(text_of(run_cli(generate({"--dtype", "float32", "--threads", "1"}))), text);
  EXPECT_EQ(text_of(run_cli(generate({"--dtype", "float32", "--prefill-step-size", "3"}))), text);
  EXPECT_EQ(run_cli(generate({"--dtype", "bfloat16"})).status, 0);
  EXPECT_EQ(run_cli(generate({"--precision", "int8"})).status, 0);
}

TEST(CliGenerate, StatisticsGoToStandardError) {
  const ProcessResult result = run_cli(generate({"--verbose"}));
  EXPECT_EQ(text_of(result), text_of(run_cli(generate({}))));
  for (const char* part :
       {"Load: ", "Prompt: ", "Generation: 12 tokens", "Time to first token: ", "Peak memory: "}) {
    EXPECT_NE(result.err.find(part), std::string::npos) << result.err;
  }
}

TEST(CliGenerate, RunsAGguf) {
  const ProcessResult result = run_cli({"generate", "hi", "--raw", "--ignore-eos", "--max-tokens", "4",
                                        "--model", fixture("gguf/llama-tiny-q4_1.gguf")});
  EXPECT_NE(text_of(result), "");
}

/// A model that keeps generating for as long as a test needs.
void make_endless(const ModelCopy& model) {
  model.edit_json("config.json", "max_position_embeddings", 200000);
}

Arguments endless(const ModelCopy& model, const Arguments& more = {}) {
  Arguments arguments = {"generate", "hi", "--model", model.path(), "--ignore-eos", "--max-tokens", "150000"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

TEST(CliGenerate, InterruptKeepsWhatIsThere) {
  const ModelCopy model;
  make_endless(model);
  Subprocess process(command(endless(model)));
  ASSERT_TRUE(process.wait_for_output(8));
  process.send_signal(SIGINT);
  const ProcessResult result = process.finish(std::chrono::seconds(20));
  EXPECT_FALSE(result.is_timeout);
  EXPECT_EQ(result.status, 130);
  EXPECT_GE(result.out.size(), 8u);
  EXPECT_EQ(result.err, "");
}

TEST(CliGenerate, InterruptedJsonSaysCancelled) {
  const ModelCopy model;
  make_endless(model);
  Subprocess process(command(endless(model, {"--json", "--verbose"})));
  // While the model loads, the signal would simply end the program.
  ASSERT_TRUE(process.wait_for_message("Load: "));
  process.send_signal(SIGINT);
  const ProcessResult result = process.finish(std::chrono::seconds(20));
  EXPECT_EQ(result.status, 130);
  EXPECT_EQ(nlohmann::json::parse(result.out)["finish_reason"], "cancelled");
}

TEST(CliGenerate, AReaderThatLeavesEndsItQuietly) {
  const ModelCopy model;
  make_endless(model);
  Subprocess process(command(endless(model)));
  ASSERT_TRUE(process.wait_for_output(1));
  process.close_output();
  const ProcessResult result = process.finish(std::chrono::seconds(20));
  EXPECT_FALSE(result.is_timeout);
  EXPECT_EQ(result.status, 141);
  EXPECT_EQ(result.err, "");
}

TEST(CliGenerate, AFullDiskIsAnError) {
  for (const Arguments& arguments : {generate({}), generate({"--json"}), Arguments{"--help"}}) {
    const ProcessResult result = run_process(command(arguments), "", {}, "/dev/full");
    EXPECT_EQ(result.status, 1);
    EXPECT_NE(result.err.find("cannot write standard output"), std::string::npos) << result.err;
  }
}

}  // namespace
}  // namespace tessera::test
