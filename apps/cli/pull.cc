// pull: downloads a model and prints where it is.
#include "tessera/pull.h"

#include <fmt/format.h>

#include <optional>
#include <string>
#include <utility>

#include "apps/cli/interrupt.h"
#include "apps/cli/json.h"
#include "apps/cli/output.h"
#include "apps/cli/terminal.h"
#include "apps/cli/verbs.h"

namespace tessera::cli {
namespace {

void check(const PullArguments& arguments) {
  const std::pair<const char*, const std::optional<std::string>&> values[] = {
      {"--endpoint", arguments.endpoint}, {"--revision", arguments.revision}, {"--file", arguments.file}};
  for (const auto& [flag, value] : values) {
    if (!value) continue;
    if (value->empty()) throw UsageError(fmt::format("{} is empty", flag));
    if (arguments.name == "default") {
      throw UsageError(
          fmt::format("{} has no effect on 'default', which is one file of a Python package", flag));
    }
  }
}

}  // namespace

void declare(FlagSet& flags, PullArguments& arguments) {
  flags.text({"--model", "model"}, arguments.name,
             "What to download: org/name, or 'default'. Also accepted as the first argument");
  flags.text({"--endpoint"}, arguments.endpoint, "Base URL to download from");
  flags.text({"--revision"}, arguments.revision, "Branch, tag or commit");
  flags.text({"--file"}, arguments.file, "Name, or a part of it, of one GGUF file among several");
  flags.toggle({"--json"}, arguments.is_json, "Print one JSON object: model, path");
}

int run(const PullArguments& arguments) {
  if (!arguments.name || arguments.name->empty()) {
    throw UsageError("no model to pull; name one as org/name, or 'default'");
  }
  check(arguments);
  PullOptions options;
  options.endpoint = arguments.endpoint.value_or("");
  options.revision = arguments.revision.value_or(options.revision);
  options.file = arguments.file.value_or("");
  options.notice = [](const std::string& line) { write_message(line + "\n"); };
  std::string path;
  {
    ProgressBar bar;
    Interrupt interrupt;
    path = pull(
        *arguments.name, options,
        [&bar](const PullProgress& progress) {
          bar.update(progress.file, progress.done_bytes, progress.total_bytes);
        },
        interrupt.token());
  }
  write_output(arguments.is_json ? dump_line({{"model", *arguments.name}, {"path", path}}) : path + "\n");
  return 0;
}

}  // namespace tessera::cli
