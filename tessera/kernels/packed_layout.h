// How a weight matrix lies in memory for our CPU kernels.
//
// Rows come in tiles of 16, a lane each. A tile walks along the columns in blocks; everything a kernel
// needs for a block lies together and is read front to back:
//   quantized  a block is one group: for every 32 columns `bits` words of 16 lanes (word c of the 32
//              codes of each row, packed low bits first as in MLX), then 16 scales, then 16 biases
//   dense      a block is one column: 16 elements
// Rows beyond the last are zero. Unpacking gives back the same bits.
#pragma once

#include <cstddef>
#include <cstdint>

// Files for single instruction sets include this: a copy of a function compiled for one of them must
// not serve the others.
#define TESSERA_ALWAYS_INLINE [[gnu::always_inline]]

namespace tessera::kernels {

/// Element types inside a packed matrix.
enum class PackedType : uint8_t { kFloat32, kFloat16, kBFloat16 };

/// Everything about a packed matrix but its bytes. Plain data, compared by primitives.
struct PackedLayout {
  static constexpr int kLanes = 16;

  int rows = 0;                            // N
  int columns = 0;                         // K
  int bits = 0;                            // of a code, 0 for dense
  int group_size = 0;                      // columns per scale, 0 for dense
  PackedType type = PackedType::kFloat32;  // of scales and biases, or of the elements

  bool operator==(const PackedLayout&) const = default;

  TESSERA_ALWAYS_INLINE bool is_quantized() const { return bits > 0; }
  TESSERA_ALWAYS_INLINE std::size_t type_bytes() const { return type == PackedType::kFloat32 ? 4 : 2; }
  TESSERA_ALWAYS_INLINE int tiles() const { return (rows + kLanes - 1) / kLanes; }
  TESSERA_ALWAYS_INLINE int groups() const { return is_quantized() ? columns / group_size : 0; }
  TESSERA_ALWAYS_INLINE std::size_t group_code_bytes() const {
    return static_cast<std::size_t>(group_size) * static_cast<std::size_t>(bits) / 8 * kLanes;
  }
  TESSERA_ALWAYS_INLINE std::size_t group_bytes() const {
    return group_code_bytes() + 2 * kLanes * type_bytes();
  }
  TESSERA_ALWAYS_INLINE std::size_t tile_bytes() const {
    return is_quantized() ? static_cast<std::size_t>(groups()) * group_bytes()
                          : static_cast<std::size_t>(columns) * kLanes * type_bytes();
  }
  TESSERA_ALWAYS_INLINE std::size_t bytes() const { return static_cast<std::size_t>(tiles()) * tile_bytes(); }
};

}  // namespace tessera::kernels
