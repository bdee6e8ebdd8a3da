// Names taken from untrusted files, made safe to stand in a one-line message.
#pragma once

#include <string>
#include <string_view>

namespace tessera::artifacts {

/// `text` in double quotes: at most 120 bytes of it, bytes outside printable ASCII as '?', so that
/// a hostile name can neither break the line nor flood the log.
std::string in_quotes(std::string_view text);

}  // namespace tessera::artifacts
