// A weight matrix in the layout that our CPU kernels read (packed_layout.h): the only copy of a weight
// in memory.
#pragma once

#include <mlx/array.h>

#include <memory>

#include "tessera/kernels/packed_layout.h"
#include "tessera/kernels/products.h"
#include "tessera/tensor/weight.h"

namespace tessera::kernels {

/// A packed matrix. Immutable; copying shares the bytes.
struct PackedMatrix {
  PackedLayout layout;
  mlx::core::array data;  // uint8 [layout.bytes()], aligned to a cache line
  Runtime runtime;        // its pool runs the kernels over it
};

/// Whether our kernels read `weight`: affine codes of 2, 3, 4, 5, 6 or 8 bits in groups that are a
/// multiple of 32 or dense floating point, columns a multiple of 32, evaluated memory of the CPU.
bool can_pack(const tensor::Weight& weight);

/// Packs on the pool's threads. Evaluates the weight. REQUIRES: can_pack(weight), a pool.
PackedMatrix pack(const tensor::Weight& weight, Runtime runtime);

/// The weight again, bit for bit. Evaluated.
tensor::Weight unpack(const PackedMatrix& matrix);

}  // namespace tessera::kernels
