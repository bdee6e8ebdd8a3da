#include "tessera/text/utf8.h"

#include <cstdint>

namespace tessera::text {

Utf8Step utf8_step(std::string_view bytes) {
  const auto at = [&](std::size_t i) { return static_cast<uint8_t>(bytes[i]); };
  const uint8_t lead = at(0);
  if (lead < 0x80) {
    return {Utf8Kind::kCharacter, 1};
  }
  // The second byte's range depends on the lead: it excludes overlong forms, surrogates and what
  // lies beyond U+10FFFF. All later bytes are 80..BF.
  std::size_t length = 0;
  uint8_t low = 0x80;
  uint8_t high = 0xBF;
  if (lead >= 0xC2 && lead <= 0xDF) {
    length = 2;
  } else if (lead >= 0xE0 && lead <= 0xEF) {
    length = 3;
    if (lead == 0xE0) low = 0xA0;
    if (lead == 0xED) high = 0x9F;
  } else if (lead >= 0xF0 && lead <= 0xF4) {
    length = 4;
    if (lead == 0xF0) low = 0x90;
    if (lead == 0xF4) high = 0x8F;
  } else {
    return {Utf8Kind::kInvalid, 1};
  }
  for (std::size_t i = 1; i < length; ++i) {
    if (i == bytes.size()) {
      return {Utf8Kind::kIncomplete, i};
    }
    if (at(i) < low || at(i) > high) {
      return {Utf8Kind::kInvalid, i};
    }
    low = 0x80;
    high = 0xBF;
  }
  return {Utf8Kind::kCharacter, length};
}

void move_utf8(std::string& pending, std::string& out) {
  std::string_view rest = pending;
  while (!rest.empty()) {
    const Utf8Step step = utf8_step(rest);
    if (step.kind == Utf8Kind::kIncomplete) {
      break;
    }
    out += step.kind == Utf8Kind::kCharacter ? rest.substr(0, step.size) : kReplacement;
    rest.remove_prefix(step.size);
  }
  pending.erase(0, pending.size() - rest.size());
}

}  // namespace tessera::text
