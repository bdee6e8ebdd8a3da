// What this machine can do at best, measured beside every figure: on a shared machine memory bandwidth moves
// by a factor of two within minutes, so only the fraction of a ceiling seen at the same moment says something.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "tessera/base/thread_pool.h"

namespace tessera::bench {

/// What bounds an operation.
enum class Ceiling : uint8_t {
  kBandwidth,  // bytes per second that all threads read
  kFloat32,    // multiply-adds of float32
  kBFloat16,   // dot products of bfloat16 (vdpbf16ps)
  kInt8,       // dot products of 8-bit numbers (vpdpbusd)
};

const char* name_of(Ceiling ceiling);

/// The size of the last-level cache that one core sees, as the system tells it; 32 MiB when it does not.
std::size_t last_level_cache_bytes();

/// Bytes over which operands rotate so that no cache holds one when its turn comes.
inline std::size_t rotation_bytes() { return 4 * last_level_cache_bytes() + (std::size_t{8} << 20); }

/// Anonymous memory in huge pages, aligned to a cache line and with a line in front, zero at first.
class Memory {
 public:
  explicit Memory(std::size_t bytes);
  ~Memory();
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  std::byte* data() const;

 private:
  void* mapping_;
  std::size_t bytes_;
};

/// Measures ceilings with the threads of a pool.
class Ceilings {
 public:
  explicit Ceilings(std::shared_ptr<base::ThreadPool> pool);

  /// The best of a few passes, some milliseconds each: bytes per second, or operations per second (a
  /// multiply-add is two); 0 for instructions that the processor lacks.
  double measure(Ceiling ceiling) const;

 private:
  double read_bandwidth() const;
  double peak(Ceiling ceiling) const;

  std::shared_ptr<base::ThreadPool> pool_;
  std::size_t bytes_;
  Memory memory_;
};

/// One thread's loops, by instruction set (ceiling_loops.cc).
struct CeilingLoops {
  /// A word that depends on all of `bytes` bytes, a multiple of 1024, aligned to 64.
  uint64_t (*read)(const std::byte* data, std::size_t bytes);
  /// `steps` times so many operations; absent where the processor lacks the instruction.
  void (*run)(int64_t steps);
  int64_t operations_per_step;
};
CeilingLoops loops_of(Ceiling ceiling);

}  // namespace tessera::bench
