// What the program has to know about UTF-8: whether text from outside can be shown and matched.
#pragma once

#include <cstddef>
#include <string_view>

namespace tessera::cli {

/// Bytes of the character that `text` begins with; 0 when it begins with none that is well-formed.
/// Source: Unicode 15, table 3-7.
size_t utf8_size(std::string_view text);

/// Whether all of `text` is well-formed.
bool is_utf8(std::string_view text);

}  // namespace tessera::cli
