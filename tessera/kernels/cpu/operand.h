// Activations made ready for products with packed matrices.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "tessera/kernels/cpu/packed_matmul_task.h"
#include "tessera/kernels/cpu/scratch.h"
#include "tessera/kernels/packed_matrix.h"

namespace tessera::kernels::cpu {

/// Rows that are worth a task of their own.
inline constexpr int kRowsPerTask = 16;

/// Calls visit(first, count) for blocks of so many of m rows, a block per task.
void for_each_row_block(base::ThreadPool& pool, int m, const std::function<void(int, int)>& visit);

/// The operands of m rows for several matrices of K columns: one for each format that they read.
class OperandSet {
 public:
  OperandSet(const std::vector<const PackedMatrix*>& matrices, int m);

  /// Writes them from x [m, K], row-major, on the pool's threads when there is enough to do.
  void prepare(base::ThreadPool& pool, const float* x) const;
  /// Writes rows [first, first + count) from x [count, K] on the calling thread.
  void prepare_rows(int first, int count, const float* x) const;

  /// The operand for matrix number `index`.
  const Operand& of(std::size_t index) const { return operands_[formats_[index]]; }

 private:
  int m_;
  std::vector<PackedLayout> layouts_;  // of a matrix of each format
  std::vector<Products> products_;
  std::vector<Operand> operands_;
  std::vector<std::size_t> formats_;  // of each matrix
  std::vector<std::unique_ptr<Scratch>> memory_;
};

}  // namespace tessera::kernels::cpu
