#include "apps/cli/flags.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cmath>
#include <system_error>

#include "apps/cli/utf8.h"

namespace tessera::cli {
namespace {

std::string describe(Interval interval) {
  const bool has_min = std::isfinite(interval.min);
  const bool has_max = std::isfinite(interval.max);
  const char* at_least = interval.is_min_open ? "above" : "of at least";
  if (has_min && has_max) {
    return fmt::format("a number {} {} and at most {}", at_least, interval.min, interval.max);
  }
  if (has_min) return fmt::format("a number {} {}", at_least, interval.min);
  if (has_max) return fmt::format("a number of at most {}", interval.max);
  return "a number";
}

std::string describe(Range range) {
  const bool has_min = range.min != Range{}.min;
  const bool has_max = range.max != Range{}.max && range.max != std::numeric_limits<int>::max();
  if (has_min && has_max) return fmt::format("a whole number from {} to {}", range.min, range.max);
  if (has_min) return fmt::format("a whole number of at least {}", range.min);
  return "a whole number";
}

[[noreturn]] void refuse(const std::string& spelling, const std::string& expected, const std::string& value) {
  throw UsageError(fmt::format("{}: expected {}, got '{}'", spelling, expected, value));
}

template <typename T>
bool read_all(const std::string& value, T& number) {
  const char* end = value.data() + value.size();
  const auto [position, error] = std::from_chars(value.data(), end, number);
  return error == std::errc() && position == end;
}

Precision parse_precision(const std::string& spelling, const std::string& value) {
  for (const Precision precision :
       {Precision::kAuto, Precision::kFloat32, Precision::kBFloat16, Precision::kInt8}) {
    if (value == precision_name(precision)) return precision;
  }
  refuse(spelling, "auto, float32, bfloat16 or int8", value);
}

constexpr const char* kToggleValues = "no value, or =true or =false";

bool parse_toggle(const std::string& spelling, const std::string& value) {
  // CLI11 stores "true" for a bare flag and what follows "=" otherwise.
  if (value == "true") return true;
  if (value == "false") return false;
  refuse(spelling, kToggleValues, value);
}

std::string join_aliases(const Spellings& spellings) {
  std::string aliases;
  for (size_t i = 1; i < spellings.size(); ++i) {
    if (spellings[i].front() == '-') aliases += (aliases.empty() ? " (also " : ", ") + spellings[i];
  }
  return aliases.empty() ? aliases : aliases + ")";
}

}  // namespace

double parse_number(const std::string& spelling, const std::string& value, Interval interval) {
  double number = 0;
  const bool is_number = read_all(value, number) && std::isfinite(number);
  const bool is_below = number < interval.min || (interval.is_min_open && number == interval.min);
  if (!is_number || is_below || number > interval.max) refuse(spelling, describe(interval), value);
  return number;
}

int64_t parse_integer(const std::string& spelling, const std::string& value, Range range) {
  int64_t number = 0;
  if (!read_all(value, number) || number < range.min || number > range.max) {
    refuse(spelling, describe(range), value);
  }
  return number;
}

const char* precision_name(Precision precision) {
  switch (precision) {
    case Precision::kAuto: return "auto";
    case Precision::kFloat32: return "float32";
    case Precision::kBFloat16: return "bfloat16";
    case Precision::kInt8: return "int8";
  }
  return "auto";
}

std::function<FlagSet::Given()> FlagSet::declare(const Spellings& spellings, const std::string& type,
                                                 const std::string& help) {
  // Each spelling is an option of its own, so that a contradiction can name both; CLI11's own names of
  // one option forget which of them was typed.
  std::vector<std::pair<std::string, CLI::Option*>> options;
  for (size_t i = 0; i < spellings.size(); ++i) {
    const std::string& spelling = spellings[i];
    const std::string text = i == 0 ? help + join_aliases(spellings) : help;
    CLI::Option* option = type.empty()
                              ? app_.add_flag(spelling, text)
                              : app_.add_option(spelling, CLI::callback_t([](auto&) { return true; }), text);
    option->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
    if (!type.empty()) option->type_name(type);
    if (i > 0 && spelling.front() == '-') option->group("");  // out of the help: it stands beside the first
    options.emplace_back(spelling, option);
    all_spellings_.push_back(spelling);
  }
  return [options] {
    Given given;
    for (const auto& [spelling, option] : options) {
      for (const std::string& value : option->results()) given.emplace_back(spelling, value);
    }
    return given;
  };
}

template <typename T, typename Parse>
void FlagSet::add_single(const Spellings& spellings, const std::string& type, const std::string& help,
                         Parse parse, std::function<void(const T&)> write) {
  resolvers_.push_back([given_of = declare(spellings, type, help), parse, write] {
    const Given given = given_of();
    if (given.empty()) return;
    const auto& [first_spelling, first_value] = given.front();
    const T value = parse(first_spelling, first_value);
    for (const auto& [spelling, text] : given) {
      if (parse(spelling, text) == value) continue;
      throw UsageError(fmt::format("{} {} contradicts {} {}", spelling, text, first_spelling, first_value));
    }
    write(value);
  });
}

void FlagSet::text(const Spellings& spellings, std::string& target, const std::string& help) {
  add_single<std::string>(
      spellings, "TEXT", help, [](const std::string&, const std::string& value) { return value; },
      [&target](const std::string& value) { target = value; });
}

void FlagSet::text(const Spellings& spellings, std::optional<std::string>& target, const std::string& help) {
  add_single<std::string>(
      spellings, "TEXT", help, [](const std::string&, const std::string& value) { return value; },
      [&target](const std::string& value) { target = value; });
}

void FlagSet::number(const Spellings& spellings, double& target, Interval interval, const std::string& help) {
  add_single<double>(
      spellings, "NUMBER", fmt::format("{} [{}]", help, target),
      [interval](const std::string& spelling, const std::string& value) {
        return parse_number(spelling, value, interval);
      },
      [&target](const double& value) { target = value; });
}

void FlagSet::add_integer(const Spellings& spellings, Range range, const std::string& help,
                          std::function<void(const int64_t&)> write) {
  add_single<int64_t>(
      spellings, "N", help,
      [range](const std::string& spelling, const std::string& value) {
        return parse_integer(spelling, value, range);
      },
      std::move(write));
}

void FlagSet::integer(const Spellings& spellings, int& target, Range range, const std::string& help) {
  range.max = std::min<int64_t>(range.max, std::numeric_limits<int>::max());
  add_integer(spellings, range, fmt::format("{} [{}]", help, target),
              [&target](const int64_t& value) { target = static_cast<int>(value); });
}

void FlagSet::integer(const Spellings& spellings, int64_t& target, Range range, const std::string& help) {
  add_integer(spellings, range, fmt::format("{} [{}]", help, target),
              [&target](const int64_t& value) { target = value; });
}

void FlagSet::integer(const Spellings& spellings, std::optional<int64_t>& target, Range range,
                      const std::string& help) {
  add_integer(spellings, range, help, [&target](const int64_t& value) { target = value; });
}

void FlagSet::seed(const Spellings& spellings, std::optional<uint64_t>& target, const std::string& help) {
  add_single<uint64_t>(
      spellings, "N", help,
      [](const std::string& spelling, const std::string& value) {
        uint64_t number = 0;
        if (!read_all(value, number)) refuse(spelling, "a whole number from 0 to 2^64-1", value);
        return number;
      },
      [&target](const uint64_t& value) { target = value; });
}

void FlagSet::precision(const Spellings& spellings, Precision& target, const std::string& help) {
  add_single<Precision>(spellings, "NAME", help, parse_precision,
                        [&target](const Precision& value) { target = value; });
}

void FlagSet::toggle(const Spellings& spellings, bool& target, const std::string& help) {
  toggles_.insert(spellings.begin(), spellings.end());
  add_single<bool>(spellings, "", help, parse_toggle, [&target](const bool& value) { target = value; });
}

void FlagSet::texts(const Spellings& spellings, std::vector<std::string>& target, const std::string& help) {
  resolvers_.push_back([given_of = declare(spellings, "TEXT", help + "; repeatable"), &target] {
    for (const auto& [spelling, value] : given_of()) {
      if (value.empty() || !is_utf8(value)) refuse(spelling, "a text in UTF-8 that is not empty", value);
      target.push_back(value);
    }
  });
}

void FlagSet::biases(const Spellings& spellings, std::map<int32_t, double>& target, const std::string& help) {
  resolvers_.push_back([given_of = declare(spellings, "ID=VALUE", help + "; repeatable"), &target] {
    for (const auto& [spelling, text] : given_of()) {
      const size_t equals = text.find('=');
      if (equals == std::string::npos) refuse(spelling, "TOKEN_ID=VALUE", text);
      const int64_t id =
          parse_integer(spelling, text.substr(0, equals), {0, std::numeric_limits<int32_t>::max()});
      const double value = parse_number(spelling, text.substr(equals + 1), {});
      const auto [entry, is_new] = target.emplace(static_cast<int32_t>(id), value);
      if (!is_new && entry->second != value) {
        throw UsageError(
            fmt::format("{} {} contradicts {} {}={}", spelling, text, spelling, id, entry->second));
      }
    }
  });
}

void FlagSet::resolve() const {
  for (const auto& resolver : resolvers_) resolver();
}

bool FlagSet::is_toggle(const std::string& word) const { return toggles_.contains(word); }

bool FlagSet::takes_value(const std::string& word) const {
  return word.starts_with('-') && !is_toggle(word) &&
         std::find(all_spellings_.begin(), all_spellings_.end(), word) != all_spellings_.end();
}

bool parse_flags(CLI::App& app, const FlagSet& flags, int argc, const char* const* argv, std::string& help) {
  std::vector<std::string> words;
  bool is_value = false;       // this word is the value of the flag before it
  bool is_past_flags = false;  // after "--", words are no flags
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    words.push_back(word);
    if (is_value || is_past_flags) {
      is_value = false;
      continue;
    }
    is_past_flags = word == "--";
    is_value = flags.takes_value(word);
    if (!word.ends_with('=')) continue;
    // CLI11 takes the next word for the value of "--flag="; an empty value has to be a word of its own.
    const std::string flag = word.substr(0, word.size() - 1);
    if (flags.is_toggle(flag)) refuse(flag, kToggleValues, "");
    if (flags.takes_value(flag)) {
      words.back() = flag;
      words.emplace_back();
    }
  }
  std::reverse(words.begin(), words.end());  // the order that this overload of CLI11's parse expects
  try {
    app.parse(std::move(words));
  } catch (const CLI::CallForHelp&) {
    help = app.help();
    return false;
  } catch (const CLI::ParseError& error) {
    throw UsageError(error.what());
  }
  flags.resolve();
  return true;
}

