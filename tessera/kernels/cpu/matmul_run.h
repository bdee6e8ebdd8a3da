// Products of prepared activations with packed matrices, cut into tasks.
#pragma once

#include <functional>
#include <vector>

#include "tessera/kernels/cpu/operand.h"
#include "tessera/kernels/packed_matrix.h"

namespace tessera::kernels::cpu {

/// One product of a run: y [m, N] = x W^T (+ bias) (+ residual).
struct Product {
  const PackedMatrix* matrix;
  Operand x;  // m rows, prepared for the matrix
  float* y;
  const float* bias = nullptr;      // [N]
  const float* residual = nullptr;  // [m, N]
};

/// Tiles [first, last) of a product, on the calling thread.
void multiply_tiles(const Product& product, int m, int first_tile, int last_tile);

/// Cuts a matrix's tiles at whole strips into a few pieces per thread, which even out the threads' speeds,
/// but no smaller than is worth a task. Results do not depend on where they are cut. `m` is the number of rows
/// that pass over it. Calls visit(first, last) for each.
void for_each_piece(const PackedLayout& layout, int m, int threads,
                    const std::function<void(int, int)>& visit);

/// All tiles of all products, in one run of the pool.
void multiply(base::ThreadPool& pool, const std::vector<Product>& products, int m);

}  // namespace tessera::kernels::cpu
