#include "apps/cli/statistics.h"

#include <fmt/format.h>

#include "apps/cli/output.h"
#include "apps/cli/terminal.h"
#include "tessera/pull.h"

namespace tessera::cli {

std::string statistics_text(const GenerationResult& result) {
  const Timings& timings = result.timings;
  const std::string cached =
      result.usage.cached_tokens > 0 ? fmt::format(" ({} cached)", result.usage.cached_tokens) : "";
  std::string text = fmt::format("Prompt: {} tokens{}, {:.1f} tokens/s\n", result.usage.prompt_tokens, cached,
                                 timings.prompt_tokens_per_s);
  text += fmt::format("Generation: {} tokens, {:.1f} tokens/s\n", result.usage.completion_tokens,
                      timings.generation_tokens_per_s);
  text += fmt::format("Time to first token: {:.3f} s\n", timings.time_to_first_token_s);
  text += fmt::format("Peak memory: {}\n", human_bytes(timings.peak_memory_bytes));
  text += fmt::format("Finish reason: {}; seed: {}\n", finish_reason_name(result.finish_reason), result.seed);
  return text;
}

void fetch_default_model(const std::string& model) {
  if (model != "default") return;
  PullOptions options;
  options.notice = [](const std::string& line) { write_message(line + "\n"); };
  pull(model, options);
}

Engine load_engine(const ModelOptions& options) {
  fetch_default_model(options.model);
  return Engine(options);
}

}  // namespace tessera::cli
