#include "tessera/layers/linear.h"

#include <mlx/ops.h>

#include <utility>

#include "tessera/base/check.h"
#include "tessera/kernels/matmul.h"
#include "tessera/tensor/shape.h"

namespace tessera::layers {

namespace mx = mlx::core;

Linear::Linear(tensor::Weight weight, std::optional<mx::array> bias, const kernels::Runtime& runtime)
    : matrix_(make_matrix(std::move(weight), runtime, "layers.linear")), bias_(std::move(bias)) {
  if (bias_ && bias_->shape() != mx::Shape{out_features()}) {
    base::fail_argument("[layers.linear] bias of shape ", tensor::to_string(bias_->shape()), "; expected [",
                        out_features(), "]");
  }
}

mx::array Linear::add_bias(mx::array y) const {
  return bias_ ? mx::add(y, mx::astype(*bias_, y.dtype())) : y;
}

mx::array Linear::forward(const mx::array& x, const std::optional<mx::array>& residual) const {
  return add_bias(multiply(x, matrix_, residual));
}

std::optional<kernels::Projection> Linear::projection() const {
  const auto* packed = std::get_if<kernels::PackedMatrix>(&matrix_);
  if (packed == nullptr) return std::nullopt;
  return kernels::Projection{*packed, bias_};
}

std::vector<mx::array> Linear::forward_together(const mx::array& x,
                                                const std::vector<const Linear*>& layers) {
  std::vector<kernels::PackedMatrix> packed;
  for (const Linear* layer : layers) {
    if (const auto* matrix = std::get_if<kernels::PackedMatrix>(&layer->matrix_)) packed.push_back(*matrix);
  }
  std::vector<mx::array> results;
  if (packed.size() == layers.size()) {
    results = kernels::packed_matmul(x, std::move(packed));
    for (std::size_t i = 0; i < layers.size(); ++i) results[i] = layers[i]->add_bias(results[i]);
  } else {
    for (const Linear* layer : layers) results.push_back(layer->forward(x));
  }
  return results;
}

}  // namespace tessera::layers
