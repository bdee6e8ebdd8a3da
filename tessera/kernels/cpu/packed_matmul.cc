// The primitives over packed matrices.
#include "tessera/kernels/cpu/packed_primitives.h"

#include <mlx/ops.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "tessera/base/check.h"
#include "tessera/kernels/cpu/matmul_run.h"
#include "tessera/kernels/cpu/primitive.h"
#include "tessera/kernels/cpu/targets.h"
#include "tessera/kernels/reference/matmul.h"

namespace tessera::kernels::cpu {
namespace {

namespace mx = mlx::core;

class PackedMatmul final : public CpuPrimitive {
 public:
  PackedMatmul(mx::Stream stream, std::vector<PackedMatrix> matrices)
      : CpuPrimitive(stream), matrices_(std::move(matrices)) {}
  const char* name() const override { return "tessera::PackedMatmul"; }

  bool is_equivalent(const mx::Primitive& other) const override {
    const auto& same = static_cast<const PackedMatmul&>(other).matrices_;
    return std::equal(matrices_.begin(), matrices_.end(), same.begin(), same.end(),
                      [](const PackedMatrix& a, const PackedMatrix& b) {
                        return a.layout == b.layout && a.data.id() == b.data.id() &&
                               a.runtime.products == b.runtime.products;
                      });
  }

  std::vector<mx::Shape> output_shapes(const std::vector<mx::array>& inputs) override {
    std::vector<mx::Shape> shapes(matrices_.size(), inputs[0].shape());
    for (std::size_t i = 0; i < shapes.size(); ++i) shapes[i].back() = matrices_[i].layout.rows;
    return shapes;
  }

  void eval_cpu(const std::vector<mx::array>& inputs, std::vector<mx::array>& outputs) override {
    std::vector<float*> results;
    for (mx::array& output : outputs) {
      allocate(output);
      results.push_back(output.data<float>());
    }
    const auto columns = static_cast<std::size_t>(matrices_.front().layout.columns);
    const int m = static_cast<int>(inputs[0].size() / columns);
    const auto residual = inputs.size() > 1 ? std::optional(RowMajor(inputs[1])) : std::nullopt;
    auto& encoder = mx::cpu::get_command_encoder(stream());
    encoder.dispatch([matrices = matrices_, x = RowMajor(inputs[0]), residual, m, results]() {
      std::vector<float> storage, residual_storage;
      base::ThreadPool& pool = *matrices.front().runtime.pool;
      std::vector<const PackedMatrix*> pointers;
      for (const PackedMatrix& matrix : matrices) pointers.push_back(&matrix);
      const OperandSet operands(pointers, m);
      operands.prepare(pool, x.get(storage));
      std::vector<Product> products;
      for (std::size_t i = 0; i < matrices.size(); ++i) {
        products.push_back({.matrix = &matrices[i],
                            .x = operands.of(i),
                            .y = results[i],
                            .residual = residual ? residual->get(residual_storage) : nullptr});
      }
      multiply(pool, products, m);
    });
  }

  std::vector<mx::array> vjp(const std::vector<mx::array>&, const std::vector<mx::array>& cotangents,
                             const std::vector<int>& argnums, const std::vector<mx::array>&) override {
    mx::array gradient = reference::matmul_untransposed(cotangents[0], unpack(matrices_[0]));
    for (std::size_t i = 1; i < matrices_.size(); ++i) {
      gradient = mx::add(gradient, reference::matmul_untransposed(cotangents[i], unpack(matrices_[i])));
    }
    return select({gradient, cotangents[0]}, argnums);
  }

