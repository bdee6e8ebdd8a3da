// Rows of an embedding table.
#pragma once

#include <mlx/array.h>

#include "tessera/kernels/packed_matrix.h"
#include "tessera/tensor/weight.h"

namespace tessera::kernels {

/// The rows of `table` that `ids` name; of a quantized table only those rows are dequantized.
/// ids [..] int32 in [0, V); table [V, E]; returns [.., E] in `dtype`.
/// REQUIRES: ids in range (not checked here: ids may be unevaluated; execution/ checks its input).
/// Source: spec of the reference system 1.6; MLX `take`, `dequantize`.
mlx::core::array embedding_rows(const mlx::core::array& ids, const tensor::Weight& table,
                                mlx::core::Dtype dtype);

/// The same from a packed table.
mlx::core::array embedding_rows(const mlx::core::array& ids, const PackedMatrix& table,
                                mlx::core::Dtype dtype);

}  // namespace tessera::kernels
