// Reading bytes as UTF-8 when some are wrong or have not arrived yet.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace tessera::text {

/// What stands at the start of some bytes.
enum class Utf8Kind {
  kCharacter,   // a whole character
  kInvalid,     // bytes that no continuation makes a character
  kIncomplete,  // the start of a character, cut off by the end of the bytes
};

struct Utf8Step {
  Utf8Kind kind;
  std::size_t size;  // bytes it takes; for kInvalid the maximal undecodable part, at least 1
};

/// Classifies the first character of `bytes`.
/// REQUIRES: `bytes` is not empty.
/// Source: Unicode 15, table 3-7 (well-formed byte sequences) and "Substitution of Maximal Subparts"
/// in section 3.9, which Python and Rust follow as well.
Utf8Step utf8_step(std::string_view bytes);

/// U+FFFD in UTF-8, which stands for undecodable bytes.
inline constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

/// Moves all of `pending` that can be read to the end of `out`, U+FFFD for what is invalid. An
/// incomplete character at the end stays in `pending`.
void move_utf8(std::string& pending, std::string& out);

}  // namespace tessera::text