 private:
  std::vector<PackedMatrix> matrices_;
};

/// One row of a packed matrix in float32.
void decode_row(const PackedLayout& layout, const std::byte* data, int row, float* out) {
  const auto lane = static_cast<std::size_t>(row % PackedLayout::kLanes);
  const std::byte* tile = data + static_cast<std::size_t>(row / PackedLayout::kLanes) * layout.tile_bytes();
  const auto value_at = [&](const std::byte* lanes) {
    const std::byte* at = lanes + lane * layout.type_bytes();
    if (layout.type == PackedType::kFloat32) {
      float value;
      std::memcpy(&value, at, sizeof value);
      return value;
    }
    if (layout.type == PackedType::kFloat16) {
      mx::float16_t value;
      std::memcpy(&value, at, sizeof value);
      return static_cast<float>(value);
    }
    mx::bfloat16_t value;
    std::memcpy(&value, at, sizeof value);
    return static_cast<float>(value);
  };
  if (!layout.is_quantized()) {
    for (int column = 0; column < layout.columns; ++column) {
      out[column] =
          value_at(tile + static_cast<std::size_t>(column) * PackedLayout::kLanes * layout.type_bytes());
    }
    return;
  }
  const uint64_t mask = (1ULL << layout.bits) - 1;
  for (int group = 0; group < layout.groups(); ++group, tile += layout.group_bytes()) {
    const std::byte* constants = tile + layout.group_code_bytes();
    const float scale = value_at(constants);
    const float bias = value_at(constants + PackedLayout::kLanes * layout.type_bytes());
    const auto word_at = [&](int word) {
      uint32_t value;
      std::memcpy(&value, tile + (static_cast<std::size_t>(word) * PackedLayout::kLanes + lane) * 4,
                  sizeof value);
      return static_cast<uint64_t>(value);
    };
    const int last_word = layout.group_size * layout.bits / 32 - 1;
    for (int i = 0; i < layout.group_size; ++i) {
      const int bit = i * layout.bits;
      const uint64_t pair = word_at(bit / 32) | (bit / 32 < last_word ? word_at(bit / 32 + 1) << 32 : 0);
      *out++ = scale * static_cast<float>((pair >> (bit % 32)) & mask) + bias;
    }
  }
}

class PackedRows final : public CpuPrimitive {
 public:
  PackedRows(mx::Stream stream, PackedMatrix matrix) : CpuPrimitive(stream), matrix_(std::move(matrix)) {}
  const char* name() const override { return "tessera::PackedRows"; }

  bool is_equivalent(const mx::Primitive& other) const override {
    const auto& same = static_cast<const PackedRows&>(other);
    return matrix_.layout == same.matrix_.layout && matrix_.data.id() == same.matrix_.data.id();
  }

  std::vector<mx::Shape> output_shapes(const std::vector<mx::array>& inputs) override {
    mx::Shape shape = inputs[0].shape();
    shape.push_back(matrix_.layout.columns);
    return {shape};
  }

  void eval_cpu(const std::vector<mx::array>& inputs, std::vector<mx::array>& outputs) override {
    allocate(outputs[0]);
    auto& encoder = mx::cpu::get_command_encoder(stream());
    encoder.dispatch([matrix = matrix_, ids = inputs[0].data<int32_t>(), n = inputs[0].size(),
                      out = outputs[0].data<float>()]() {
      for (std::size_t i = 0; i < n; ++i) {
        const bool is_row = ids[i] >= 0 && ids[i] < matrix.layout.rows;
        float* row = out + i * static_cast<std::size_t>(matrix.layout.columns);
        // Ids are checked where they come in; one that is wrong all the same must not read foreign memory.
        if (is_row)
          decode_row(matrix.layout, matrix.data.data<std::byte>(), ids[i], row);
        else
          std::fill_n(row, matrix.layout.columns, std::numeric_limits<float>::quiet_NaN());
      }
    });
  }

 private:
  PackedMatrix matrix_;
};

mx::Stream stream() { return mx::default_stream(mx::Device::cpu); }

}  // namespace

std::vector<mx::array> packed_matmul(const mx::array& x, std::vector<PackedMatrix> matrices,
                                     const std::optional<mx::array>& residual) {
  std::vector<mx::Shape> shapes(matrices.size(), x.shape());
  for (std::size_t i = 0; i < shapes.size(); ++i) shapes[i].back() = matrices[i].layout.rows;
  const std::vector<mx::Dtype> types(matrices.size(), mx::float32);
  std::vector<mx::array> inputs{mx::astype(x, mx::float32)};
  if (residual) inputs.push_back(mx::astype(*residual, mx::float32));
  return mx::array::make_arrays(std::move(shapes), types,
                                std::make_shared<PackedMatmul>(stream(), std::move(matrices)),
                                std::move(inputs));
}

mx::array packed_rows(const mx::array& ids, const PackedMatrix& matrix) {
  mx::Shape shape = ids.shape();
  shape.push_back(matrix.layout.columns);
  return mx::array(std::move(shape), mx::float32, std::make_shared<PackedRows>(stream(), matrix),
                   {mx::contiguous(mx::astype(ids, mx::int32))});
}

}  // namespace tessera::kernels::cpu
