// Products with a packed matrix: what an implementation for one instruction set is handed.
#pragma once

#include <cstddef>

#include "tessera/kernels/packed_layout.h"
#include "tessera/kernels/products.h"

namespace tessera::kernels::cpu {

/// Rows of activations as a target's products read them, written by its prepare_rows. The format of the
/// values is the target's own; it depends on the layout's bits and group size and on the products.
struct Operand {
  std::byte* values;      // row r begins at r * row_bytes
  std::size_t row_bytes;  // 4 bytes per column: room for every format
  float* sums;            // [rows, groups]: sums of the rounded activations over each group
  float* scales;          // [rows, groups]: what a whole number stands for, with int8 products

  TESSERA_ALWAYS_INLINE Operand from_row(std::size_t row, std::size_t groups) const {
    return {values + row * row_bytes, row_bytes, sums + row * groups, scales + row * groups};
  }
};

/// Rounds rows of x [rows, K] and writes them as an operand.
struct PrepareTask {
  PackedLayout layout;
  Products products;
  const float* x;
  int rows;
  Operand operand;
};

/// y = x W^T (+ bias) (+ residual) for tiles [first_tile, last_tile) of W. The result of a tile does not
/// depend on how tiles are divided into tasks.
struct PackedMatmulTask {
  PackedLayout layout;
  Products products;
  const std::byte* data;  // the packed matrix
  Operand x;              // m rows, prepared for this layout and these products
  float* y;               // [m, N], row-major; the task writes its tiles' columns
  const float* bias;      // [N], or absent
  const float* residual;  // [m, N], or absent
  int m;
  int first_tile, last_tile;
  std::byte* scratch;  // matmul_scratch_bytes(), aligned to 64
};

/// Bytes of scratch memory that a task of m rows needs on any target.
std::size_t matmul_scratch_bytes(const PackedLayout& layout, int m);

/// Tiles that many-row products decode together; tasks begin at multiples of it.
inline constexpr int kStripTiles = 3;

/// What `products` means for a matrix: float16 and float32 values take no rounded activations.
TESSERA_ALWAYS_INLINE inline Products products_for(const PackedLayout& layout, Products products) {
  if (layout.is_quantized()) return products;
  const bool is_bfloat16 = layout.type == PackedType::kBFloat16;
  return is_bfloat16 && products != Products::kFloat32 ? Products::kBFloat16 : Products::kFloat32;
}

}  // namespace tessera::kernels::cpu
