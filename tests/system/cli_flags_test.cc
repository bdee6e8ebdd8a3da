// Every flag of every verb changes an option, every option has a flag, and spellings of one flag that
// contradict each other are refused. The flags are parsed without a process or a model.
#include <gtest/gtest.h>

#include <CLI/CLI.hpp>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "apps/cli/json.h"
#include "apps/cli/verbs.h"

namespace tessera::cli {
namespace {

// Each option struct as JSON, one key per field: what the flags can change. -------------------------

template <typename T>
Json optional_json(const std::optional<T>& value) {
  return value ? Json(*value) : Json();
}

void put(Json& json, const ModelOptions& options) {
  json["model"] = options.model;
  json["precision"] = precision_name(options.precision);
  json["threads"] = options.threads;
  json["context_length"] = options.context_length;
  json["prefill_chunk_tokens"] = options.prefill_chunk_tokens;
}

void put(Json& json, const GenerationOptions& options) {
  const SamplingOptions& sampling = options.sampling;
  json["max_tokens"] = options.max_tokens;
  json["stop"] = options.stop;
  json["ignore_eos"] = options.ignore_eos;
  json["temperature"] = sampling.temperature;
  json["top_p"] = sampling.top_p;
  json["top_k"] = sampling.top_k;
  json["min_p"] = sampling.min_p;
  json["xtc_probability"] = sampling.xtc_probability;
  json["xtc_threshold"] = sampling.xtc_threshold;
  json["repetition_penalty"] = sampling.repetition_penalty;
  json["repetition_context"] = sampling.repetition_context;
  json["presence_penalty"] = sampling.presence_penalty;
  json["frequency_penalty"] = sampling.frequency_penalty;
  json["logit_bias"] = Json(sampling.logit_bias);
  json["seed"] = optional_json(sampling.seed);
}

Json describe(const GenerateArguments& arguments) {
  Json json;
  put(json, arguments.model);
  put(json, arguments.generation);
  json["prompt"] = optional_json(arguments.prompt);
  json["system"] = optional_json(arguments.system);
  json["is_raw"] = arguments.is_raw;
  json["is_json"] = arguments.is_json;
  json["is_verbose"] = arguments.is_verbose;
  json["top_logprobs"] = optional_json(arguments.top_logprobs);
  return json;
}

Json describe(const ChatArguments& arguments) {
  Json json;
  put(json, arguments.model);
  put(json, arguments.generation);
  json["system"] = optional_json(arguments.system);
  json["is_verbose"] = arguments.is_verbose;
  return json;
}

Json describe(const InspectArguments& arguments) {
  return {{"model", arguments.model},
          {"is_json", arguments.is_json},
          {"env", arguments.lists_environment},
          {"kernels", arguments.lists_kernels}};
}

Json describe(const TokenizeArguments& arguments) {
  return {{"model", arguments.model},         {"text", optional_json(arguments.text)},
          {"is_decode", arguments.is_decode}, {"is_plain", arguments.is_plain},
          {"is_json", arguments.is_json},     {"is_verbose", arguments.is_verbose}};
}

Json describe(const PullArguments& arguments) {
  return {{"name", optional_json(arguments.name)},
          {"endpoint", optional_json(arguments.endpoint)},
          {"revision", optional_json(arguments.revision)},
          {"file", optional_json(arguments.file)},
          {"is_json", arguments.is_json}};
}

Json describe(const BenchArguments& arguments) {
  Json json;
  put(json, arguments.model);
  json["prompt_tokens"] = arguments.prompt_tokens;
  json["generation_tokens"] = arguments.generation_tokens;
  json["context"] = arguments.context;
  json["repeat"] = arguments.repeat;
  json["is_json"] = arguments.is_json;
  return json;
}

Json describe(const KlArguments& arguments) {
  return {{"model", arguments.options.a.model},
          {"precision", precision_name(arguments.options.a.precision)},
          {"threads", arguments.options.a.threads},
          {"model_b", optional_json(arguments.model_b)},
          {"precision_b", precision_name(arguments.options.b.precision)},
          {"data_path", optional_json(arguments.data_path)},
          {"context", arguments.options.window_tokens},
          {"max_tokens", arguments.options.max_tokens},
          {"is_json", arguments.is_json}};
}

template <typename Arguments>
Json parse(const std::vector<std::string>& words) {
  CLI::App app;
  FlagSet flags(app);
  Arguments arguments;
  declare(flags, arguments);
  std::vector<const char*> argv = {"verb"};
  for (const std::string& word : words) argv.push_back(word.c_str());
  std::string help;
  EXPECT_TRUE(parse_flags(app, flags, static_cast<int>(argv.size()), argv.data(), help));
  return describe(arguments);
}

template <typename Arguments>
std::vector<std::string> spellings() {
  CLI::App app;
  FlagSet flags(app);
  Arguments arguments;
  declare(flags, arguments);
  return flags.spellings();
}

// A value for every flag, different from its default. "" marks a flag without a value. ---------------
// clang-format off
const std::map<std::string, std::string> kValues = {
    {"--model", "other"},           {"--dtype", "float32"},
    {"--precision", "int8"},         {"--threads", "3"},
    {"--context-length", "99"},     {"--prefill-chunk-tokens", "7"}, {"--prefill-step-size", "7"},
    {"--temperature", "0.5"},       {"--temp", "0.5"},              {"--top-p", "0.5"},
    {"--top-k", "5"},               {"--min-p", "0.5"},             {"--xtc-probability", "0.5"},
    {"--xtc-threshold", "0.25"},    {"--repetition-penalty", "1.5"}, {"--repetition-context-size", "5"},
    {"--presence-penalty", "0.5"},  {"--frequency-penalty", "-0.5"}, {"--logit-bias", "7=-1.5"},
    {"--seed", "5"},                {"--max-tokens", "5"},          {"--stop", "END"},
    {"--ignore-eos", ""},           {"--prompt", "hello"},          {"-p", "hello"},
    {"--system", "be brief"},       {"--system-prompt", "be brief"}, {"--raw", ""},
    {"--ignore-chat-template", ""}, {"--json", ""},                 {"--verbose", ""},
    {"--logprobs", "5"},            {"--env", ""},                  {"--kernels", ""},              {"--decode", ""},
    {"--no-special", ""},           {"--text", "hello"},            {"--endpoint", "there"},
    {"--revision", "branch"},       {"--file", "Q4"},                     {"--prompt-tokens", "5"},       {"--generation-tokens", "5"},
    {"--context", "5"},             {"--repeat", "5"},              {"--num-trials", "5"},
    {"--model-b", "other"},         {"--dtype-b", "float32"},    {"--precision-b", "int8"},       {"--data-path", "text.txt"},
};
// clang-format on

template <typename Arguments>
void check_verb(const std::set<std::string>& options_without_flag = {}) {
  const Json defaults = parse<Arguments>({});
  std::set<std::string> changed;
  for (const std::string& spelling : spellings<Arguments>()) {
    SCOPED_TRACE(spelling);
    std::vector<std::string> words = {spelling};
    if (spelling.front() != '-') {
      words = {"positional"};
    } else {
      ASSERT_TRUE(kValues.contains(spelling)) << "no value listed for this flag";
      if (!kValues.at(spelling).empty()) words.push_back(kValues.at(spelling));
    }
    const Json options = parse<Arguments>(words);
    std::set<std::string> changed_here;
    for (const auto& [key, value] : options.items()) {
      if (value != defaults.at(key)) changed_here.insert(key);
    }
    EXPECT_EQ(changed_here.size(), 1u) << options;
    changed.insert(changed_here.begin(), changed_here.end());
  }
  for (const auto& [key, value] : defaults.items()) {
    EXPECT_NE(changed.contains(key), options_without_flag.contains(key)) << key;
  }
}

TEST(CliFlags, EveryFlagOfGenerateChangesAnOption) { check_verb<GenerateArguments>(); }
TEST(CliFlags, EveryFlagOfChatChangesAnOption) { check_verb<ChatArguments>(); }
TEST(CliFlags, EveryFlagOfInspectChangesAnOption) { check_verb<InspectArguments>(); }
TEST(CliFlags, EveryFlagOfTokenizeChangesAnOption) { check_verb<TokenizeArguments>(); }
TEST(CliFlags, EveryFlagOfPullChangesAnOption) { check_verb<PullArguments>(); }
TEST(CliFlags, EveryFlagOfBenchChangesAnOption) { check_verb<BenchArguments>(); }
TEST(CliFlags, EveryFlagOfKlChangesAnOption) { check_verb<KlArguments>(); }

std::string usage_error(const std::vector<std::string>& words) {
  try {
    parse<GenerateArguments>(words);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "(accepted)";
}

TEST(CliFlags, ContradictingSpellingsAreNamed) {
  EXPECT_EQ(usage_error({"--temp", "0.5", "--temperature", "0.7"}),
            "--temp 0.5 contradicts --temperature 0.7");
  EXPECT_EQ(usage_error({"--temp", "0.5", "--temp", "0.7"}), "--temp 0.7 contradicts --temp 0.5");
  EXPECT_EQ(usage_error({"--prompt", "a", "b"}), "prompt b contradicts --prompt a");
  EXPECT_EQ(usage_error({"--raw", "--ignore-chat-template=false"}),
            "--ignore-chat-template false contradicts --raw true");
  EXPECT_EQ(usage_error({"--logit-bias", "3=1", "--logit-bias", "3=2"}),
            "--logit-bias 3=2 contradicts --logit-bias 3=1");
}

TEST(CliFlags, AgreeingSpellingsAreAccepted) {
  EXPECT_EQ(parse<GenerateArguments>({"--temp", "0.5", "--temperature", "0.50"})["temperature"], 0.5);
  EXPECT_EQ(parse<GenerateArguments>({"--seed", "4", "--seed=4"})["seed"], 4);
}

TEST(CliFlags, ValuesOutOfRangeAreRefused) {
  const std::vector<std::vector<std::string>> refused = {
      {"--max-tokens", "0"},
      {"--max-tokens", "-1"},
      {"--max-tokens", "many"},
      {"--max-tokens", "1.5"},
      {"--max-tokens", ""},
      {"--max-tokens", "99999999999999999999"},
      {"--temperature", "-0.1"},
      {"--temperature", "nan"},
      {"--temperature", "inf"},
      {"--top-p", "0"},
      {"--top-p", "1.01"},
      {"--top-k", "-1"},
      {"--min-p", "1.5"},
      {"--xtc-probability", "2"},
      {"--xtc-threshold", "0.6"},
      {"--repetition-penalty", "0"},
      {"--seed", "-1"},
      {"--dtype", "float16"},
      {"--threads", "-1"},
      {"--threads", "1025"},
      {"--logit-bias", "7"},
      {"--logit-bias", "-7=1"},
      {"--logit-bias", "7=x"},
      {"--logprobs", "21"},
      {"--context-length", "-5"},
      {"--raw=perhaps"},
      {"--raw=", "a prompt"},
      {"--stop", ""},
      {"--stop="},
      {"--stop", "\xFF"},
      {"--stop", "\xC3"},
      {"--stop", "\xED\xA0\x80"},
  };
  for (const auto& words : refused) {
    const std::string message = usage_error(words);
    const std::string spelling = words.front().substr(0, words.front().find('='));
    EXPECT_NE(message.find(spelling), std::string::npos) << message;
    EXPECT_NE(message, "(accepted)") << words.front();
  }
}

TEST(CliFlags, UnknownAndUnfinishedFlagsAreRefused) {
  EXPECT_NE(usage_error({"--no-such-flag"}).find("--no-such-flag"), std::string::npos);
  EXPECT_NE(usage_error({"a prompt", "a second one"}).find("a second one"), std::string::npos);
  EXPECT_NE(usage_error({"--max-tokens"}).find("--max-tokens"), std::string::npos);
}

TEST(CliFlags, AWordIsAPromptEvenIfItNamesAVerb) {
  EXPECT_EQ(parse<GenerateArguments>({"chat"})["prompt"], "chat");
  EXPECT_EQ(parse<GenerateArguments>({"--prompt", "-"})["prompt"], "-");
  EXPECT_EQ(parse<GenerateArguments>({"-"})["prompt"], "-");
  EXPECT_EQ(parse<GenerateArguments>({"--", "--raw"})["prompt"], "--raw");
  EXPECT_EQ(parse<GenerateArguments>({"--prompt", "--raw"})["prompt"], "--raw");
  EXPECT_EQ(parse<GenerateArguments>({"--prompt", "[1, 2]"})["prompt"], "[1, 2]");
  EXPECT_EQ(parse<GenerateArguments>({"--prompt=", "--raw"})["prompt"], "");
  EXPECT_EQ(parse<GenerateArguments>({"prompt="})["prompt"], "prompt=");
  EXPECT_EQ(parse<GenerateArguments>({"--prompt", "--stop="})["prompt"], "--stop=");
  EXPECT_EQ(parse<GenerateArguments>({"--", "--raw="})["prompt"], "--raw=");
}

TEST(CliFlags, KlTakesBothModelsAsArguments) {
  const Json options = parse<KlArguments>({"one", "--json", "two"});
  EXPECT_EQ(options["model"], "one");
  EXPECT_EQ(options["model_b"], "two");
}

TEST(CliFlags, RepeatedStopsAreKeptInOrder) {
  EXPECT_EQ(parse<GenerateArguments>({"--stop", "b", "words", "--stop", "a"})["stop"], Json({"b", "a"}));
}

TEST(CliFlags, HelpNamesEverySpelling) {
  CLI::App app;
  FlagSet flags(app);
  GenerateArguments arguments;
  declare(flags, arguments);
  const char* argv[] = {"generate", "--help"};
  std::string help;
  EXPECT_FALSE(parse_flags(app, flags, 2, argv, help));
  for (const std::string& spelling : flags.spellings()) {
    EXPECT_NE(help.find(spelling), std::string::npos) << spelling;
  }
}

}  // namespace
}  // namespace tessera::cli
