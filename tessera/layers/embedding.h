// The token embedding, dense or quantized, and its use as a tied head.
#pragma once

#include <mlx/array.h>

#include "tessera/layers/matrix.h"

namespace tessera::layers {

/// A table [V, E]. Immutable; copying shares the arrays. Loading it by path is the models' business.
/// Source: spec of the reference system 1.6.
class Embedding {
 public:
  /// `dtype` is the dtype of encode()'s result. With a pool the table is packed for our kernels.
  Embedding(tensor::Weight table, mlx::core::Dtype dtype, const kernels::Runtime& runtime = {});

  /// ids [B, L] int32 -> rows [B, L, E]; of a quantized table only these rows are dequantized.
  mlx::core::array encode(const mlx::core::array& ids) const;

  /// The tied head: h [.., E] -> h table^T, [.., V].
  mlx::core::array as_linear(const mlx::core::array& h) const;

  int vocab_size() const { return matrix_rows(table_); }
  int hidden_size() const { return matrix_columns(table_); }

 private:
  Matrix table_;
  mlx::core::Dtype dtype_;
};

}  // namespace tessera::layers
