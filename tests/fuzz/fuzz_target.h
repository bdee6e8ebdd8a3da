// What every fuzz target does with an input: the parser may succeed or throw one of the two errors
// that a damaged file deserves; anything else is a finding.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <string_view>

#include "tessera/error.h"

namespace tessera::fuzz {

template <typename Parse>
void run(const Parse& parse) {
  try {
    parse();
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kInvalidArtifact && error.kind() != ErrorKind::kUnsupported) std::abort();
  }
}

inline std::span<const std::byte> as_bytes(const uint8_t* data, std::size_t size) {
  return std::as_bytes(std::span(data, size));
}

inline std::string_view as_text(const uint8_t* data, std::size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

}  // namespace tessera::fuzz
