// Products with a packed matrix: what an implementation for one instruction set is handed.
#pragma once

#include <cstddef>

#include "tessera/kernels/packed_layout.h"

namespace tessera::kernels::cpu {

/// y = x W^T for tiles [first_tile, last_tile) of W. The result of a tile does not depend on how tiles are
/// divided into tasks.
struct PackedMatmulTask {
  PackedLayout layout;
  const std::byte* data;  // the packed matrix
  const float* x;         // [m, K], row-major
  const float* x_sums;    // [m, groups], sums of x over each group; absent for dense matrices
  float* y;               // [m, N], row-major; the task writes its tiles' columns
  int m;
  int first_tile, last_tile;
  float* scratch;  // [K * 16], for one tile's values; absent when m is 1
};

}  // namespace tessera::kernels::cpu