void declare_model_name(FlagSet& flags, std::string& model, const std::string& positional) {
  Spellings spellings = {"--model"};
  if (!positional.empty()) spellings.push_back(positional);
  flags.text(spellings, model,
             "Model: a folder, a .gguf file, org/name in the Hugging Face cache, or 'default'");
}

void declare_model_flags(FlagSet& flags, ModelOptions& options) {
  declare_model_name(flags, options.model);
  flags.precision({"--dtype", "--precision"}, options.precision,
                  "Arithmetic: auto, float32, bfloat16 or int8 (docs/numerics.md)");
  flags.integer({"--threads"}, options.threads, {.min = 0, .max = kMaxThreads},
                "Worker threads; 0 = physical cores");
  flags.integer({"--context-length"}, options.context_length, {.min = 0},
                "Positions one sequence may hold; 0 = what the model was trained on");
  flags.integer({"--prefill-chunk-tokens", "--prefill-step-size"}, options.prefill_chunk_tokens, {.min = 0},
                "Prompt tokens per forward; 0 = the device's default");
}

void declare_sampling_flags(FlagSet& flags, SamplingOptions& options) {
  flags.number({"--temperature", "--temp"}, options.temperature, {.min = 0}, "Temperature; 0 = greedy");
  flags.number({"--top-p"}, options.top_p, {.min = 0, .max = 1, .is_min_open = true},
               "Keep the smallest set of tokens with this much probability");
  flags.integer({"--top-k"}, options.top_k, {.min = 0}, "Keep the N most likely tokens; 0 = all");
  flags.number({"--min-p"}, options.min_p, {.min = 0, .max = 1},
               "Drop tokens below this fraction of the likeliest one");
  flags.number({"--xtc-probability"}, options.xtc_probability, {.min = 0, .max = 1},
               "Chance of excluding the top choices of a step");
  flags.number({"--xtc-threshold"}, options.xtc_threshold, {.min = 0, .max = 0.5},
               "Probability from which XTC counts a token as a top choice");
  flags.number({"--repetition-penalty"}, options.repetition_penalty, {.min = 0.001, .max = 1000},
               "Weakens tokens seen before; 1 = off");
  flags.integer({"--repetition-context-size"}, options.repetition_context, {.min = 0},
                "Tokens the penalties look back; 0 = all");
  flags.number({"--presence-penalty"}, options.presence_penalty, {.min = -1e6, .max = 1e6},
               "Subtracted once from every seen token");
  flags.number({"--frequency-penalty"}, options.frequency_penalty, {.min = -1e6, .max = 1e6},
               "Subtracted from a seen token, once per occurrence");
  flags.biases({"--logit-bias"}, options.logit_bias, "Added to the logit of a token id");
  flags.seed({"--seed"}, options.seed, "Seed of the draws; absent = from the system");
}

void declare_generation_flags(FlagSet& flags, GenerationOptions& options) {
  flags.integer({"--max-tokens"}, options.max_tokens, {.min = 1}, "Most tokens to generate");
  flags.texts({"--stop"}, options.stop, "Text that ends the answer and is not part of it");
  flags.toggle({"--ignore-eos"}, options.ignore_eos, "Go on after end-of-sequence tokens");
  declare_sampling_flags(flags, options.sampling);
}

}  // namespace tessera::cli
