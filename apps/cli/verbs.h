// The arguments of every verb and the two functions that make one: declare() names its flags,
// run() does the work and returns the exit status. main.cc holds the table of verbs.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "apps/cli/flags.h"
#include "tessera/options.h"
#include "tessera/scorer.h"

namespace tessera::cli {

/// Prints the continuation of one prompt.
struct GenerateArguments {
  ModelOptions model;
  GenerationOptions generation;
  std::optional<std::string> prompt;    // "-" reads standard input
  std::optional<std::string> system;    // system message, with the chat template only
  bool is_raw = false;                  // continue the prompt as it is, without the template
  bool is_json = false;                 // one JSON object instead of the text
  bool is_verbose = false;              // statistics on stderr
  std::optional<int64_t> top_logprobs;  // log-probabilities in the JSON object
};
void declare(FlagSet& flags, GenerateArguments& arguments);
int run(const GenerateArguments& arguments);

/// A conversation: one line of standard input is one turn.
struct ChatArguments {
  ModelOptions model;
  GenerationOptions generation;
  std::optional<std::string> system;
  bool is_verbose = false;
};
void declare(FlagSet& flags, ChatArguments& arguments);
int run(const ChatArguments& arguments);

/// Describes a model from its files, or lists the environment variables or the kernels.
struct InspectArguments {
  std::string model = ModelOptions{}.model;
  bool is_json = false;
  bool lists_environment = false;
  bool lists_kernels = false;
};
void declare(FlagSet& flags, InspectArguments& arguments);
int run(const InspectArguments& arguments);

/// Text to token ids and back.
struct TokenizeArguments {
  std::string model = ModelOptions{}.model;
  std::optional<std::string> text;  // "-" reads standard input
  bool is_decode = false;           // the text holds ids
  bool is_plain = false;            // without the special tokens a prompt begins or ends with
  bool is_json = false;
  bool is_verbose = false;  // one line per token: id and text
};
void declare(FlagSet& flags, TokenizeArguments& arguments);
int run(const TokenizeArguments& arguments);

/// Downloads a model.
struct PullArguments {
  std::optional<std::string> name;
  std::optional<std::string> endpoint;
  std::optional<std::string> revision;
  std::optional<std::string> file;  // which GGUF file of a repository with several
  bool is_json = false;
};
void declare(FlagSet& flags, PullArguments& arguments);
int run(const PullArguments& arguments);

/// Measures prefill and decode speed.
struct BenchArguments {
  ModelOptions model;
  int64_t prompt_tokens = 512;      // of the prefill case; 0 leaves it out
  int64_t generation_tokens = 128;  // of the decode case; 0 leaves it out
  int64_t context = 0;              // tokens in the context before decoding
  int64_t repeat = 3;               // runs per case; the median is reported
  bool is_json = false;
};
void declare(FlagSet& flags, BenchArguments& arguments);
int run(const BenchArguments& arguments);

/// How far one side's predictions of a text are from another's.
struct KlArguments {
  KlOptions options;                   // the model and threads of b come from below and from a
  std::optional<std::string> model_b;  // absent: the model of a
  std::optional<std::string> data_path;
  bool is_json = false;
};
void declare(FlagSet& flags, KlArguments& arguments);
int run(const KlArguments& arguments);

}  // namespace tessera::cli
