#include "tessera/artifacts/quotes.h"

#include <cstddef>

namespace tessera::artifacts {

std::string in_quotes(std::string_view text) {
  constexpr std::size_t kLongest = 120;
  std::string out = "\"";
  for (const char c : text.substr(0, kLongest)) out.push_back(c >= ' ' && c <= '~' ? c : '?');
  if (text.size() > kLongest) out.append("...");
  out.push_back('"');
  return out;
}

}  // namespace tessera::artifacts
