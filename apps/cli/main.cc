// The command line program: a table of verbs, and the only place that turns errors into messages and
// exit statuses. 0 success, 1 run-time error, 2 usage error, 130 interrupted, 141 reader gone.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <exception>
#include <new>
#include <string>
#include <string_view>

#include "apps/cli/output.h"
#include "apps/cli/verbs.h"
#include "tessera/error.h"

namespace tessera::cli {
namespace {

constexpr int kRuntimeErrorStatus = 1;
constexpr int kUsageErrorStatus = 2;

struct Verb {
  const char* name;
  const char* summary;
  int (*run)(const Verb& verb, int argc, const char* const* argv);
};

/// Parses the flags of one verb and runs it.
template <typename Arguments>
int run_verb(const Verb& verb, int argc, const char* const* argv) {
  CLI::App app{verb.summary, fmt::format("tessera {}", verb.name)};
  FlagSet flags(app);
  Arguments arguments;
  declare(flags, arguments);
  std::string help;
  if (!parse_flags(app, flags, argc, argv, help)) {
    write_output(help);
    return 0;
  }
  return run(arguments);
}

constexpr Verb kVerbs[] = {
    {"generate", "Continue a prompt and print the continuation", run_verb<GenerateArguments>},
    {"chat", "Talk with a model", run_verb<ChatArguments>},
    {"inspect", "Describe a model from its files", run_verb<InspectArguments>},
    {"tokenize", "Show the token ids of a text, or the text of token ids", run_verb<TokenizeArguments>},
    {"pull", "Download a model", run_verb<PullArguments>},
    {"bench", "Measure prefill and decode speed", run_verb<BenchArguments>},
    {"kl", "Measure how far one side's predictions of a text are from another's", run_verb<KlArguments>},
};

std::string general_help() {
  std::string help = "Tessera " TESSERA_VERSION
                     ": an LLM inference engine on MLX\n\n"
                     "Usage: tessera COMMAND [OPTIONS]\n\nCommands:\n";
  for (const Verb& verb : kVerbs) help += fmt::format("  {:<10} {}\n", verb.name, verb.summary);
  help += "\ntessera COMMAND --help lists the options of a command; tessera --version prints the version.\n";
  return help;
}

int dispatch(int argc, const char* const* argv) {
  if (argc < 2) {
    write_message(general_help());
    return kUsageErrorStatus;
  }
  const std::string_view name = argv[1];
  if (name == "--help" || name == "-h" || name == "help") {
    write_output(general_help());
    return 0;
  }
  if (name == "--version") {
    write_output("tessera " TESSERA_VERSION "\n");
    return 0;
  }
  for (const Verb& verb : kVerbs) {
    if (name == verb.name) return verb.run(verb, argc - 1, argv + 1);
  }
  throw UsageError(fmt::format("unknown command '{}'; tessera --help lists the commands", name));
}

/// One line, whatever the text: scripts and people read the first line of an error.
int report(std::string_view message, int status) {
  write_message(fmt::format("tessera: {}\n", one_line(message)));
  return status;
}

}  // namespace
}  // namespace tessera::cli

int main(int argc, char** argv) {
  using namespace tessera::cli;
  open_standard_streams();
  ignore_closed_pipes();
  try {
    return dispatch(argc, argv);
  } catch (const ReaderGone&) {
    return kReaderGoneStatus;
  } catch (const UsageError& error) {
    return report(error.what(), kUsageErrorStatus);
  } catch (const tessera::Error& error) {
    const bool is_interrupted = error.kind() == tessera::ErrorKind::kCancelled;
    return report(error.what(), is_interrupted ? kInterruptedStatus : kRuntimeErrorStatus);
  } catch (const std::bad_alloc&) {
    return report("out of memory", kRuntimeErrorStatus);
  } catch (const std::exception& error) {
    return report(error.what(), kRuntimeErrorStatus);
  }
}
