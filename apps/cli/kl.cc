// kl: the same text through two sides, and how far the second one's predictions are from the first one's.
#include <fmt/format.h>

#include <cmath>
#include <string>

#include "apps/cli/interrupt.h"
#include "apps/cli/json.h"
#include "apps/cli/output.h"
#include "apps/cli/statistics.h"
#include "apps/cli/terminal.h"
#include "apps/cli/text_argument.h"
#include "apps/cli/verbs.h"

namespace tessera::cli {
namespace {

constexpr const char* kDataFlag = "--data-path";

/// The options with what both sides share filled in.
KlOptions resolve(const KlArguments& arguments) {
  KlOptions options = arguments.options;
  options.b.model = arguments.model_b.value_or(options.a.model);
  options.b.threads = options.a.threads;
  options.text_name = fmt::format("{} {}", kDataFlag, arguments.data_path.value_or(""));
  return options;
}

/// JSON has no infinity: null, which `infinite_tokens` explains.
Json number(double value) { return std::isfinite(value) ? Json(value) : Json(); }

Json side_json(const ModelOptions& options, double perplexity) {
  return {{"model", options.model},
          {"dtype", precision_name(options.precision)},
          {"perplexity", number(perplexity)}};
}

Json report_json(const KlReport& report, const KlOptions& options) {
  return {{"a", side_json(options.a, report.perplexity_a)},
          {"b", side_json(options.b, report.perplexity_b)},
          {"ln_ratio", number(report.ln_ratio)},
          {"kl",
           {{"mean", number(report.kl_mean)},
            {"standard_error", number(report.kl_standard_error)},
            {"median", number(report.kl_median)},
            {"q90", number(report.kl_q90)},
            {"q95", number(report.kl_q95)},
            {"q99", number(report.kl_q99)},
            {"max", number(report.kl_max)}}},
          {"infinite_tokens", report.infinite_tokens},
          {"same_top", report.same_top},
          {"tokens", report.tokens},
          {"windows", report.windows},
          {"context", options.window_tokens},
          {"text_tokens", report.text_tokens},
          {"is_cancelled", report.is_cancelled},
          {"version", TESSERA_VERSION}};
}

std::string side_text(const char* name, const ModelOptions& options, double perplexity) {
  return fmt::format("{:<10} {}, dtype {}: perplexity {:.4f}\n", name, options.model,
                     precision_name(options.precision), perplexity);
}

std::string report_text(const KlReport& report, const KlOptions& options) {
  std::string text = side_text("A", options.a, report.perplexity_a);
  text += side_text("B", options.b, report.perplexity_b);
  text += fmt::format("{:<10} {:+.6f}\n", "ln(B/A)", report.ln_ratio);
  text += fmt::format("{:<10} {:.8f} +- {:.8f}\n", "KL(A||B)", report.kl_mean, report.kl_standard_error);
  const std::pair<const char*, double> rows[] = {{"median", report.kl_median},
                                                 {"q90", report.kl_q90},
                                                 {"q95", report.kl_q95},
                                                 {"q99", report.kl_q99},
                                                 {"max", report.kl_max}};
  for (const auto& [name, value] : rows) text += fmt::format("  {:<8} {:.8f}\n", name, value);
  if (report.infinite_tokens > 0)
    text += fmt::format("  {:<8} {} tokens\n", "infinite", report.infinite_tokens);
  text += fmt::format("{:<10} {:.2f} %\n", "same top", 100 * report.same_top);
  text += fmt::format("{:<10} {} in {} windows of {}\n", "tokens", report.tokens, report.windows,
                      options.window_tokens);
  return text;
}

}  // namespace

void declare(FlagSet& flags, KlArguments& arguments) {
  KlOptions& options = arguments.options;
  declare_model_name(flags, options.a.model, "model");
  flags.text({"--model-b", "model-b"}, arguments.model_b,
             "The side that is measured; absent: the same model. Also accepted as the second argument");
  flags.precision({"--dtype", "--precision"}, options.a.precision,
                  "Arithmetic of the reference: auto, float32, bfloat16 or int8");
  flags.precision({"--dtype-b", "--precision-b"}, options.b.precision,
                  "Arithmetic of the side that is measured");
  flags.text({kDataFlag}, arguments.data_path, "A file with the text; '-' reads standard input");
  flags.integer({"--context"}, options.window_tokens, {.min = 3},
                "Tokens of a window; what its second half predicts is scored");
  flags.integer({"--max-tokens"}, options.max_tokens, {.min = 0}, "Tokens of the text to use; 0 = all");
  flags.integer({"--threads"}, options.a.threads, {.min = 0, .max = kMaxThreads},
                "Worker threads; 0 = physical cores");
  flags.toggle({"--json"}, arguments.is_json, "Print one JSON object");
}

int run(const KlArguments& arguments) {
  const KlOptions options = resolve(arguments);
  if (options.max_tokens > 0 && options.max_tokens < options.window_tokens) {
    throw UsageError(fmt::format("--max-tokens: expected 0 or at least one --context of {}, got {}",
                                 options.window_tokens, options.max_tokens));
  }
  const std::string text = read_text_file(arguments.data_path, kDataFlag);
  fetch_default_model(options.a.model);
  fetch_default_model(options.b.model);

  KlReport report;
  {
    ProgressBar bar(ProgressUnit::kCount);
    const Interrupt interrupt;
    report = measure_kl(
        options, text,
        [&bar](const KlProgress& progress) {
          bar.update("windows", static_cast<uint64_t>(progress.windows_done),
                     static_cast<uint64_t>(progress.windows));
        },
        interrupt.token());
  }
  write_output(arguments.is_json ? dump_pretty(report_json(report, options)) : report_text(report, options));
  if (!report.is_cancelled) return 0;
  write_message(fmt::format("tessera: interrupted after {} windows\n", report.windows));
  return kInterruptedStatus;
}

}  // namespace tessera::cli
