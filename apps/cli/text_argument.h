// The argument of a verb that is a text, or "-" for standard input.
#pragma once

#include <optional>
#include <string>

namespace tessera::cli {

/// The text of such an argument; "-" reads standard input to its end. Throws UsageError when it is
/// absent or empty; `what` names it, for example "prompt". Throws std::system_error when
/// standard input cannot be read.
std::string read_text_argument(const std::optional<std::string>& argument, const std::string& what);

}  // namespace tessera::cli
