#include "tessera/base/memory.h"

#if defined(__GLIBC__)
#include <malloc.h>
#endif

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <string>
#include <string_view>

namespace tessera::base {
namespace {

namespace fs = std::filesystem;

/// The number in a file that holds just one; absent for "max" or a missing file.
std::optional<uint64_t> number_in(const fs::path& path) {
  std::ifstream file(path);
  uint64_t value = 0;
  if (file >> value) return value;
  return std::nullopt;
}

std::optional<uint64_t> system_available(const fs::path& proc) {
  std::ifstream file(proc / "meminfo");
  std::string key;
  uint64_t kib = 0;
  std::string unit;
  while (file >> key >> kib) {
    std::getline(file, unit);
    if (key == "MemAvailable:") return kib * 1024;
  }
  return std::nullopt;
}

/// This process's group relative to the hierarchy's root: of the line "0::/a/b" that is "a/b". Empty
/// is the root itself, also for a group outside of what this namespace shows ("/../b").
fs::path own_group(const fs::path& proc) {
  constexpr std::string_view kUnified = "0::/";
  std::ifstream file(proc / "self" / "cgroup");
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with(kUnified)) continue;
    fs::path group = line.substr(kUnified.size());
    if (std::find(group.begin(), group.end(), "..") != group.end()) return {};
    return group.is_relative() ? group : fs::path();
  }
  return {};
}

/// Page cache that `group` is charged with. The kernel reclaims it before the limit bites.
uint64_t reclaimable_bytes(const fs::path& group) {
  std::ifstream file(group / "memory.stat");
  uint64_t sum = 0;
  std::string key;
  for (uint64_t bytes = 0; file >> key >> bytes;) {
    if (key == "inactive_file" || key == "active_file") sum += bytes;
  }
  return sum;
}

/// Room below the limit of one group; absent when it has none.
std::optional<uint64_t> room_in(const fs::path& group) {
  const auto limit = number_in(group / "memory.max");
  const auto charged = number_in(group / "memory.current");
  if (!limit || !charged) return std::nullopt;
  const uint64_t used = *charged - std::min(*charged, reclaimable_bytes(group));
  return *limit - std::min(*limit, used);
}

std::optional<uint64_t> smaller(std::optional<uint64_t> a, std::optional<uint64_t> b) {
  if (a && b) return std::min(*a, *b);
  return a ? a : b;
}

}  // namespace

std::optional<uint64_t> available_memory_bytes(const MemoryRoots& roots) {
  std::optional<uint64_t> available = system_available(roots.proc);
  // A charge counts in every group above as well, so each of their limits can be the one that bites.
  fs::path group = own_group(roots.proc);
  while (!group.empty()) {
    available = smaller(available, room_in(roots.cgroup / group));
    group = group.parent_path();
  }
  return smaller(available, room_in(roots.cgroup));
}

uint64_t peak_resident_bytes() {
  struct rusage usage {};
  ::getrusage(RUSAGE_SELF, &usage);
  return static_cast<uint64_t>(usage.ru_maxrss) * 1024;
}

uint64_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  uint64_t total = 0;
  uint64_t resident = 0;
  file >> total >> resident;
  return resident * static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
}

void release_free_memory() {
#if defined(__GLIBC__)
  ::malloc_trim(0);
#endif
}

}  // namespace tessera::base
