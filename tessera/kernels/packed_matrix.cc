#include "tessera/kernels/packed_matrix.h"

#include <mlx/allocator.h>
#include <mlx/ops.h>
#include <mlx/transforms.h>

#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "tessera/base/check.h"
#include "tessera/kernels/weight_memory.h"
#include "tessera/tensor/allocate.h"
#include "tessera/tensor/external_array.h"

namespace tessera::kernels {
namespace {

namespace mx = mlx::core;

constexpr int kLanes = PackedLayout::kLanes;

mx::Dtype dtype_of(PackedType type) {
  switch (type) {
    case PackedType::kFloat32: return mx::float32;
    case PackedType::kFloat16: return mx::float16;
    case PackedType::kBFloat16: return mx::bfloat16;
  }
  return mx::float32;
}

std::optional<PackedType> packed_type(mx::Dtype dtype) {
  if (dtype == mx::float32) return PackedType::kFloat32;
  if (dtype == mx::float16) return PackedType::kFloat16;
  if (dtype == mx::bfloat16) return PackedType::kBFloat16;
  return std::nullopt;
}

mx::array evaluated(const mx::array& x) {
  mx::array result = mx::contiguous(x);
  mx::eval(result);
  return result;
}

/// Moves one row's part of every block between rows and lanes; `to_tile` says in which direction.
template <typename Row, typename Tile, typename Copy>
void walk_row(const PackedLayout& layout, Row* words, Row* scales, Row* biases, Tile* tile, int lane,
              const Copy& copy) {
  const std::size_t item = layout.type_bytes();
  if (!layout.is_quantized()) {
    for (int column = 0; column < layout.columns; ++column) {
      copy(tile + (static_cast<std::size_t>(column) * kLanes + static_cast<std::size_t>(lane)) * item,
           words + static_cast<std::size_t>(column) * item, item);
    }
    return;
  }
  const int words_per_group = layout.group_size * layout.bits / 32;
  for (int group = 0; group < layout.groups(); ++group, tile += layout.group_bytes()) {
    for (int word = 0; word < words_per_group; ++word) {
      copy(tile + (static_cast<std::size_t>(word) * kLanes + static_cast<std::size_t>(lane)) * 4,
           words + static_cast<std::size_t>(group * words_per_group + word) * 4, std::size_t{4});
    }
    Tile* scale = tile + layout.group_code_bytes() + static_cast<std::size_t>(lane) * item;
    copy(scale, scales + static_cast<std::size_t>(group) * item, item);
    copy(scale + kLanes * item, biases + static_cast<std::size_t>(group) * item, item);
  }
}

/// Calls visit(row, tile pointer, lane) for all rows, a tile per task.
template <typename Tile, typename Visit>
void for_each_row(const PackedLayout& layout, Tile* data, base::ThreadPool& pool, const Visit& visit) {
  pool.run(layout.tiles(), [&](int tile) {
    for (int lane = 0; lane < kLanes && tile * kLanes + lane < layout.rows; ++lane) {
      visit(static_cast<std::size_t>(tile * kLanes + lane),
            data + static_cast<std::size_t>(tile) * layout.tile_bytes(), lane);
    }
  });
}

struct RowBytes {
  std::size_t words, scales;
};

RowBytes row_bytes(const PackedLayout& layout) {
  if (!layout.is_quantized()) return {static_cast<std::size_t>(layout.columns) * layout.type_bytes(), 0};
  return {static_cast<std::size_t>(layout.columns) * static_cast<std::size_t>(layout.bits) / 8,
          static_cast<std::size_t>(layout.groups()) * layout.type_bytes()};
}

PackedLayout layout_of(const tensor::Weight& weight) {
  PackedLayout layout{.rows = tensor::weight_rows(weight), .columns = tensor::weight_columns(weight)};
  if (const auto* dense = std::get_if<mx::array>(&weight)) {
    layout.type = *packed_type(dense->dtype());
  } else {
    const auto& quantized = std::get<tensor::QuantizedTensor>(weight);
    layout.bits = quantized.bits;
    layout.group_size = quantized.group_size;
    layout.type = *packed_type(quantized.scales.dtype());
  }
  return layout;
}

}  // namespace

bool can_pack(const tensor::Weight& weight) {
  if (mx::default_device() != mx::Device::cpu) return false;
  if (tensor::weight_columns(weight) % 32 != 0 || tensor::weight_rows(weight) == 0) return false;
  if (const auto* dense = std::get_if<mx::array>(&weight)) {
    return dense->ndim() == 2 && packed_type(dense->dtype()).has_value();
  }
  const auto& quantized = std::get<tensor::QuantizedTensor>(weight);
  const bool has_bits = quantized.bits == 2 || quantized.bits == 3 || quantized.bits == 4 ||
                        quantized.bits == 5 || quantized.bits == 6 || quantized.bits == 8;
  return quantized.mode == "affine" && has_bits && quantized.group_size % 32 == 0 &&
         quantized.w.ndim() == 2 && packed_type(quantized.scales.dtype()).has_value() &&
         quantized.biases->dtype() == quantized.scales.dtype();
}

PackedMatrix pack(const tensor::Weight& weight, Runtime runtime) {
  TESSERA_CHECK(can_pack(weight) && runtime.pool);
  const PackedLayout layout = layout_of(weight);
  if (!runtime.weights) runtime.weights = std::make_shared<WeightMemory>();
  const std::shared_ptr<std::byte> memory = runtime.weights->allocate(layout.bytes());
  const RowBytes row = row_bytes(layout);
  std::vector<mx::array> sources;
  if (const auto* dense = std::get_if<mx::array>(&weight)) {
    sources = {evaluated(*dense)};
  } else {
    const auto& quantized = std::get<tensor::QuantizedTensor>(weight);
    sources = {evaluated(quantized.w), evaluated(quantized.scales), evaluated(*quantized.biases)};
  }
  const auto source = [&](std::size_t i) {
    return i < sources.size() ? sources[i].data<std::byte>() : nullptr;
  };
  const std::byte* words = source(0);
  const std::byte* scales = source(1);
  const std::byte* biases = source(2);
  for_each_row(layout, memory.get(), *runtime.pool, [&](std::size_t r, std::byte* tile, int lane) {
    walk_row(layout, words + r * row.words, scales + r * row.scales, biases + r * row.scales, tile, lane,
             [](std::byte* to, const std::byte* from, std::size_t n) { std::memcpy(to, from, n); });
  });
  return {layout, tensor::external_array(memory.get(), {static_cast<int>(layout.bytes())}, mx::uint8, memory),
          std::move(runtime)};
}

tensor::Weight unpack(const PackedMatrix& matrix) {
  const PackedLayout& layout = matrix.layout;
  const RowBytes row = row_bytes(layout);
  const auto rows = static_cast<std::size_t>(layout.rows);
  mx::allocator::Data words = tensor::allocate(rows * row.words);
  mx::allocator::Data scales = tensor::allocate(rows * row.scales);
  mx::allocator::Data biases = tensor::allocate(rows * row.scales);
  const auto bytes = [](mx::allocator::Data& data) {
    return static_cast<std::byte*>(data.buffer().raw_ptr());
  };
  std::byte* w = bytes(words);
  std::byte* s = bytes(scales);
  std::byte* b = bytes(biases);
  for_each_row(layout, matrix.data.data<std::byte>(), *matrix.runtime.pool,
               [&](std::size_t r, const std::byte* tile, int lane) {
                 walk_row(
                     layout, w + r * row.words, s + r * row.scales, b + r * row.scales, tile, lane,
                     [](const std::byte* from, std::byte* to, std::size_t n) { std::memcpy(to, from, n); });
               });
  if (!layout.is_quantized()) {
    return mx::array(std::move(words), {layout.rows, layout.columns}, dtype_of(layout.type));
  }
  const mx::Shape scale_shape{layout.rows, layout.groups()};
  return tensor::QuantizedTensor{
      mx::array(std::move(words), {layout.rows, layout.columns * layout.bits / 32}, mx::uint32),
      mx::array(std::move(scales), scale_shape, dtype_of(layout.type)),
      mx::array(std::move(biases), scale_shape, dtype_of(layout.type)), layout.group_size, layout.bits};
}

}  // namespace tessera::kernels
