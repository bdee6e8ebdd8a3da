// Products with packed matrices for one target. Included inside its namespace by target-inl.h.
//
// sum_k x_k (s_g q_k + b_g) = sum_g s_g (sum_{k in g} x_k q_k) + b_g (sum_{k in g} x_k): codes meet the
// activations as integers, which float32 holds exactly, and a scale touches one sum per group.
#pragma once

#include "tessera/kernels/cpu/vectors-inl.h"

namespace {

inline Floats from_bfloat16(Halves bits) {
  return bit_cast<Floats>(__builtin_convertvector(bits, Words) << 16);
}

/// IEEE half to float in integer arithmetic: the exponent is rebased by a multiplication, which also
/// normalizes subnormal halves; infinities and NaN keep their exponent.
inline Floats from_float16(Halves bits) {
#if defined(__AVX512F__)
  return (Floats)_mm512_cvtph_ps((__m256i)bits);
#else
  const Words wide = __builtin_convertvector(bits, Words);
  const Floats magnitude = bit_cast<Floats>((wide & 0x7fff) << 13) * broadcast(0x1p112F);
  const Words special = (wide & 0x7c00) == 0x7c00 ? Words{} + 0x7f800000U : Words{};
  return bit_cast<Floats>(bit_cast<Words>(magnitude) | special | ((wide & 0x8000) << 16));
#endif
}

/// Sixteen neighbouring values of a stored type.
inline Floats load_values(const std::byte* from, PackedType type) {
  switch (type) {
    case PackedType::kFloat32: return load<Floats>(from);
    case PackedType::kFloat16: return from_float16(load<Halves>(from));
    case PackedType::kBFloat16: return from_bfloat16(load<Halves>(from));
  }
  return Floats{};
}

/// Calls visit(column, codes as floats) for the 32 columns that kBits words of each lane hold.
template <int kBits, typename Visit>
inline void for_each_code(const std::byte* words, const Visit& visit) {
  constexpr uint32_t kMask = (1U << kBits) - 1;
  Words word[kBits];
  for (int i = 0; i < kBits; ++i) word[i] = load<Words>(words + 64 * i);
#pragma GCC unroll 32
  for (int column = 0; column < 32; ++column) {
    const int bit = column * kBits;
    const int index = bit / 32;
    const int shift = bit % 32;
    Words code = word[index] >> shift;
    if (shift + kBits > 32) code |= word[index + 1] << (32 - shift);
    if (shift + kBits != 32) code &= kMask;
    // Codes are small: as signed numbers they convert with one instruction everywhere.
    visit(column, __builtin_convertvector(bit_cast<Ints>(code), Floats));
  }
}

/// tile . x for kRows rows of x of a quantized matrix.
template <int kBits, int kRows>
void multiply_tile(const PackedLayout& layout, const std::byte* tile, const Operand& operand, Floats* sums) {
  const auto stride = static_cast<std::size_t>(layout.columns);
  const float* x = reinterpret_cast<const float*>(operand.values);
  const float* x_sums = operand.sums;
  const auto groups = static_cast<std::size_t>(layout.groups());
  Floats scaled[kRows] = {};
  Floats shifted[kRows] = {};
  for (std::size_t group = 0; group < groups; ++group, tile += layout.group_bytes()) {
    Floats dots[kRows][2] = {};  // two chains, or each product would wait for the one before
    for (int unit = 0; unit < layout.group_size / 32; ++unit) {
      const float* from =
          x + group * static_cast<std::size_t>(layout.group_size) + static_cast<std::size_t>(unit) * 32;
      for_each_code<kBits>(tile + static_cast<std::size_t>(unit) * kBits * 64, [&](int column, Floats codes) {
        for (int row = 0; row < kRows; ++row) {
          dots[row][column & 1] +=
              codes *
              broadcast(from[static_cast<std::size_t>(row) * stride + static_cast<std::size_t>(column)]);
        }
      });
    }
    const std::byte* constants = tile + layout.group_code_bytes();
    const Floats scale = load_values(constants, layout.type);
    const Floats bias = load_values(constants + kLanes * layout.type_bytes(), layout.type);
    for (int row = 0; row < kRows; ++row) {
      scaled[row] += scale * (dots[row][0] + dots[row][1]);
      shifted[row] += bias * broadcast(x_sums[static_cast<std::size_t>(row) * groups + group]);
    }
  }
  for (int row = 0; row < kRows; ++row) sums[row] = scaled[row] + shifted[row];
}

/// The tile's values [K][16] in float32.
template <int kBits>
void decode_quantized(const PackedLayout& layout, const std::byte* tile, float* values) {
  for (int group = 0; group < layout.groups(); ++group, tile += layout.group_bytes()) {
    const std::byte* constants = tile + layout.group_code_bytes();
    const Floats scale = load_values(constants, layout.type);
    const Floats bias = load_values(constants + kLanes * layout.type_bytes(), layout.type);
    for (int unit = 0; unit < layout.group_size / 32; ++unit) {
      for_each_code<kBits>(tile + static_cast<std::size_t>(unit) * kBits * 64, [&](int, Floats codes) {
        const Floats value = codes * scale + bias;
        store(values, value);
        values += kLanes;
      });
    }
  }
}

void decode_dense(const PackedLayout& layout, const std::byte* tile, float* values) {
  const std::size_t step = kLanes * layout.type_bytes();
  for (int column = 0; column < layout.columns; ++column, tile += step, values += kLanes) {
    const Floats value = load_values(tile, layout.type);
    store(values, value);
  }
}

/// kRows rows of x times decoded values [K][16].
template <int kRows>
void multiply_values(int columns, const float* values, const float* x, Floats* sums) {
  Floats result[kRows] = {};
  for (int column = 0; column < columns; ++column, values += kLanes) {
    const Floats value = load<Floats>(values);
    for (int row = 0; row < kRows; ++row) {
      result[row] += value * broadcast(x[static_cast<std::size_t>(row) * static_cast<std::size_t>(columns) +
                                         static_cast<std::size_t>(column)]);
    }
  }
  for (int row = 0; row < kRows; ++row) sums[row] = result[row];
}

/// One row of x times a dense tile, converted on the way.
void multiply_dense_row(const PackedLayout& layout, const std::byte* tile, const float* x, Floats* sums) {
  Floats result[4] = {};
  const std::size_t step = kLanes * layout.type_bytes();
  for (int column = 0; column < layout.columns; ++column, tile += step) {
    result[column & 3] += load_values(tile, layout.type) * broadcast(x[column]);
  }
  sums[0] = (result[0] + result[1]) + (result[2] + result[3]);
}

void store_tile(const PackedMatmulTask& task, int tile, int row, Floats sums) {
  const int first = tile * kLanes;
  const int left = task.layout.rows - first;
  const std::size_t at = static_cast<std::size_t>(row) * static_cast<std::size_t>(task.layout.rows) +
                         static_cast<std::size_t>(first);
  if (left >= kLanes) {
    if (task.bias != nullptr) sums += load<Floats>(task.bias + first);
    if (task.residual != nullptr) sums += load<Floats>(task.residual + at);
    store(task.y + at, sums);
    return;
  }
  for (int lane = 0; lane < left; ++lane) {
    float value = sums[lane];
    if (task.bias != nullptr) value += task.bias[first + lane];
    if (task.residual != nullptr) value += task.residual[at + static_cast<std::size_t>(lane)];
    task.y[at + static_cast<std::size_t>(lane)] = value;
  }
}

using MultiplyTile = void (*)(const PackedLayout&, const std::byte*, const Operand&, Floats*);
using DecodeTile = void (*)(const PackedLayout&, const std::byte*, float*);

// Rows that share a decoded value in a register: as many sums as the target has registers to spare.
#if defined(__AVX512F__)
constexpr int kBlockRows = 12;
constexpr int kFewRows =
    11;  // up to here codes are decoded as they are used; above, a tile once for all rows
#elif defined(__AVX2__) || defined(__aarch64__)
constexpr int kBlockRows = 4;
constexpr int kFewRows = 1;
#else
constexpr int kBlockRows = 2;
constexpr int kFewRows = 1;
#endif

template <int kRows>
MultiplyTile multiply_for(int bits) {
  switch (bits) {
    case 2: return multiply_tile<2, kRows>;
    case 3: return multiply_tile<3, kRows>;
    case 4: return multiply_tile<4, kRows>;
    case 5: return multiply_tile<5, kRows>;
    case 6: return multiply_tile<6, kRows>;
    default: return multiply_tile<8, kRows>;
  }
}

DecodeTile decode_for(int bits) {
  switch (bits) {
    case 0: return decode_dense;
    case 2: return decode_quantized<2>;
    case 3: return decode_quantized<3>;
    case 4: return decode_quantized<4>;
    case 5: return decode_quantized<5>;
    case 6: return decode_quantized<6>;
    default: return decode_quantized<8>;
  }
}

/// Rows of x [first, first + kRows).
template <int kRows>
void run_rows(const PackedMatmulTask& task, int first) {
  const MultiplyTile multiply = multiply_for<kRows>(task.layout.bits);
  const Operand x =
      task.x.from_row(static_cast<std::size_t>(first), static_cast<std::size_t>(task.layout.groups()));
  Floats sums[kRows];
  for (int tile = task.first_tile; tile < task.last_tile; ++tile) {
    multiply(task.layout, task.data + static_cast<std::size_t>(tile) * task.layout.tile_bytes(), x, sums);
    for (int row = 0; row < kRows; ++row) store_tile(task, tile, first + row, sums[row]);
  }
}

void run_few_rows(const PackedMatmulTask& task) {
  int row = 0;
  if constexpr (kFewRows >= 4) {
    for (; row + 4 <= task.m; row += 4) run_rows<4>(task, row);
    for (; row + 2 <= task.m; row += 2) run_rows<2>(task, row);
  }
  for (; row < task.m; ++row) run_rows<1>(task, row);
}

void run_dense_row(const PackedMatmulTask& task) {
  const float* x = reinterpret_cast<const float*>(task.x.values);
  Floats sums[1];
  for (int tile = task.first_tile; tile < task.last_tile; ++tile) {
    multiply_dense_row(task.layout, task.data + static_cast<std::size_t>(tile) * task.layout.tile_bytes(), x,
                       sums);
    store_tile(task, tile, 0, sums[0]);
  }
}

void run_many_rows(const PackedMatmulTask& task) {
  const DecodeTile decode = decode_for(task.layout.bits);
  const auto columns = static_cast<std::size_t>(task.layout.columns);
  const float* x = reinterpret_cast<const float*>(task.x.values);
  float* const values = reinterpret_cast<float*>(task.scratch);
  Floats sums[kBlockRows];
  for (int tile = task.first_tile; tile < task.last_tile; ++tile) {
    decode(task.layout, task.data + static_cast<std::size_t>(tile) * task.layout.tile_bytes(), values);
    int row = 0;
    for (; row + kBlockRows <= task.m; row += kBlockRows) {
      multiply_values<kBlockRows>(task.layout.columns, values, x + static_cast<std::size_t>(row) * columns,
                                  sums);
      for (int i = 0; i < kBlockRows; ++i) store_tile(task, tile, row + i, sums[i]);
    }
    for (; row < task.m; ++row) {
      multiply_values<1>(task.layout.columns, values, x + static_cast<std::size_t>(row) * columns, sums);
      store_tile(task, tile, row, sums[0]);
    }
  }
}

/// What a whole number of a group stands for, given the group's largest magnitude. Below the normal numbers
/// its inverse would be infinite: there it is 0, and so are the activations. NaN stays.
inline float int8_unit(float largest) {
  const float unit = largest * (1.0F / 127);
  return unit < 1.17549435e-38F ? 0.0F : unit;
}

/// An operand of floats, rounded as the products ask: what targets without dot products multiply.
void prepare_floats(const PrepareTask& task) {
  const int columns = task.layout.columns;
  const int group = task.layout.is_quantized() ? task.layout.group_size : columns;
  const int groups = columns / group;
  for (int row = 0; row < task.rows; ++row) {
    const float* x = task.x + static_cast<std::size_t>(row) * static_cast<std::size_t>(columns);
    float* values = reinterpret_cast<float*>(task.operand.values +
                                             static_cast<std::size_t>(row) * task.operand.row_bytes);
    for (int g = 0; g < groups; ++g, x += group, values += group) {
      float unit = 0.0F;
      if (task.products == Products::kInt8) {
        Floats most{};
        Floats nothing{};  // NaN where a value is not finite: the maximum may forget it
        for (int i = 0; i < group; i += kLanes) {
          const Floats value = load<Floats>(x + i);
          most = max(most, value > 0.0F ? value : -value);
          nothing += value - value;
        }
        unit = int8_unit(largest(most)) + sum(nothing);
      }
      const float inverse = unit > 0.0F ? 1.0F / unit : 0.0F;
      Floats total{};
      for (int i = 0; i < group; i += kLanes) {
        Floats value = load<Floats>(x + i);
        if (task.products == Products::kBFloat16) value = round_to_bfloat16(value);
        if (task.products == Products::kInt8) {
          constexpr float kRound = 12582912.0F;  // 1.5 * 2^23: adding it rounds to a whole number
          value = ((value * broadcast(inverse) + broadcast(kRound)) - broadcast(kRound)) * broadcast(unit);
        }
        store(values + i, value);
        total += value;
      }
      if (task.layout.is_quantized()) {
        task.operand.sums[static_cast<std::size_t>(row) * static_cast<std::size_t>(groups) +
                          static_cast<std::size_t>(g)] = sum(total);
      }
    }
  }
}

}  // namespace

#if defined(__AVX512BF16__) && defined(__AVX512VNNI__)
#include "tessera/kernels/cpu/dot_products-inl.h"
#define TESSERA_HAS_DOT_PRODUCTS 1
#else
#define TESSERA_HAS_DOT_PRODUCTS 0
#endif

void prepare_rows(const PrepareTask& task) {
#if TESSERA_HAS_DOT_PRODUCTS
  if (task.products == Products::kBFloat16) return prepare_pairs(task);
  if (task.products == Products::kInt8) return prepare_quads(task);
#endif
  prepare_floats(task);
}

void packed_matmul(const PackedMatmulTask& task) {
#if TESSERA_HAS_DOT_PRODUCTS
  if (task.products != Products::kFloat32) return dot_products(task);
#endif
  if (task.layout.is_quantized() && task.m <= kFewRows) return run_few_rows(task);
  if (!task.layout.is_quantized() && task.m == 1) return run_dense_row(task);
  run_many_rows(task);
}
