#include "apps/cli/utf8.h"

namespace tessera::cli {

size_t utf8_size(std::string_view text) {
  const auto byte = [&](size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0U; };
  const unsigned first = byte(0);
  if (!text.empty() && first < 0x80) return 1;
  const size_t size = first >= 0xC2 && first <= 0xDF   ? 2
                      : first >> 4 == 0xE              ? 3
                      : first >= 0xF0 && first <= 0xF4 ? 4
                                                       : 0;
  if (size == 0) return 0;
  // The second byte rules out overlong forms, surrogates and what lies beyond U+10FFFF.
  const unsigned least = first == 0xE0 ? 0xA0 : first == 0xF0 ? 0x90 : 0x80;
  const unsigned most = first == 0xED ? 0x9F : first == 0xF4 ? 0x8F : 0xBF;
  if (byte(1) < least || byte(1) > most) return 0;
  for (size_t i = 2; i < size; ++i) {
    if (byte(i) >> 6 != 2) return 0;
  }
  return size;
}

bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    const size_t size = utf8_size(text);
    if (size == 0) return false;
    text.remove_prefix(size);
  }
  return true;
}

}  // namespace tessera::cli
