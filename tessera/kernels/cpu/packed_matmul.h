// Products with a packed matrix on the CPU: what an implementation provides, and which ones there are.
#pragma once

#include <cstddef>
#include <span>

#include "tessera/kernels/packed_layout.h"

namespace tessera::kernels::cpu {

/// y = x W^T for tiles [first_tile, last_tile) of W.
struct PackedMatmulTask {
  PackedLayout layout;
  const std::byte* data;  // the packed matrix
  const float* x;         // [m, K], row-major
  const float* x_sums;    // [m, groups], sums of x over each group; absent for dense matrices
  float* y;               // [m, N], row-major; the task writes its tiles' columns
  int m;
  int first_tile, last_tile;
  float* scratch;  // [K * 16], for one tile's values
};

/// One way to compute it. The result of a tile does not depend on how tiles are divided into tasks.
struct PackedMatmulKernel {
  const char* name;        // of the target, as in `tessera inspect --kernels`
  bool (*is_supported)();  // by this processor
  void (*run)(const PackedMatmulTask& task);
};

/// All of them, the fastest first; the last one runs everywhere.
std::span<const PackedMatmulKernel> packed_matmul_kernels();

/// The kernel in use: the first supported one, unless a test forced another.
const PackedMatmulKernel& packed_matmul_kernel();

/// Forces an implementation by name until the object goes away. For tests and benchmarks.
/// Throws InvalidArgument for a name that is unknown or not supported here.
class ForcedPackedMatmul {
 public:
  explicit ForcedPackedMatmul(const char* name);
  ~ForcedPackedMatmul();
  ForcedPackedMatmul(const ForcedPackedMatmul&) = delete;
  ForcedPackedMatmul& operator=(const ForcedPackedMatmul&) = delete;

 private:
  const PackedMatmulKernel* previous_;
};

}  // namespace tessera::kernels::cpu
