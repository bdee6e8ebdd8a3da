// Products with packed matrices. What is timed is rounding the activations and multiplying, without MLX's
// graph around them.
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>

#include "benchmarks/kernels/cases.h"
#include "benchmarks/kernels/operands.h"
#include "tessera/kernels/cpu/matmul_run.h"

namespace tessera::bench {
namespace {

using kernels::PackedLayout;
using kernels::PackedType;
using kernels::Products;

// From so many rows on arithmetic decides, and a few copies are enough.
constexpr int kManyRows = 64;
constexpr std::size_t kFewCopies = 3;

// Far below what the kernels reach (performance goals: 90 % of the bandwidth, 62 and 50 % of the peaks), so that
// only a broken kernel or a wrong choice of one fails.
constexpr double kFloorOfBandwidth = 0.5;
constexpr double kFloorOfPeak = 0.3;

const char* name_of(Products products) {
  switch (products) {
    case Products::kFloat32: return "float32";
    case Products::kBFloat16: return "bfloat16";
    case Products::kInt8: return "int8";
  }
  return "";
}

const char* name_of(PackedType type) {
  switch (type) {
    case PackedType::kFloat32: return "f32";
    case PackedType::kFloat16: return "f16";
    case PackedType::kBFloat16: return "bf16";
  }
  return "";
}

Ceiling ceiling_of(const PackedLayout& layout, Products products, int m) {
  if (m < kManyRows) return Ceiling::kBandwidth;
  switch (kernels::cpu::products_for(layout, products)) {
    case Products::kFloat32: return Ceiling::kFloat32;
    case Products::kBFloat16: return Ceiling::kBFloat16;
    case Products::kInt8: return Ceiling::kInt8;
  }
  return Ceiling::kFloat32;
}

void add(std::vector<Case>& cases, const PackedLayout& layout, int m, Products products, bool is_extra,
         double floor = 0) {
  const std::string format =
      layout.is_quantized() ? fmt::format("{}bit/g{}", layout.bits, layout.group_size) : name_of(layout.type);
  const double n = layout.rows, k = layout.columns;
  cases.push_back({.name = fmt::format("matmul/{}/{}x{}/m{}/{}", format, layout.rows, layout.columns, m,
                                       name_of(products)),
                   .ceiling = ceiling_of(layout, products, m),
                   .bytes = static_cast<double>(layout.bytes()) + 4.0 * m * (n + k),
                   .flop = 2.0 * m * n * k,
                   .is_extra = is_extra,
                   .floor = floor,
                   .prepare = [=](std::shared_ptr<base::ThreadPool> pool) {
                     const std::size_t copies = copies_of(layout.bytes());
                     return product_work(layout, m, {std::move(pool), products},
                                         m < kManyRows ? copies : std::min(copies, kFewCopies));
                   }});
}

}  // namespace

Work product_work(const PackedLayout& layout, int m, const kernels::Runtime& runtime, std::size_t copies) {
  struct Operands {
    std::vector<kernels::PackedMatrix> matrices;
    std::vector<float> x, y;
    std::size_t next = 0;
  };
  const auto rows = static_cast<std::size_t>(m);
  auto operands = std::make_shared<Operands>();
  operands->matrices = random_matrices(layout, copies, runtime);
  operands->x = random_values(rows * static_cast<std::size_t>(layout.columns));
  operands->y.resize(rows * static_cast<std::size_t>(layout.rows));
  return {[operands, m] {
    const kernels::PackedMatrix& matrix = operands->matrices[operands->next++ % operands->matrices.size()];
    base::ThreadPool& pool = *matrix.runtime.pool;
    const kernels::cpu::OperandSet set({&matrix}, m);
    set.prepare(pool, operands->x.data());
    kernels::cpu::multiply(pool, {{.matrix = &matrix, .x = set.of(0), .y = operands->y.data()}}, m);
  }};
}

void add_products(std::vector<Case>& cases) {
  constexpr Products kTiers[] = {Products::kBFloat16, Products::kInt8, Products::kFloat32};
  const auto quantized = [](int rows, int bits, int group) {
    return PackedLayout{
        .rows = rows, .columns = 4096, .bits = bits, .group_size = group, .type = PackedType::kFloat16};
  };
  for (const int bits : {4, 8, 2, 3, 5, 6}) {
    for (const int group : {64, 32, 128}) {
      for (const int m : {1, 4, 8, 16, 512}) {
        for (const Products products : kTiers) {
          // The ladder: 4-bit groups of 64 in full; of the others one row in the default tier, and of the
          // group of 32 and of 8 bits many rows.
          const bool is_default = products == Products::kBFloat16;
          const bool is_main = bits == 4 && group == 64;
          const bool is_one_row = m == 1 && is_default && (group == 64 || bits == 4);
          const bool is_many_rows = m == 512 && is_default && (bits == 4 || bits == 8) && group <= 64;
          const bool is_checked = is_main && m == 1 && products != Products::kFloat32;
          add(cases, quantized(4096, bits, group), m, products, !(is_main || is_one_row || is_many_rows),
              is_checked ? kFloorOfBandwidth : 0);
        }
      }
    }
  }
  // Small enough for samples between the interruptions of a busy machine.
  add(cases, quantized(1024, 4, 64), 256, Products::kBFloat16, true, kFloorOfPeak);
  add(cases, quantized(1024, 4, 64), 256, Products::kInt8, true, kFloorOfPeak);
  for (const int group : {64, 32}) {
    for (const Products products : kTiers) {
      const bool is_checked = group == 64 && products == Products::kBFloat16;
      add(cases, quantized(14336, 4, group), 1, products, products != Products::kBFloat16,
          is_checked ? kFloorOfBandwidth : 0);
    }
  }
  // The head of the default model.
  add(cases, {.rows = 49152, .columns = 576, .bits = 8, .group_size = 32, .type = PackedType::kFloat16}, 1,
      Products::kBFloat16, false);

  for (const PackedType type : {PackedType::kBFloat16, PackedType::kFloat16, PackedType::kFloat32}) {
    for (const int m : {1, 4, 8, 16, 512}) {
      const PackedLayout layout{.rows = 4096, .columns = 4096, .type = type};
      add(cases, layout, m, Products::kBFloat16, m != 1 && m != 512);
      if (type == PackedType::kBFloat16) add(cases, layout, m, Products::kFloat32, true);
    }
  }
}

}  // namespace tessera::bench
