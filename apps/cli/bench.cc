// bench: prefill and decode speed of a model, with what they are measured against: the bytes a token
// has to read, and how fast this machine reads memory.
#include <fmt/format.h>

#include <algorithm>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "apps/cli/bandwidth.h"
#include "apps/cli/interrupt.h"
#include "apps/cli/output.h"
#include "apps/cli/result_json.h"
#include "apps/cli/statistics.h"
#include "apps/cli/terminal.h"
#include "apps/cli/verbs.h"
#include "tessera/engine.h"

namespace tessera::cli {
namespace {

// Larger than the last-level cache of any machine this runs on, small enough for all of them.
constexpr size_t kProbeBytes = size_t{512} << 20;
constexpr int kProbeRounds = 5;
constexpr uint64_t kPromptSeed = 20240607;
// The warm-up's prompt, shorter where the context is, and what it generates.
constexpr int64_t kWarmUpPrompt = 16;
constexpr int64_t kWarmUpTokens = 2;

struct Case {
  std::string name;                            // "prefill" or "decode"
  int64_t context = 0;                         // tokens in the context before the measured ones
  int64_t tokens = 0;                          // measured tokens
  double bytes_per_token = 0;                  // decode: weights and keys and values that one token reads
  std::vector<double> speeds;                  // tokens/s of each run, sorted
  std::vector<double> times_to_first_token_s;  // of each run, sorted
  uint64_t peak_memory_bytes = 0;
};

/// Of values sorted ascending, the upper one of two in the middle.
double median(const std::vector<double>& sorted) { return sorted[sorted.size() / 2]; }

/// Random ids: text would make the figure depend on the tokenizer. Every run has its own, so that
/// nothing remembered from an earlier run can serve it.
std::vector<int32_t> random_tokens(int64_t count, int64_t vocab_size, uint64_t run) {
  std::mt19937_64 random(kPromptSeed + run);
  std::vector<int32_t> tokens(static_cast<size_t>(count));
  for (int32_t& token : tokens) token = static_cast<int32_t>(random() % static_cast<uint64_t>(vocab_size));
  return tokens;
}

GenerationResult run_once(Engine& engine, int64_t prompt_tokens, int64_t max_tokens, uint64_t run,
                          std::stop_token cancel) {
  GenerationRequest request;
  request.tokens = random_tokens(prompt_tokens, engine.info().vocab_size, run);
  request.options.max_tokens = max_tokens;
  request.options.ignore_eos = true;
  request.options.sampling.seed = 0;
  GenerationResult result = engine.generate(request, {}, cancel);
  if (result.finish_reason == FinishReason::kCancelled) throw Error(ErrorKind::kCancelled, "interrupted");
  return result;
}

/// Weights that decoding one token reads, in memory: a lookup reads one row of the embedding, so the
/// table counts only when it is the head as well.
double weight_bytes_per_token(const ModelInfo& info) {
  double bytes = static_cast<double>(info.loaded_bytes);
  for (const TensorClassInfo& tensors : info.tensors) {
    if (tensors.tensor_class == "embedding" && !info.is_tied)
      bytes -= static_cast<double>(tensors.loaded_bytes);
  }
  return bytes;
}

Case measure(Engine& engine, const std::string& name, int64_t context, int64_t tokens, int64_t repeat,
             std::stop_token cancel) {
  const bool is_prefill = name == "prefill";
  Case result;
  result.name = name;
  result.context = context;
  result.tokens = tokens;
  for (int64_t i = 0; i < repeat; ++i) {
    // The first generated token comes from the prompt's forward, so n timed steps make n + 1 tokens.
    const GenerationResult run =
        is_prefill ? run_once(engine, tokens, 1, static_cast<uint64_t>(i), cancel)
                   : run_once(engine, context, tokens + 1, static_cast<uint64_t>(i), cancel);
    result.speeds.push_back(is_prefill ? run.timings.prompt_tokens_per_s
                                       : run.timings.generation_tokens_per_s);
    result.times_to_first_token_s.push_back(run.timings.time_to_first_token_s);
    result.peak_memory_bytes = run.timings.peak_memory_bytes;
  }
  std::sort(result.speeds.begin(), result.speeds.end());
  std::sort(result.times_to_first_token_s.begin(), result.times_to_first_token_s.end());
  if (!is_prefill) {
    const double mean_position = static_cast<double>(context) + static_cast<double>(tokens) / 2;
    result.bytes_per_token = weight_bytes_per_token(engine.info()) +
                             mean_position * static_cast<double>(engine.info().kv_bytes_per_token);
  }
  return result;
}

Json case_json(const Case& result, const BenchArguments& arguments, const Engine& engine, int probe_threads,
               double read_bandwidth) {
  Json json = {{"case", result.name},
               {"tokens_per_second", median(result.speeds)},
               {"min", result.speeds.front()},
               {"max", result.speeds.back()},
               {"repeat", arguments.repeat},
               {"tokens", result.tokens},
               {"context", result.context},
               {"time_to_first_token_s", median(result.times_to_first_token_s)},
               {"peak_memory_bytes", result.peak_memory_bytes},
               {"model", engine.info().name},
               {"parameters", engine.info().parameters},
               {"dtype", precision_name(arguments.model.precision)},
               {"threads", arguments.model.threads},
               {"probe_threads", probe_threads},
               {"read_gb_per_s", read_bandwidth / 1e9}};
  if (result.bytes_per_token > 0) {
    const double used = result.bytes_per_token * median(result.speeds);
    json["bytes_per_token"] = static_cast<uint64_t>(result.bytes_per_token);
    json["used_gb_per_s"] = used / 1e9;
    json["read_fraction"] = read_bandwidth > 0 ? used / read_bandwidth : 0.0;
  }
  json["version"] = TESSERA_VERSION;
  return json;
}

std::string table(const std::vector<Case>& cases, const BenchArguments& arguments, const Engine& engine,
                  int probe_threads, double read_bandwidth) {
  const std::string threads = arguments.model.threads == 0 ? "auto" : std::to_string(arguments.model.threads);
  std::string text = fmt::format(
      "{}: {:.1f} M parameters, {} in memory; dtype {}, threads {}, median of {}\n\n", engine.info().name,
      static_cast<double>(engine.info().parameters) / 1e6, human_bytes(engine.info().loaded_bytes),
      precision_name(arguments.model.precision), threads, arguments.repeat);
  text += fmt::format("{:<8} {:>8} {:>8} {:>10} {:>10} {:>10} {:>10} {:>9}\n", "case", "tokens", "context",
                      "tokens/s", "min", "max", "GB/s read", "of memory");
  for (const Case& result : cases) {
    const double used = result.bytes_per_token * median(result.speeds);
    const bool has_bytes = result.bytes_per_token > 0;
    text += fmt::format(
        "{:<8} {:>8} {:>8} {:>10.1f} {:>10.1f} {:>10.1f} {:>10} {:>9}\n", result.name, result.tokens,
        result.context, median(result.speeds), result.speeds.front(), result.speeds.back(),
        has_bytes ? fmt::format("{:.2f}", used / 1e9) : "-",
        has_bytes && read_bandwidth > 0 ? fmt::format("{:.0f} %", 100 * used / read_bandwidth) : "-");
  }
  text += fmt::format("\nmemory reads at {:.1f} GB/s with {} threads; peak memory {}\n", read_bandwidth / 1e9,
                      probe_threads, human_bytes(cases.back().peak_memory_bytes));
  return text;
}

void check_fits(const Engine& engine, int64_t positions, const std::string& what) {
  if (positions <= engine.context_length()) return;
  throw Error(ErrorKind::kInvalidArgument, fmt::format("{} need {} positions; the context holds {}", what,
                                                       positions, engine.context_length()));
}

}  // namespace

void declare(FlagSet& flags, BenchArguments& arguments) {
  flags.integer({"--prompt-tokens"}, arguments.prompt_tokens, {.min = 0},
                "Tokens of the prefill case; 0 leaves it out");
  flags.integer({"--generation-tokens"}, arguments.generation_tokens, {.min = 0},
                "Tokens of the decode case; 0 leaves it out");
  flags.integer({"--context"}, arguments.context, {.min = 0},
                "Tokens in the context before decoding; at least one is used");
  flags.integer({"--repeat", "--num-trials"}, arguments.repeat, {.min = 1, .max = 1000},
                "Runs per case; the median is reported");
  flags.toggle({"--json"}, arguments.is_json, "One JSON line per case instead of the table");
  declare_model_flags(flags, arguments.model);
}

int run(const BenchArguments& arguments) {
  if (arguments.prompt_tokens == 0 && arguments.generation_tokens == 0) {
    throw UsageError("nothing to measure: --prompt-tokens and --generation-tokens are both 0");
  }
  Engine engine = load_engine(arguments.model);
  const int64_t context = std::max<int64_t>(arguments.context, 1);  // a prompt has at least one token
  check_fits(engine, 1 + kWarmUpTokens, "one token of prompt and the warm-up's tokens");
  check_fits(engine, arguments.prompt_tokens, "--prompt-tokens");
  check_fits(engine, context + arguments.generation_tokens, "--context and --generation-tokens");

  Interrupt interrupt;
  const uint64_t warm_up_run = 1u << 20;  // touches every weight once, with tokens no run repeats
  const int64_t warm_up_prompt = std::min(kWarmUpPrompt, engine.context_length() - kWarmUpTokens);
  run_once(engine, warm_up_prompt, kWarmUpTokens, warm_up_run, interrupt.token());
  std::vector<Case> cases;
  if (arguments.prompt_tokens > 0) {
    cases.push_back(
        measure(engine, "prefill", 0, arguments.prompt_tokens, arguments.repeat, interrupt.token()));
  }
  if (arguments.generation_tokens > 0) {
    cases.push_back(
        measure(engine, "decode", context, arguments.generation_tokens, arguments.repeat, interrupt.token()));
  }

  // After the cases: the probe's buffer must not count in their peak memory.
  const int hardware_threads = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  const int probe_threads = arguments.model.threads > 0 ? arguments.model.threads : hardware_threads;
  const double read_bandwidth = measure_read_bandwidth(probe_threads, kProbeBytes, kProbeRounds);
  if (!arguments.is_json) {
    write_output(table(cases, arguments, engine, probe_threads, read_bandwidth));
    return 0;
  }
  for (const Case& result : cases) {
    write_output(dump_line(case_json(result, arguments, engine, probe_threads, read_bandwidth)));
  }
  return 0;
}

}  // namespace tessera::cli
