// The instruction sets that the inner loops are compiled for, and which of them runs.
#pragma once

#include <cstddef>
#include <span>

namespace tessera::kernels::cpu {

struct PackedMatmulTask;
struct AttentionTask;

/// The loops of one instruction set.
struct Target {
  const char* name;        // "avx512", "avx2", "baseline"
  bool (*is_supported)();  // by this processor
  void (*packed_matmul)(const PackedMatmulTask& task);
  void (*attention)(const AttentionTask& task);
  /// One row of n elements, a multiple of 16; weight may be absent.
  void (*rms_norm)(const float* x, const float* weight, float eps, std::size_t n, float* out);
  void (*swiglu)(const float* gate, const float* up, std::size_t n, float* out);
};

/// All of them, the fastest first; the last one runs everywhere.
std::span<const Target> targets();

/// The one in use: the fastest this processor runs, unless a test forced another.
const Target& target();

/// Forces a target by name until the object goes away. For tests and benchmarks.
/// Throws InvalidArgument for a name that is unknown or not supported by this processor.
class ForcedTarget {
 public:
  explicit ForcedTarget(const char* name);
  ~ForcedTarget();
  ForcedTarget(const ForcedTarget&) = delete;
  ForcedTarget& operator=(const ForcedTarget&) = delete;

 private:
  const Target* previous_;
};

}  // namespace tessera::kernels::cpu
