#include "tessera/layers/matrix.h"

#include <mlx/ops.h>

#include <utility>

#include "tessera/kernels/matmul.h"

namespace tessera::layers {

namespace mx = mlx::core;

Matrix make_matrix(tensor::Weight weight, const kernels::Runtime& runtime, const char* where) {
  if (const auto* quantized = std::get_if<tensor::QuantizedTensor>(&weight))
    tensor::validate(*quantized, where);
  if (runtime.pool && kernels::can_pack(weight)) return kernels::pack(weight, runtime);
  return weight;
}

mx::array multiply(const mx::array& x, const Matrix& matrix, const std::optional<mx::array>& residual) {
  if (const auto* packed = std::get_if<kernels::PackedMatrix>(&matrix))
    return kernels::packed_matmul(x, *packed, residual);
  const auto& weight = std::get<tensor::Weight>(matrix);
  const auto* dense = std::get_if<mx::array>(&weight);
  const mx::array y = dense ? kernels::matmul_transposed(x, *dense)
                            : kernels::quantized_matmul(x, std::get<tensor::QuantizedTensor>(weight));
  return residual ? mx::add(*residual, y) : y;
}

int matrix_rows(const Matrix& matrix) {
  if (const auto* packed = std::get_if<kernels::PackedMatrix>(&matrix)) return packed->layout.rows;
  return tensor::weight_rows(std::get<tensor::Weight>(matrix));
}

int matrix_columns(const Matrix& matrix) {
  if (const auto* packed = std::get_if<kernels::PackedMatrix>(&matrix)) return packed->layout.columns;
  return tensor::weight_columns(std::get<tensor::Weight>(matrix));
}

}  // namespace tessera::layers
