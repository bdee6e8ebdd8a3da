// generate: one prompt, one answer. Standard output carries the continuation and nothing else.
#include <fmt/format.h>

#include <chrono>
#include <string>

#include "apps/cli/interrupt.h"
#include "apps/cli/output.h"
#include "apps/cli/result_json.h"
#include "apps/cli/statistics.h"
#include "apps/cli/terminal.h"
#include "apps/cli/text_argument.h"
#include "apps/cli/verbs.h"
#include "tessera/engine.h"

namespace tessera::cli {
namespace {

GenerationRequest make_request(const GenerateArguments& arguments) {
  GenerationRequest request;
  request.options = arguments.generation;
  request.options.sampling.logprobs = arguments.top_logprobs.has_value();
  request.options.sampling.top_logprobs = arguments.top_logprobs.value_or(0);
  const std::string prompt = read_text_argument(arguments.prompt, "prompt");
  if (arguments.is_raw) {
    request.prompt = prompt;
    return request;
  }
  if (arguments.system) request.messages.push_back({"system", *arguments.system});
  request.messages.push_back({"user", prompt});
  return request;
}

void check(const GenerateArguments& arguments) {
  if (arguments.is_raw && arguments.system) {
    throw UsageError("--system needs the chat template that --raw leaves out; put the text into the prompt");
  }
  if (arguments.top_logprobs && !arguments.is_json) throw UsageError("--logprobs needs --json");
}

void print_json(const GenerationResult& result, const Engine& engine, bool has_logprobs) {
  Json json = {{"text", result.text},
               {"finish_reason", finish_reason_name(result.finish_reason)},
               {"usage", to_json(result.usage)},
               {"timings", to_json(result.timings)},
               {"model", engine.info().name},
               {"seed", result.seed}};
  if (!result.stop_sequence.empty()) json["stop_sequence"] = result.stop_sequence;
  if (has_logprobs) json["logprobs"] = logprobs_json(result, engine.tokenizer());
  write_output(dump_line(json));
}

}  // namespace

void declare(FlagSet& flags, GenerateArguments& arguments) {
  flags.text({"--prompt", "-p", "prompt"}, arguments.prompt,
             "The prompt; '-' reads standard input. Also accepted as the first argument");
  flags.text({"--system", "--system-prompt"}, arguments.system, "System message");
  flags.toggle({"--raw", "--ignore-chat-template"}, arguments.is_raw,
               "Continue the prompt as it is, without the chat template");
  flags.toggle({"--json"}, arguments.is_json, "Print one JSON object: text, finish_reason, usage, timings");
  flags.toggle({"--verbose"}, arguments.is_verbose, "Print statistics to stderr");
  flags.integer({"--logprobs"}, arguments.top_logprobs, {.min = 0, .max = 20},
                "With --json: log-probability of each token and of the N likeliest ones");
  declare_model_flags(flags, arguments.model);
  declare_generation_flags(flags, arguments.generation);
}

int run(const GenerateArguments& arguments) {
  check(arguments);
  const GenerationRequest request = make_request(arguments);
  const auto load_start = std::chrono::steady_clock::now();
  Engine engine = load_engine(arguments.model);
  const std::chrono::duration<double> load_time = std::chrono::steady_clock::now() - load_start;
  if (!arguments.is_raw && engine.chat_template() == nullptr) {
    throw Error(ErrorKind::kUnsupported,
                "the model has no chat template; --raw continues the prompt as it is");
  }
  TokenCallback on_token;
  if (!arguments.is_json) on_token = [](const TokenEvent& event) { write_output(event.text); };

  // Only now: while the model loads, Ctrl-C simply ends the program.
  Interrupt interrupt;
  if (arguments.is_verbose) write_message(fmt::format("Load: {:.3f} s\n", load_time.count()));
  const GenerationResult result = engine.generate(request, on_token, interrupt.token());
  if (arguments.is_json) {
    print_json(result, engine, arguments.top_logprobs.has_value());
  } else if (is_output_terminal() && !result.text.ends_with('\n')) {
    // A pipe gets the text exactly; a terminal needs the shell's prompt on a new line.
    write_output("\n");
  }
  if (arguments.is_verbose) write_message(statistics_text(result));
  return result.finish_reason == FinishReason::kCancelled ? kInterruptedStatus : 0;
}

}  // namespace tessera::cli
