// How much memory there is, and how much this process used.
#pragma once

#include <cstdint>
#include <optional>

namespace tessera::base {

/// Bytes that can be allocated without swapping: the system's available memory, and the room below
/// this process's control-group limit where one is set. Absent when the system does not say.
std::optional<uint64_t> available_memory_bytes();

/// The largest resident set this process had so far.
uint64_t peak_resident_bytes();

/// The resident set now.
uint64_t resident_bytes();

}  // namespace tessera::base
