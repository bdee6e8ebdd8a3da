// How much memory there is, and how much this process used.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

namespace tessera::base {

/// Where the kernel shows its figures; a test builds trees of its own.
struct MemoryRoots {
  std::filesystem::path proc = "/proc";
  std::filesystem::path cgroup = "/sys/fs/cgroup";
};

/// Bytes that can be allocated without swapping: the system's available memory, and the room below
/// the limits of this process's control group and of the groups above it, page cache counted as room
/// because the kernel drops it first. Absent when the system does not say.
/// Only the unified hierarchy (version 2) is read; limits of a version 1 hierarchy are ignored.
std::optional<uint64_t> available_memory_bytes(const MemoryRoots& roots = {});

/// The largest resident set this process had so far.
uint64_t peak_resident_bytes();

/// The resident set now.
uint64_t resident_bytes();

/// Gives free memory of the allocator back to the system: worth its walk after something large was freed.
void release_free_memory();

}  // namespace tessera::base
