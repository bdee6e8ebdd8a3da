#include "tessera/kernels/cpu/operand.h"

#include <algorithm>

#include "tessera/kernels/cpu/targets.h"

namespace tessera::kernels::cpu {
namespace {

bool is_same_format(const PackedLayout& a, const PackedLayout& b) {
  return a.bits == b.bits && a.group_size == b.group_size && a.columns == b.columns;
}

}  // namespace

std::size_t matmul_scratch_bytes(const PackedLayout& layout, int m) {
  if (m == 1) return 64;
  // A tile's values in float32, or a strip of codes (at most 256 columns or one group) with its constants.
  const auto columns = static_cast<std::size_t>(layout.columns);
  const std::size_t strip_columns = std::max<std::size_t>(256, static_cast<std::size_t>(layout.group_size));
  const std::size_t strip = kStripTiles * 64 * (strip_columns / 2 + 2 * (strip_columns / 16));
  return std::max(columns * PackedLayout::kLanes * sizeof(float), strip);
}

void for_each_row_block(base::ThreadPool& pool, int m, const std::function<void(int, int)>& visit) {
  pool.run((m + kRowsPerTask - 1) / kRowsPerTask, [&](int block) {
    const int first = block * kRowsPerTask;
    visit(first, std::min(kRowsPerTask, m - first));
  });
}

OperandSet::OperandSet(const std::vector<const PackedMatrix*>& matrices, int m) : m_(m) {
  for (const PackedMatrix* pointer : matrices) {
    const PackedMatrix& matrix = *pointer;
    const Products products = products_for(matrix.layout, matrix.runtime.products);
    std::size_t format = 0;
    while (format < layouts_.size() &&
           !(is_same_format(layouts_[format], matrix.layout) && products_[format] == products)) {
      ++format;
    }
    formats_.push_back(format);
    if (format < layouts_.size()) continue;
    layouts_.push_back(matrix.layout);
    products_.push_back(products);
    const auto rows = static_cast<std::size_t>(m);
    const std::size_t row_bytes = static_cast<std::size_t>(matrix.layout.columns) * sizeof(float);
    const auto groups = static_cast<std::size_t>(matrix.layout.groups());
    memory_.push_back(std::make_unique<Scratch>(rows * (row_bytes + 2 * groups * sizeof(float))));
    std::byte* const values = memory_.back()->data();
    float* const sums = reinterpret_cast<float*>(values + rows * row_bytes);
    operands_.push_back({values, row_bytes, sums, sums + rows * groups});
  }
}

void OperandSet::prepare_rows(int first, int count, const float* x) const {
  for (std::size_t format = 0; format < layouts_.size(); ++format) {
    const PackedLayout& layout = layouts_[format];
    const auto groups = static_cast<std::size_t>(layout.groups());
    target().prepare_rows({.layout = layout,
                           .products = products_[format],
                           .x = x,
                           .rows = count,
                           .operand = operands_[format].from_row(static_cast<std::size_t>(first), groups)});
  }
}

void OperandSet::prepare(base::ThreadPool& pool, const float* x) const {
  const auto columns = static_cast<std::size_t>(layouts_.front().columns);
  for_each_row_block(pool, m_, [&](int first, int count) {
    prepare_rows(first, count, x + static_cast<std::size_t>(first) * columns);
  });
}

}  // namespace tessera::kernels::cpu
