#include "tessera/layers/linear.h"

#include <mlx/ops.h>

#include <utility>

#include "tessera/base/check.h"
#include "tessera/tensor/shape.h"

namespace tessera::layers {

namespace mx = mlx::core;

Linear::Linear(tensor::Weight weight, std::optional<mx::array> bias, std::shared_ptr<base::ThreadPool> pool)
    : matrix_(make_matrix(std::move(weight), std::move(pool), "layers.linear")), bias_(std::move(bias)) {
  if (bias_ && bias_->shape() != mx::Shape{out_features()}) {
    base::fail_argument("[layers.linear] bias of shape ", tensor::to_string(bias_->shape()), "; expected [",
                        out_features(), "]");
  }
}

mx::array Linear::forward(const mx::array& x) const {
  const mx::array y = multiply(x, matrix_);
  return bias_ ? mx::add(y, mx::astype(*bias_, y.dtype())) : y;
}

}  // namespace tessera::layers
