#include "tessera/layers/linear.h"

#include <mlx/ops.h>

#include <utility>

#include "tessera/base/check.h"
#include "tessera/kernels/matmul.h"
#include "tessera/tensor/shape.h"

namespace tessera::layers {

namespace mx = mlx::core;

Linear::Linear(tensor::Weight weight, std::optional<mx::array> bias)
    : weight_(std::move(weight)), bias_(std::move(bias)) {
  if (const auto* quantized = std::get_if<tensor::QuantizedTensor>(&weight_)) {
    tensor::validate(*quantized, "layers.linear");
  }
  if (bias_ && bias_->shape() != mx::Shape{out_features()}) {
    base::fail_argument("[layers.linear] bias of shape ", tensor::to_string(bias_->shape()), "; expected [",
                        out_features(), "]");
  }
}

mx::array Linear::forward(const mx::array& x) const {
  const auto* dense = std::get_if<mx::array>(&weight_);
  const mx::array y = dense ? kernels::matmul_transposed(x, *dense)
                            : kernels::quantized_matmul(x, std::get<tensor::QuantizedTensor>(weight_));
  return bias_ ? mx::add(y, mx::astype(*bias_, y.dtype())) : y;
}

}  // namespace tessera::layers
