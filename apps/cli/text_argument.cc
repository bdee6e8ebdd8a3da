#include "apps/cli/text_argument.h"

#include <fmt/format.h>

#include "apps/cli/flags.h"
#include "apps/cli/input.h"

namespace tessera::cli {

std::string read_text_argument(const std::optional<std::string>& argument, const std::string& what) {
  if (!argument) {
    throw UsageError(fmt::format("no {0}; give one as an argument, or '-' to read standard input", what));
  }
  std::string text = *argument;
  if (text == "-") text = Input().rest();
  if (text.empty()) throw UsageError(fmt::format("the {} is empty", what));
  return text;
}

}  // namespace tessera::cli
