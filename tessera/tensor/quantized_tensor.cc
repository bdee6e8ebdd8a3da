#include "tessera/tensor/quantized_tensor.h"

#include <mlx/ops.h>

#include "tessera/base/check.h"
#include "tessera/tensor/shape.h"

namespace tessera::tensor {

namespace mx = mlx::core;

void validate(const QuantizedTensor& tensor, const std::string& where) {
  const auto refuse = [&](const std::string& what) { base::fail_argument("[", where, "] ", what); };
  if (tensor.w.dtype() != mx::uint32) refuse("quantized codes must be uint32");
  if (tensor.w.ndim() < 2 || tensor.scales.ndim() != tensor.w.ndim()) {
    refuse(base::concat("codes ", to_string(tensor.w.shape()), " and scales ",
                        to_string(tensor.scales.shape()), " must have the same rank of at least 2"));
  }
  if (tensor.group_size <= 0 || tensor.bits <= 0) refuse("bits and group_size must be positive");
  mx::Shape expected = tensor.w.shape();
  expected.back() = tensor.columns() / tensor.group_size;
  if (tensor.w.shape(-1) * 32 % tensor.bits != 0 || tensor.columns() % tensor.group_size != 0 ||
      tensor.scales.shape() != expected) {
    refuse(base::concat("scales of shape ", to_string(tensor.scales.shape()), " for codes ",
                        to_string(tensor.w.shape()), " of ", tensor.bits, " bits in groups of ",
                        tensor.group_size, "; expected ", to_string(expected)));
  }
  if (tensor.biases && tensor.biases->shape() != expected) {
    refuse(base::concat("biases of shape ", to_string(tensor.biases->shape()), "; expected ",
                        to_string(expected)));
  }
  if (tensor.mode == "affine" && !tensor.biases) refuse("affine quantization needs biases");
}

mx::array dequantize(const QuantizedTensor& tensor, mx::Dtype dtype) {
  if (tensor.mode != "affine") {
    return mx::dequantize(tensor.w, tensor.scales, tensor.biases, tensor.group_size, tensor.bits, tensor.mode,
                          std::nullopt, dtype);
  }
  return mx::dequantize(tensor.w, mx::astype(tensor.scales, dtype), mx::astype(*tensor.biases, dtype),
                        tensor.group_size, tensor.bits);
}

}  // namespace tessera::tensor
