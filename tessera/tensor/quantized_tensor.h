// The affine-quantized tensor of MLX: the exchange format of files, tests and references.
#pragma once

#include <mlx/array.h>

#include <optional>
#include <string>

namespace tessera::tensor {

/// A tensor of which groups of `group_size` neighbours along the last axis share a scale and a bias.
/// In mode "affine" element i of a row is scales[i / group_size] * code(i) + biases[i / group_size].
struct QuantizedTensor {
  mlx::core::array w;                      // [.., K * bits / 32] uint32, codes packed low bits first
  mlx::core::array scales;                 // [.., K / group_size]
  std::optional<mlx::core::array> biases;  // like scales; absent in the floating-point modes
  int group_size;
  int bits;
  std::string mode = "affine";  // affine, mxfp4, nvfp4, mxfp8

  /// Elements of the last axis, K.
  int columns() const { return static_cast<int>(static_cast<int64_t>(w.shape(-1)) * 32 / bits); }
};

/// Checks that w, scales and biases belong together and that MLX has this combination of mode, bits,
/// group size and dtypes. Throws InvalidArgument beginning with "[`where`]", naming the offending shape,
/// or Unsupported for a combination that cannot be computed.
void validate(const QuantizedTensor& tensor, const std::string& where);

/// The dense tensor [.., K] in `dtype`, rounded once from scale * code + bias computed in it.
mlx::core::array dequantize(const QuantizedTensor& tensor, mlx::core::Dtype dtype);

}  // namespace tessera::tensor
