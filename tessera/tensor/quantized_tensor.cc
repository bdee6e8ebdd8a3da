#include "tessera/tensor/quantized_tensor.h"

#include <mlx/ops.h>

#include <algorithm>
#include <limits>
#include <vector>

#include "tessera/base/check.h"
#include "tessera/tensor/shape.h"

namespace tessera::tensor {

namespace mx = mlx::core;

namespace {

/// What MLX computes with.
struct Mode {
  const char* name;
  std::vector<int> bits, group_sizes;
  bool has_biases;  // and floating-point scales; otherwise scales are bytes
};

const Mode& find_mode(const QuantizedTensor& tensor, const std::string& where) {
  static const Mode kModes[] = {
      {"affine", {2, 3, 4, 5, 6, 8}, {32, 64, 128}, true},
      {"mxfp4", {4}, {32}, false},
      {"mxfp8", {8}, {32}, false},
      {"nvfp4", {4}, {16}, false},
  };
  const auto has = [](const std::vector<int>& values, int value) {
    return std::find(values.begin(), values.end(), value) != values.end();
  };
  for (const Mode& mode : kModes) {
    if (tensor.mode != mode.name) continue;
    if (has(mode.bits, tensor.bits) && has(mode.group_sizes, tensor.group_size)) return mode;
    base::fail_unsupported("[", where, "] ", tensor.mode, " quantization with ", tensor.bits,
                           " bits in groups of ", tensor.group_size);
  }
  base::fail_unsupported("[", where, "] quantization mode '", tensor.mode, "'");
}

}  // namespace

void validate(const QuantizedTensor& tensor, const std::string& where) {
  const auto refuse = [&](const auto&... what) { base::fail_argument("[", where, "] ", what...); };
  const Mode& mode = find_mode(tensor, where);
  const mx::Shape& codes = tensor.w.shape();
  if (tensor.w.dtype() != mx::uint32)
    refuse("quantized codes are ", to_string(tensor.w.dtype()), "; expected uint32");
  if (codes.size() < 2 || tensor.w.size() == 0)
    refuse("codes of shape ", to_string(codes), "; expected a matrix");
  const int64_t columns = static_cast<int64_t>(codes.back()) * 32 / tensor.bits;
  if (static_cast<int64_t>(codes.back()) * 32 % tensor.bits != 0 || columns % tensor.group_size != 0 ||
      columns > std::numeric_limits<int>::max()) {
    refuse("codes of shape ", to_string(codes), " do not hold groups of ", tensor.group_size, " with ",
           tensor.bits, " bits");
  }
  mx::Shape expected = codes;
  expected.back() = static_cast<int>(columns / tensor.group_size);
  const auto check = [&](const char* name, const mx::array& values) {
    const bool has_type =
        mode.has_biases ? mx::issubdtype(values.dtype(), mx::floating) : values.dtype() == mx::uint8;
    if (values.shape() != expected || !has_type) {
      refuse(name, " of shape ", to_string(values.shape()), " in ", to_string(values.dtype()), "; expected ",
             to_string(expected), mode.has_biases ? " in floating point" : " in uint8");
    }
  };
  check("scales", tensor.scales);
  if (tensor.biases.has_value() != mode.has_biases) {
    refuse(tensor.mode, mode.has_biases ? " quantization needs biases" : " quantization has no biases");
  }
  if (tensor.biases) check("biases", *tensor.biases);
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
