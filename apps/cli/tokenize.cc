// tokenize: text to token ids and back.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <string>
#include <vector>

#include "apps/cli/json.h"
#include "apps/cli/output.h"
#include "apps/cli/terminal.h"
#include "apps/cli/text_argument.h"
#include "apps/cli/verbs.h"
#include "tessera/model.h"
#include "tessera/tokenizer.h"

namespace tessera::cli {
namespace {

/// Ids separated by spaces, commas or brackets: what this verb prints, in either form.
std::vector<int32_t> parse_ids(const std::string& text) {
  constexpr const char* kSeparators = " ,[]\t\r\n";
  std::vector<int32_t> ids;
  size_t start = text.find_first_not_of(kSeparators);
  while (start != std::string::npos) {
    const size_t end = std::min(text.find_first_of(kSeparators, start), text.size());
    const Range range = {.min = 0, .max = std::numeric_limits<int32_t>::max()};
    ids.push_back(static_cast<int32_t>(parse_integer("token id", text.substr(start, end - start), range)));
    start = text.find_first_not_of(kSeparators, end);
  }
  return ids;
}

void print_ids(const std::vector<int32_t>& ids, const Tokenizer& tokenizer, bool is_json) {
  if (is_json) {
    Json json = {{"ids", ids}, {"tokens", Json::array()}};
    for (const int32_t id : ids) json["tokens"].push_back(tokenizer.decode(std::array{id}));
    write_output(dump_line(json));
    return;
  }
  write_output(fmt::format("{}\n", fmt::join(ids, " ")));
}

void print_tokens(const std::vector<int32_t>& ids, const Tokenizer& tokenizer) {
  for (const int32_t id : ids) {
    // As JSON strings: a token may be a line break.
    write_message(fmt::format("{:>8} {}", id, dump_line(tokenizer.decode(std::array{id}))));
  }
}

void print_text(const std::vector<int32_t>& ids, const Tokenizer& tokenizer,
                const TokenizeArguments& arguments) {
  const std::string text = tokenizer.decode(ids, {.skip_special_tokens = arguments.is_plain});
  if (arguments.is_json) {
    write_output(dump_line({{"text", text}}));
    return;
  }
  write_output(text);
  if (is_output_terminal() && !text.ends_with('\n')) write_output("\n");
}

}  // namespace

void declare(FlagSet& flags, TokenizeArguments& arguments) {
  flags.text({"--text", "text"}, arguments.text,
             "The text; '-' reads standard input. Also accepted as the first argument");
  flags.toggle({"--decode"}, arguments.is_decode, "The text holds token ids; print what they stand for");
  flags.toggle({"--no-special"}, arguments.is_plain,
               "Add no special tokens such as BOS; with --decode: do not show special tokens");
  flags.toggle({"--json"}, arguments.is_json, "Print one JSON object: ids and tokens, or text");
  flags.toggle({"--verbose"}, arguments.is_verbose, "List every token on stderr");
  declare_model_name(flags, arguments.model);
}

int run(const TokenizeArguments& arguments) {
  const std::string text = read_text_argument(arguments.text, "text");
  std::vector<int32_t> ids;
  if (arguments.is_decode) ids = parse_ids(text);
  const Tokenizer tokenizer = Tokenizer::load(tokenizer_source(arguments.model));
  for (const int32_t id : ids) {
    if (id >= tokenizer.vocab_size()) {
      throw UsageError(fmt::format("token id {}: expected below {}", id, tokenizer.vocab_size()));
    }
  }
  if (!arguments.is_decode) ids = tokenizer.encode(text, {.add_special_tokens = !arguments.is_plain});
  if (arguments.is_verbose) print_tokens(ids, tokenizer);
  if (arguments.is_decode) {
    print_text(ids, tokenizer, arguments);
  } else {
    print_ids(ids, tokenizer, arguments.is_json);
  }
  return 0;
}

}  // namespace tessera::cli
