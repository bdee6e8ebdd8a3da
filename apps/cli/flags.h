// The flags of a verb: each has one or more spellings, is checked against its range before anything
// is loaded, and refuses spellings that contradict each other. The groups that several verbs share
// (model, sampling, generation) are declared here once; they fill the option structs of the text API.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "tessera/options.h"

namespace CLI {
class App;  // its header costs seconds per file; only flags.cc and main.cc need it
}

namespace tessera::cli {

/// What the user typed cannot be right: one line on stderr, exit status 2.
class UsageError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// The real numbers a flag accepts.
struct Interval {
  double min = -std::numeric_limits<double>::infinity();
  double max = std::numeric_limits<double>::infinity();
  bool is_min_open = false;  // min itself is refused
};

/// The whole numbers a flag accepts.
struct Range {
  int64_t min = std::numeric_limits<int64_t>::min();
  int64_t max = std::numeric_limits<int64_t>::max();
};

/// The spellings of one flag, the first one shown in the help and the others beside it. A name
/// without dashes is a positional argument.
using Spellings = std::vector<std::string>;

/// The flags of one verb. Declare them, let CLI11 parse, then call resolve(), which writes the
/// targets; a target whose flag is absent keeps its value, which the help of a number shows in brackets.
/// Targets must outlive the set.
class FlagSet {
 public:
  explicit FlagSet(CLI::App& app) : app_(app) {}
  FlagSet(const FlagSet&) = delete;
  FlagSet& operator=(const FlagSet&) = delete;

  void text(const Spellings& spellings, std::string& target, const std::string& help);
  void text(const Spellings& spellings, std::optional<std::string>& target, const std::string& help);
  void number(const Spellings& spellings, double& target, Interval interval, const std::string& help);
  void integer(const Spellings& spellings, int& target, Range range, const std::string& help);
  void integer(const Spellings& spellings, int64_t& target, Range range, const std::string& help);
  void integer(const Spellings& spellings, std::optional<int64_t>& target, Range range,
               const std::string& help);
  void seed(const Spellings& spellings, std::optional<uint64_t>& target, const std::string& help);
  void precision(const Spellings& spellings, Precision& target, const std::string& help);
  /// A flag without a value: present means true. "=true" and "=false" may follow.
  void toggle(const Spellings& spellings, bool& target, const std::string& help);
  /// Repeatable: every value is kept, in order. Each is valid UTF-8 and not empty.
  void texts(const Spellings& spellings, std::vector<std::string>& target, const std::string& help);
  /// Repeatable ID=VALUE; two values for one id contradict each other.
  void biases(const Spellings& spellings, std::map<int32_t, double>& target, const std::string& help);

  /// Writes the targets. Throws UsageError for a value out of range, or two values of one flag that
  /// differ, whichever spellings gave them.
  void resolve() const;

  /// Every spelling declared, for tests.
  const std::vector<std::string>& spellings() const { return all_spellings_; }
  /// Whether `word` is a spelling that begins with a dash and takes a value, or one that takes none.
  bool takes_value(const std::string& word) const;
  bool is_toggle(const std::string& word) const;

 private:
  /// What one spelling was given, in the order of the command line.
  using Given = std::vector<std::pair<std::string, std::string>>;  // spelling, value
  std::function<Given()> declare(const Spellings& spellings, const std::string& type,
                                 const std::string& help);
  void add_integer(const Spellings& spellings, Range range, const std::string& help,
                   std::function<void(const int64_t&)> write);
  template <typename T, typename Parse>
  void add_single(const Spellings& spellings, const std::string& type, const std::string& help, Parse parse,
                  std::function<void(const T&)> write);

  CLI::App& app_;
  std::vector<std::string> all_spellings_;
  std::set<std::string> toggles_;  // those of all_spellings_ without a value
  std::vector<std::function<void()>> resolvers_;
};

/// Parses the arguments of one verb (argv[0] is its name) and resolves the flags. Returns false when
/// help was asked for; `help` is then the text to print. Throws UsageError.
bool parse_flags(CLI::App& app, const FlagSet& flags, int argc, const char* const* argv, std::string& help);

/// Reads one number; `spelling` is named when it cannot be read or is out of range.
double parse_number(const std::string& spelling, const std::string& value, Interval interval);
int64_t parse_integer(const std::string& spelling, const std::string& value, Range range);

/// The name that --dtype has for a precision.
const char* precision_name(Precision precision);

/// --model alone. `positional` also accepts the model as the first argument, under that name.
void declare_model_name(FlagSet& flags, std::string& model, const std::string& positional = "");
/// --model, --dtype, --threads, --context-length, --prefill-chunk-tokens.
void declare_model_flags(FlagSet& flags, ModelOptions& options);
/// Temperature, truncation, penalties, seed.
void declare_sampling_flags(FlagSet& flags, SamplingOptions& options);
/// --max-tokens, --stop, --ignore-eos and the sampling flags.
void declare_generation_flags(FlagSet& flags, GenerationOptions& options);

}  // namespace tessera::cli
