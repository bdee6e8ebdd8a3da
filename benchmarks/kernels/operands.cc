#include "benchmarks/kernels/operands.h"

#include <mlx/types/half_types.h>

#include <cmath>
#include <cstring>

#include "tessera/kernels/weight_memory.h"
#include "tessera/tensor/external_array.h"

namespace tessera::bench {
namespace {

namespace mx = mlx::core;
using kernels::PackedLayout;
using kernels::PackedType;

constexpr uint32_t kSeed = 20240607;

void put(PackedType type, float value, std::byte* to) {
  if (type == PackedType::kFloat32) {
    std::memcpy(to, &value, sizeof value);
  } else if (type == PackedType::kFloat16) {
    const mx::float16_t half(value);
    std::memcpy(to, &half, sizeof half);
  } else {
    const mx::bfloat16_t half(value);
    std::memcpy(to, &half, sizeof half);
  }
}

/// Writes a matrix whose values are about 1 / sqrt(K), so that long chains of products stay finite.
void fill_matrix(const PackedLayout& layout, std::byte* data) {
  std::mt19937_64 generator(kSeed);
  std::uniform_real_distribution<float> uniform(-1.0F, 1.0F);
  const float size = 1.7F / std::sqrt(static_cast<float>(layout.columns));
  const std::size_t item = layout.type_bytes();
  if (!layout.is_quantized()) {
    for (std::size_t at = 0; at < layout.bytes(); at += item)
      put(layout.type, size * uniform(generator), data + at);
    return;
  }
  for (std::size_t at = 0; at + 8 <= layout.bytes(); at += 8) {
    const uint64_t word = generator();
    std::memcpy(data + at, &word, sizeof word);
  }
  const float scale = 2 * size / static_cast<float>((1 << layout.bits) - 1);
  for (std::byte* group = data; group < data + layout.bytes(); group += layout.group_bytes()) {
    std::byte* constants = group + layout.group_code_bytes();
    for (std::size_t lane = 0; lane < PackedLayout::kLanes; ++lane) {
      put(layout.type, scale, constants + lane * item);
      put(layout.type, -size, constants + (PackedLayout::kLanes + lane) * item);
    }
  }
}

}  // namespace

std::vector<float> random_values(std::size_t count) {
  std::mt19937 generator(kSeed);
  std::uniform_real_distribution<float> uniform(-1.0F, 1.0F);
  std::vector<float> values(count);
  for (float& value : values) value = uniform(generator);
  return values;
}

std::size_t copies_of(std::size_t bytes) { return rotation_bytes() / bytes + 1; }

std::vector<kernels::PackedMatrix> random_matrices(const PackedLayout& layout, std::size_t copies,
                                                   const kernels::Runtime& runtime) {
  kernels::Runtime with_memory = runtime;  // as models do: matrices one after the other in huge pages
  if (!with_memory.weights) with_memory.weights = std::make_shared<kernels::WeightMemory>();
  std::vector<kernels::PackedMatrix> matrices;
  for (std::size_t i = 0; i < copies; ++i) {
    const std::shared_ptr<std::byte> memory = with_memory.weights->allocate(layout.bytes());
    if (i == 0)
      fill_matrix(layout, memory.get());
    else
      std::memcpy(memory.get(), matrices[0].data.data<std::byte>(), layout.bytes());
    matrices.push_back(
        {layout, tensor::external_array(memory.get(), {static_cast<int>(layout.bytes())}, mx::uint8, memory),
         with_memory});
  }
  return matrices;
}

std::vector<std::shared_ptr<const kernels::PageTable>> random_tables(const kernels::PageShape& shape,
                                                                     int tokens, std::size_t copies) {
  const auto pages = static_cast<std::size_t>((tokens + shape.page_tokens - 1) / shape.page_tokens);
  const auto type = shape.dtype == mx::float32 ? PackedType::kFloat32 : PackedType::kBFloat16;
  std::vector<std::byte> page(shape.page_bytes());
  const std::vector<float> values = random_values(page.size() / shape.dtype.size());
  for (std::size_t i = 0; i < values.size(); ++i) put(type, values[i], page.data() + i * shape.dtype.size());
  std::vector<std::shared_ptr<const kernels::PageTable>> tables;
  for (std::size_t i = 0; i < copies; ++i) {
    const auto memory = std::make_shared<Memory>(pages * page.size());
    auto table = std::make_shared<kernels::PageTable>();
    for (std::size_t p = 0; p < pages; ++p) {
      table->pages.push_back(memory->data() + p * page.size());
      std::memcpy(table->pages.back(), page.data(), page.size());
    }
    table->owner = memory;
    tables.push_back(std::move(table));
  }
  return tables;
}

}  // namespace tessera::bench
