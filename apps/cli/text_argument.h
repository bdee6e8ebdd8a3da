// Arguments of verbs that are a text or name a file with one; "-" is standard input.
#pragma once

#include <optional>
#include <string>

namespace tessera::cli {

/// The text of such an argument; "-" reads standard input to its end. Throws UsageError when it is
/// absent or empty; `what` names it, for example "prompt". Throws std::system_error when
/// standard input cannot be read.
std::string read_text_argument(const std::optional<std::string>& argument, const std::string& what);

/// The content of the file that `flag` names; "-" reads standard input to its end. Throws UsageError when
/// the path is absent or empty, std::system_error naming flag and path when the file cannot be read, and
/// Error(kInvalidArgument) when there is nothing in it.
std::string read_text_file(const std::optional<std::string>& path, const std::string& flag);

}  // namespace tessera::cli
