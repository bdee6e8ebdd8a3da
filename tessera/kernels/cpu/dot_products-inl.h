// Products by the dot-product instructions of AVX-512 BF16 and VNNI (Zen 4, Sapphire Rapids and later).
// Included by packed_matmul-inl.h for targets that have them.
//
// As everywhere, sum_k x_k (s_g q_k + b_g) = sum_g s_g (sum x_k q_k) + b_g (sum x_k). Codes up to 255 are
// exact in bfloat16, so one instruction multiplies two codes per lane and sums in float32. The columns of
// x are put into the order in which shifting a word of codes lays them bare: pairs for bfloat16, fours for
// int8. The column order within a group does not matter to a sum.
#pragma once

#include "tessera/kernels/cpu/vectors-inl.h"

namespace {

// How far ahead of the loads weights are fetched. The hardware's own prefetcher stops at 4 KiB pages.
constexpr int kPrefetchBytes = 8192;
// Columns whose decoded codes stay in the first-level cache while all rows pass over them.
constexpr int kStripColumns = 256;
constexpr int kStripRows = 4;  // rows per register block beside kStripTiles tiles: 12 + 12 accumulators

inline __m512 add_dot(__m512 sum, __m512i a, __m512i b) {
  return _mm512_dpbf16_ps(sum, (__m512bh)a, (__m512bh)b);
}

inline __m512i broadcast_word(const std::byte* values, std::size_t index) {
  uint32_t word;
  std::memcpy(&word, values + 4 * index, sizeof word);
  return _mm512_set1_epi32(static_cast<int>(word));
}

/// 64 bytes of codes, kept in a register: the compiler would rather load them again for every shift, and
/// loads are what these loops have least of.
inline __m512i load_codes(const std::byte* from) {
  __m512i codes = _mm512_loadu_si512(from);
  asm("" : "+v"(codes));
  return codes;
}

/// The top halves of two vectors of floats as pairs: exact for codes.
inline __m512i as_pairs(__m512 low, __m512 high) {
  return _mm512_mask_blend_epi16(0xAAAAAAAA, _mm512_srli_epi32(_mm512_castps_si512(low), 16),
                                 _mm512_castps_si512(high));
}

/// Columns of pair `i` among the 32 columns that kBits words hold.
constexpr int pair_column(int bits, int i, int side) {
  const int per_word = 32 / bits;
  if (bits == 2 || bits == 4 || bits == 8) {
    const int word = i / (per_word / 2);
    return word * per_word + i % (per_word / 2) + side * (per_word / 2);
  }
  return 2 * i + side;
}

/// Columns of four `i`.
constexpr int quad_column(int bits, int i, int side) {
  const int per_word = 32 / bits;
  if (bits == 2 || bits == 4 || bits == 8) {
    const int per_byte = 8 / bits;
    return i / per_byte * per_word + side * per_byte + i % per_byte;
  }
  return 4 * i + side;
}

/// Tables of the bfloat16 values of small codes for vpermw, which reads the low five bits of an index.
struct CodeTables {
  __m512i low;   // i mod 2^bits, of 8 bits the low half: i mod 16
  __m512i high;  // 6 bits: 32 + i; of 8 bits the high half: 16 (i mod 16)
};

template <int kBits>
inline CodeTables code_tables() {
  uint16_t low[32], high[32];
  constexpr int kMask = kBits == 8 ? 15 : kBits >= 5 ? 31 : (1 << kBits) - 1;
  for (int i = 0; i < 32; ++i) {
    const auto value = [](int code) {
      const float wide = static_cast<float>(code);
      uint32_t word;
      std::memcpy(&word, &wide, sizeof word);
      return static_cast<uint16_t>(word >> 16);
    };
    low[i] = value(i & kMask);
    high[i] = value(kBits == 8 ? 16 * (i & 15) : 32 + i);
  }
  return {_mm512_loadu_si512(low), _mm512_loadu_si512(high)};
}

/// The code of one column in each lane, in the low bits; what lies above is another column's.
template <int kBits>
inline __m512i code_at(const __m512i* words, int column) {
  const int bit = column * kBits;
  const int shift = bit % 32;
  __m512i code = _mm512_srli_epi32(words[bit / 32], static_cast<unsigned>(shift));
  if (shift + kBits > 32) {
    code = _mm512_or_si512(code, _mm512_slli_epi32(words[bit / 32 + 1], static_cast<unsigned>(32 - shift)));
  }
  return code;
}

template <int kBits>
inline void load_words(const std::byte* from, __m512i* words) {
  for (int i = 0; i < kBits; ++i) words[i] = load_codes(from + 64 * i);
}

/// How pairs of codes are taken out of the words of 32 columns: in steps of a few words that are loaded
/// together, each with some terms that meet a pair of x. Codes of 8 bits are two terms, high and low half, or
/// (kIsWhole) one that takes more work: that pays when several rows share it.
template <int kBits, bool kIsWhole>
struct PairSteps {
  static constexpr bool kIsAligned = kBits == 2 || kBits == 4 || kBits == 8;
  static constexpr bool kIsSplit = kBits == 8 && !kIsWhole;
  static constexpr int kWords = kIsAligned ? 1 : kBits;  // of a step
  static constexpr int kSteps = kBits / kWords;
  static constexpr int kPairs = 16 / kSteps;  // of a step
  static constexpr int kTerms = kIsSplit ? 2 * kPairs : kPairs;

  /// The pair among the 16 that a term meets.
  static constexpr int pair(int step, int term) { return step * kPairs + (kIsSplit ? term / 2 : term); }

  /// The codes of a term as bfloat16.
  static inline __m512i codes(const __m512i* words, int term, const CodeTables& tables) {
    if constexpr (kIsSplit) {
      const __m512i lanes = _mm512_srli_epi16(words[0], static_cast<unsigned>(4 * term));
      return _mm512_permutexvar_epi16(lanes, term % 2 == 0 ? tables.low : tables.high);
    } else if constexpr (kBits == 8) {
      const auto value = [&](int column) {
        const __m512i lanes = _mm512_srli_epi32(words[0], static_cast<unsigned>(8 * column));
        return _mm512_cvtepi32_ps(_mm512_and_si512(lanes, _mm512_set1_epi32(255)));
      };
      return as_pairs(value(term), value(term + 2));
    } else if constexpr (kIsAligned) {
      return _mm512_permutexvar_epi16(_mm512_srli_epi16(words[0], static_cast<unsigned>(kBits * term)),
                                      tables.low);
    } else {
      const __m512i pair =
          _mm512_mask_blend_epi16(0xAAAAAAAA, code_at<kBits>(words, 2 * term),
                                  _mm512_slli_epi32(code_at<kBits>(words, 2 * term + 1), 16));
      if constexpr (kBits == 6) return _mm512_permutex2var_epi16(tables.low, pair, tables.high);
      return _mm512_permutexvar_epi16(pair, tables.low);
    }
  }
};

/// Calls visit(four of x, codes as bytes) for the 8 fours of 32 columns.
template <int kBits, typename Visit>
inline void for_each_quad(const std::byte* from, const Visit& visit) {
  if constexpr (kBits == 2 || kBits == 4 || kBits == 8) {
    constexpr int kQuads = 8 / kBits;
    const __m512i mask = _mm512_set1_epi8(static_cast<char>((1 << kBits) - 1));
#pragma GCC unroll 8
    for (int word = 0; word < kBits; ++word) {
      const __m512i codes = load_codes(from + 64 * word);
#pragma GCC unroll 4
      for (int i = 0; i < kQuads; ++i) {
        visit(word * kQuads + i,
              _mm512_and_si512(_mm512_srli_epi32(codes, static_cast<unsigned>(kBits * i)), mask));
      }
    }
  } else {
    __m512i words[kBits];
    load_words<kBits>(from, words);
    const __m512i mask = _mm512_set1_epi32((1 << kBits) - 1);
#pragma GCC unroll 8
    for (int i = 0; i < 8; ++i) {
      const auto byte = [&](int side) {
        return _mm512_slli_epi32(_mm512_and_si512(code_at<kBits>(words, 4 * i + side), mask),
                                 static_cast<unsigned>(8 * side));
      };
      visit(i, _mm512_or_si512(_mm512_or_si512(byte(0), byte(1)), _mm512_or_si512(byte(2), byte(3))));
    }
  }
}

/// The 16 pairs of 32 columns of a dense bfloat16 tile: lanes of two columns side by side.
struct DensePairs {
  __m512i index;

  DensePairs() {
    uint16_t at[32];
    for (int lane = 0; lane < 16; ++lane) {
      at[2 * lane] = static_cast<uint16_t>(lane);
      at[2 * lane + 1] = static_cast<uint16_t>(16 + lane);
    }
    index = _mm512_loadu_si512(at);
  }
  inline __m512i pair(const std::byte* columns) const {
    return _mm512_permutexvar_epi16(index, _mm512_loadu_si512(columns));
  }
};

// Operands.

void prepare_pairs(const PrepareTask& task) {
  const int columns = task.layout.columns;
  const int group = task.layout.is_quantized() ? task.layout.group_size : columns;
  const int groups = columns / group;
  uint16_t order[32];
  for (int i = 0; i < 32; ++i)
    order[i] =
        static_cast<uint16_t>(pair_column(task.layout.is_quantized() ? task.layout.bits : 1, i / 2, i % 2));
  const __m512i index = _mm512_loadu_si512(order);
  for (int row = 0; row < task.rows; ++row) {
    const float* x = task.x + static_cast<std::size_t>(row) * static_cast<std::size_t>(columns);
    std::byte* values = task.operand.values + static_cast<std::size_t>(row) * task.operand.row_bytes;
    float* sums = task.operand.sums + static_cast<std::size_t>(row) * static_cast<std::size_t>(groups);
    for (int g = 0; g < groups; ++g) {
      __m512 sum = _mm512_setzero_ps();
      for (int unit = 0; unit < group / 32; ++unit, x += 32, values += 64) {
        const __m512i rounded = (__m512i)_mm512_cvtne2ps_pbh(_mm512_loadu_ps(x + 16), _mm512_loadu_ps(x));
        _mm512_storeu_si512(values, _mm512_permutexvar_epi16(index, rounded));
        sum = _mm512_add_ps(sum, _mm512_castsi512_ps(_mm512_slli_epi32(rounded, 16)));
        sum = _mm512_add_ps(sum, _mm512_castsi512_ps(_mm512_and_si512(
                                     rounded, _mm512_set1_epi32(static_cast<int>(0xffff0000)))));
      }
      if (task.layout.is_quantized()) sums[g] = _mm512_reduce_add_ps(sum);
    }
  }
}

void prepare_quads(const PrepareTask& task) {
  const int columns = task.layout.columns;
  const int group = task.layout.group_size;
  const int groups = columns / group;
  uint8_t order[32];
  for (int i = 0; i < 32; ++i) order[i] = static_cast<uint8_t>(quad_column(task.layout.bits, i / 4, i % 4));
  const __m256i index = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(order));
  const __m512i magnitude = _mm512_set1_epi32(0x7fffffff);
  for (int row = 0; row < task.rows; ++row) {
    const float* x = task.x + static_cast<std::size_t>(row) * static_cast<std::size_t>(columns);
    std::byte* values = task.operand.values + static_cast<std::size_t>(row) * task.operand.row_bytes;
    const std::size_t first = static_cast<std::size_t>(row) * static_cast<std::size_t>(groups);
    for (int g = 0; g < groups; ++g) {
      __m512 largest = _mm512_setzero_ps();
      bool has_nan = false;  // the instruction's maximum forgets them
      for (int i = 0; i < group; i += 16) {
        const __m512 value = _mm512_loadu_ps(x + i);
        has_nan |= _mm512_cmp_ps_mask(value, value, _CMP_UNORD_Q) != 0;
        largest = _mm512_max_ps(largest, _mm512_castsi512_ps(_mm512_and_si512(
                                             _mm512_castps_si512(_mm512_loadu_ps(x + i)), magnitude)));
      }
      const float unit = has_nan ? __builtin_nanf("") : int8_unit(_mm512_reduce_max_ps(largest));
      const __m512 inverse = _mm512_set1_ps(unit > 0 ? 1.0F / unit : 0.0F);
      __m512i sum = _mm512_setzero_si512();
      for (int i = 0; i < group; i += 32, values += 32) {
        const __m512i low = _mm512_cvtps_epi32(_mm512_mul_ps(_mm512_loadu_ps(x + i), inverse));
        const __m512i high = _mm512_cvtps_epi32(_mm512_mul_ps(_mm512_loadu_ps(x + i + 16), inverse));
        sum = _mm512_add_epi32(sum, _mm512_add_epi32(low, high));
        const __m256i bytes = _mm256_set_m128i(_mm512_cvtsepi32_epi8(high), _mm512_cvtsepi32_epi8(low));
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(values), _mm256_permutexvar_epi8(index, bytes));
      }
      x += group;
      task.operand.scales[first + static_cast<std::size_t>(g)] = unit;
      task.operand.sums[first + static_cast<std::size_t>(g)] =
          unit * static_cast<float>(_mm512_reduce_add_epi32(sum));
    }
  }
}

// Few rows: codes are decoded as they are used, each for all rows.

/// kRows rows of x times a tile.
template <int kBits, int kRows>
void dot_pairs_tile(const PackedLayout& layout, const std::byte* tile, const Operand& x, Floats* results) {
  using Steps = PairSteps<kBits, (kRows >= 4)>;
  constexpr int kChains = kRows == 1 ? 4 : kRows == 2 ? 2 : 1;  // so that no sum waits for itself
  const auto groups = static_cast<std::size_t>(layout.groups());
  const std::size_t group_words = static_cast<std::size_t>(layout.group_size) / 2;
  const CodeTables tables = code_tables<kBits>();
  __m512 sums[kRows];
  for (auto& sum : sums) sum = _mm512_setzero_ps();
  for (std::size_t group = 0; group < groups; ++group, tile += layout.group_bytes()) {
    __m512 dots[kRows][kChains];
    for (auto& row : dots) {
      for (auto& chain : row) chain = _mm512_setzero_ps();
    }
    for (int unit = 0; unit < layout.group_size / 32; ++unit) {
      const std::byte* from = tile + static_cast<std::size_t>(unit) * kBits * 64;
      const std::size_t first = group * group_words + static_cast<std::size_t>(unit) * 16;
#pragma GCC unroll 8
      for (int step = 0; step < Steps::kSteps; ++step, from += 64 * Steps::kWords) {
        __m512i words[Steps::kWords];
        for (int i = 0; i < Steps::kWords; ++i) {
          _mm_prefetch(from + kPrefetchBytes + 64 * i, _MM_HINT_T1);
          words[i] = load_codes(from + 64 * i);
        }
#pragma GCC unroll 16
        for (int term = 0; term < Steps::kTerms; ++term) {
          const __m512i codes = Steps::codes(words, term, tables);
          for (int row = 0; row < kRows; ++row) {
            const __m512i pair = broadcast_word(x.values + static_cast<std::size_t>(row) * x.row_bytes,
                                                first + static_cast<std::size_t>(Steps::pair(step, term)));
            dots[row][term % kChains] = add_dot(dots[row][term % kChains], codes, pair);
          }
        }
      }
    }
    const std::byte* constants = tile + layout.group_code_bytes();
    _mm_prefetch(constants + kPrefetchBytes, _MM_HINT_T1);
    const auto scale = (__m512)load_values(constants, layout.type);
    const auto bias = (__m512)load_values(constants + kLanes * layout.type_bytes(), layout.type);
    for (int row = 0; row < kRows; ++row) {
      __m512 dot = dots[row][0];
      for (int chain = 1; chain < kChains; ++chain) dot = _mm512_add_ps(dot, dots[row][chain]);
      sums[row] = _mm512_fmadd_ps(dot, scale, sums[row]);
      sums[row] = _mm512_fmadd_ps(
          bias, _mm512_set1_ps(x.sums[static_cast<std::size_t>(row) * groups + group]), sums[row]);
    }
  }
  for (int row = 0; row < kRows; ++row) results[row] = (Floats)sums[row];
}

template <int kBits, int kRows>
void dot_quads_tile(const PackedLayout& layout, const std::byte* tile, const Operand& x, Floats* results) {
  const auto groups = static_cast<std::size_t>(layout.groups());
  const std::size_t group_words = static_cast<std::size_t>(layout.group_size) / 4;
  constexpr int kChains = kRows <= 2 ? 2 : 1;
  __m512 sums[kRows];
  for (auto& sum : sums) sum = _mm512_setzero_ps();
  for (std::size_t group = 0; group < groups; ++group, tile += layout.group_bytes()) {
    __m512i dots[kRows][kChains];
    for (auto& row : dots) {
      for (auto& chain : row) chain = _mm512_setzero_si512();
    }
    for (int unit = 0; unit < layout.group_size / 32; ++unit) {
      const std::byte* from = tile + static_cast<std::size_t>(unit) * kBits * 64;
      for (int line = 0; line < kBits; ++line) _mm_prefetch(from + kPrefetchBytes + 64 * line, _MM_HINT_T1);
      const std::size_t first = group * group_words + static_cast<std::size_t>(unit) * 8;
      for_each_quad<kBits>(from, [&](int quad, __m512i codes) {
        for (int row = 0; row < kRows; ++row) {
          dots[row][quad % kChains] =
              _mm512_dpbusd_epi32(dots[row][quad % kChains], codes,
                                  broadcast_word(x.values + static_cast<std::size_t>(row) * x.row_bytes,
                                                 first + static_cast<std::size_t>(quad)));
        }
      });
    }
    const std::byte* constants = tile + layout.group_code_bytes();
    _mm_prefetch(constants + kPrefetchBytes, _MM_HINT_T1);
    const auto scale = (__m512)load_values(constants, layout.type);
    const auto bias = (__m512)load_values(constants + kLanes * layout.type_bytes(), layout.type);
    for (int row = 0; row < kRows; ++row) {
      const std::size_t at = static_cast<std::size_t>(row) * groups + group;
      __m512i dot = dots[row][0];
      if constexpr (kChains == 2) dot = _mm512_add_epi32(dot, dots[row][1]);
      sums[row] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(dot), _mm512_mul_ps(scale, _mm512_set1_ps(x.scales[at])),
                                  sums[row]);
      sums[row] = _mm512_fmadd_ps(bias, _mm512_set1_ps(x.sums[at]), sums[row]);
    }
  }
  for (int row = 0; row < kRows; ++row) results[row] = (Floats)sums[row];
}

template <int kRows>
void dot_dense_tile(const PackedLayout& layout, const std::byte* tile, const Operand& x, Floats* results) {
  constexpr int kChains = kRows == 1 ? 4 : kRows == 2 ? 2 : 1;
  const DensePairs dense;
  __m512 sums[kRows][kChains];
  for (auto& row : sums) {
    for (auto& chain : row) chain = _mm512_setzero_ps();
  }
  const auto pairs = static_cast<std::size_t>(layout.columns) / 2;
  for (std::size_t pair = 0; pair < pairs; pair += 4) {
#pragma GCC unroll 4
    for (std::size_t i = 0; i < 4; ++i, tile += 64) {
      _mm_prefetch(tile + kPrefetchBytes, _MM_HINT_T1);
      const __m512i values = dense.pair(tile);
      for (int row = 0; row < kRows; ++row) {
        auto& sum = sums[row][i % kChains];
        sum = add_dot(sum, values,
                      broadcast_word(x.values + static_cast<std::size_t>(row) * x.row_bytes, pair + i));
      }
    }
  }
  for (int row = 0; row < kRows; ++row) {
    __m512 sum = sums[row][0];
    for (int chain = 1; chain < kChains; ++chain) sum = _mm512_add_ps(sum, sums[row][chain]);
    results[row] = (Floats)sum;
  }
}

using DotTile = void (*)(const PackedLayout&, const std::byte*, const Operand&, Floats*);

template <int kRows>
DotTile dot_tile_for(const PackedLayout& layout, Products products) {
  const bool is_int8 = products == Products::kInt8;
  switch (layout.bits) {
    case 0: return dot_dense_tile<kRows>;
    case 2: return is_int8 ? dot_quads_tile<2, kRows> : dot_pairs_tile<2, kRows>;
    case 3: return is_int8 ? dot_quads_tile<3, kRows> : dot_pairs_tile<3, kRows>;
    case 4: return is_int8 ? dot_quads_tile<4, kRows> : dot_pairs_tile<4, kRows>;
    case 5: return is_int8 ? dot_quads_tile<5, kRows> : dot_pairs_tile<5, kRows>;
    case 6: return is_int8 ? dot_quads_tile<6, kRows> : dot_pairs_tile<6, kRows>;
    default: return is_int8 ? dot_quads_tile<8, kRows> : dot_pairs_tile<8, kRows>;
  }
}

template <int kRows>
void dot_few_rows(const PackedMatmulTask& task, int first_row) {
  const DotTile dot = dot_tile_for<kRows>(task.layout, task.products);
  const auto groups = static_cast<std::size_t>(task.layout.groups());
  const Operand x = task.x.from_row(static_cast<std::size_t>(first_row), groups);
  Floats sums[kRows];
  for (int tile = task.first_tile; tile < task.last_tile; ++tile) {
    dot(task.layout, task.data + static_cast<std::size_t>(tile) * task.layout.tile_bytes(), x, sums);
    for (int row = 0; row < kRows; ++row) store_tile(task, tile, first_row + row, sums[row]);
  }
}

// Many rows: a strip of tiles is decoded once, kStripColumns at a time, and all rows pass over it.

/// Decoded codes [words][kTiles][16 lanes] of a strip, and its scales and biases [groups][kTiles][16].
struct Strip {
  const std::byte* codes;
  const float* scales;
  const float* biases;
  int groups;           // in this strip; 1 for dense
  int words_per_group;  // pairs or fours
};

template <int kTiles, int kBits, bool kIsInt8>
void decode_strip(const PackedLayout& layout, const std::byte* data, int first_tile, int first_group,
                  int groups, std::byte* codes, float* scales, float* biases) {
  const CodeTables tables = code_tables<kBits>();
  constexpr int kWords = kIsInt8 ? 8 : 16;  // of 32 columns
  for (int tile = 0; tile < kTiles; ++tile) {
    const std::byte* from = data + static_cast<std::size_t>(first_tile + tile) * layout.tile_bytes() +
                            static_cast<std::size_t>(first_group) * layout.group_bytes();
    std::byte* to = codes + 64 * tile;
    for (int g = 0; g < groups; ++g, from += layout.group_bytes()) {
      for (int unit = 0; unit < layout.group_size / 32; ++unit, to += kWords * kTiles * 64) {
        const std::byte* words = from + static_cast<std::size_t>(unit) * kBits * 64;
        const auto put = [&](int word, __m512i value) {
          _mm512_storeu_si512(to + word * kTiles * 64, value);
        };
        if constexpr (kIsInt8) {
          for_each_quad<kBits>(words, put);
        } else {
          using Steps = PairSteps<kBits, true>;
          for (int step = 0; step < Steps::kSteps; ++step) {
            __m512i loaded[Steps::kWords];
            for (int i = 0; i < Steps::kWords; ++i)
              loaded[i] = load_codes(words + 64 * (step * Steps::kWords + i));
#pragma GCC unroll 16
            for (int term = 0; term < Steps::kTerms; ++term)
              put(Steps::pair(step, term), Steps::codes(loaded, term, tables));
          }
        }
      }
      const std::byte* constants = from + layout.group_code_bytes();
      store(scales + (g * kTiles + tile) * kLanes, load_values(constants, layout.type));
      store(biases + (g * kTiles + tile) * kLanes,
            load_values(constants + kLanes * layout.type_bytes(), layout.type));
    }
  }
}

template <int kTiles>
void decode_dense_strip(const PackedLayout& layout, const std::byte* data, int first_tile, int first_column,
                        int columns, std::byte* codes) {
  const DensePairs dense;
  for (int tile = 0; tile < kTiles; ++tile) {
    const std::byte* from = data + static_cast<std::size_t>(first_tile + tile) * layout.tile_bytes() +
                            static_cast<std::size_t>(first_column) * kLanes * 2;
    for (int pair = 0; pair < columns / 2; ++pair, from += 64)
      _mm512_storeu_si512(codes + (pair * kTiles + tile) * 64, dense.pair(from));
  }
}

/// The running dot product of a group.
template <bool kIsInt8>
struct DotSum {
  __m512 value = _mm512_setzero_ps();
  inline void add(__m512i codes, __m512i x) { value = add_dot(value, codes, x); }
  inline __m512 floats() const { return value; }
};
template <>
struct DotSum<true> {
  __m512i value = _mm512_setzero_si512();
  inline void add(__m512i codes, __m512i x) { value = _mm512_dpbusd_epi32(value, codes, x); }
  inline __m512 floats() const { return _mm512_cvtepi32_ps(value); }
};

/// kRows rows of x from `first_row`, columns from word `first_word` and group `first_group`, on top of what
/// y holds unless this is the first part of the columns.
template <int kRows, int kTiles, bool kIsInt8, bool kIsDense>
void multiply_strip(const PackedMatmulTask& task, const Strip& strip, int first_tile, int first_row,
                    std::size_t first_word, std::size_t first_group, bool is_first, bool is_last) {
  const auto groups = static_cast<std::size_t>(task.layout.groups());
  const auto n = static_cast<std::size_t>(task.layout.rows);
  const int column = first_tile * kLanes;
  float* y = task.y + static_cast<std::size_t>(first_row) * n + static_cast<std::size_t>(column);
  __mmask16 masks[kTiles];
  for (int tile = 0; tile < kTiles; ++tile) {
    const int left = task.layout.rows - column - tile * kLanes;
    masks[tile] = static_cast<__mmask16>(left >= kLanes ? 0xffffU : (1U << left) - 1);
  }
  __m512 sums[kRows][kTiles];
  for (int row = 0; row < kRows; ++row) {
    for (int tile = 0; tile < kTiles; ++tile) {
      sums[row][tile] = is_first ? _mm512_setzero_ps()
                                 : _mm512_maskz_loadu_ps(
                                       masks[tile], y + static_cast<std::size_t>(row) * n + tile * kLanes);
    }
  }
  const std::byte* codes = strip.codes;
  const std::byte* x[kRows];
  for (int row = 0; row < kRows; ++row)
    x[row] = task.x.values + static_cast<std::size_t>(first_row + row) * task.x.row_bytes + 4 * first_word;
  for (int g = 0; g < strip.groups; ++g) {
    DotSum<kIsInt8> dots[kRows][kTiles];
    for (int word = 0; word < strip.words_per_group; ++word, codes += kTiles * 64) {
      __m512i values[kTiles];
      for (int tile = 0; tile < kTiles; ++tile) values[tile] = _mm512_loadu_si512(codes + 64 * tile);
      for (int row = 0; row < kRows; ++row) {
        const __m512i activations = broadcast_word(x[row], static_cast<std::size_t>(word));
        for (int tile = 0; tile < kTiles; ++tile) {
          dots[row][tile].add(values[tile], activations);
        }
      }
    }
    for (int row = 0; row < kRows; ++row) x[row] += 4 * strip.words_per_group;
    if constexpr (kIsDense) {
      for (int row = 0; row < kRows; ++row) {
        for (int tile = 0; tile < kTiles; ++tile)
          sums[row][tile] = _mm512_add_ps(sums[row][tile], dots[row][tile].floats());
      }
    } else {
      for (int row = 0; row < kRows; ++row) {
        const std::size_t at =
            static_cast<std::size_t>(first_row + row) * groups + first_group + static_cast<std::size_t>(g);
        const __m512 x_sum = _mm512_set1_ps(task.x.sums[at]);
        for (int tile = 0; tile < kTiles; ++tile) {
          __m512 scale = _mm512_loadu_ps(strip.scales + (g * kTiles + tile) * kLanes);
          if constexpr (kIsInt8) scale = _mm512_mul_ps(scale, _mm512_set1_ps(task.x.scales[at]));
          sums[row][tile] = _mm512_fmadd_ps(dots[row][tile].floats(), scale, sums[row][tile]);
          sums[row][tile] = _mm512_fmadd_ps(_mm512_loadu_ps(strip.biases + (g * kTiles + tile) * kLanes),
                                            x_sum, sums[row][tile]);
        }
      }
    }
  }
  for (int row = 0; row < kRows; ++row) {
    for (int tile = 0; tile < kTiles; ++tile) {
      if (is_last) {
        store_tile(task, first_tile + tile, first_row + row, (Floats)sums[row][tile]);
      } else {
        _mm512_mask_storeu_ps(y + static_cast<std::size_t>(row) * n + tile * kLanes, masks[tile],
                              sums[row][tile]);
      }
    }
  }
}

template <int kTiles, int kBits, bool kIsInt8>
void dot_strip(const PackedMatmulTask& task, int first_tile) {
  constexpr bool kIsDense = kBits == 0;
  constexpr int kColumnsPerWord = kIsInt8 ? 4 : 2;
  const PackedLayout& layout = task.layout;
  const int group = kIsDense ? kStripColumns : layout.group_size;
  const int step = group > kStripColumns ? group : kStripColumns / group * group;
  std::byte* codes = task.scratch;
  float* scales =
      reinterpret_cast<float*>(codes + static_cast<std::size_t>(step / kColumnsPerWord) * kTiles * 64);
  float* biases = scales + static_cast<std::size_t>(step / group) * kTiles * kLanes;
  for (int column = 0; column < layout.columns; column += step) {
    const int columns = layout.columns - column < step ? layout.columns - column : step;
    const int groups = kIsDense ? 1 : columns / group;
    const int first_group = kIsDense ? 0 : column / group;
    if constexpr (kIsDense)
      decode_dense_strip<kTiles>(layout, task.data, first_tile, column, columns, codes);
    else
      decode_strip<kTiles, kBits, kIsInt8>(layout, task.data, first_tile, first_group, groups, codes, scales,
                                           biases);
    const Strip strip{codes, scales, biases, groups, columns / groups / kColumnsPerWord};
    const auto multiply = [&]<int kRows>(int row) {
      multiply_strip<kRows, kTiles, kIsInt8, kIsDense>(
          task, strip, first_tile, row, static_cast<std::size_t>(column / kColumnsPerWord),
          static_cast<std::size_t>(first_group), column == 0, column + columns == layout.columns);
    };
    constexpr int kBlock = kTiles == 1 ? 2 * kStripRows : kStripRows;
    int row = 0;
    for (; row + kBlock <= task.m; row += kBlock) multiply.template operator()<kBlock>(row);
    for (; row < task.m; ++row) multiply.template operator()<1>(row);
  }
}

template <int kBits, bool kIsInt8>
void dot_strips(const PackedMatmulTask& task) {
  int tile = task.first_tile;
  for (; tile + 3 <= task.last_tile; tile += 3) dot_strip<3, kBits, kIsInt8>(task, tile);
  for (; tile < task.last_tile; ++tile) dot_strip<1, kBits, kIsInt8>(task, tile);
}

void dot_many_rows(const PackedMatmulTask& task) {
  const bool is_int8 = task.products == Products::kInt8;
  switch (task.layout.bits) {
    case 0: return dot_strips<0, false>(task);
    case 2: return is_int8 ? dot_strips<2, true>(task) : dot_strips<2, false>(task);
    case 3: return is_int8 ? dot_strips<3, true>(task) : dot_strips<3, false>(task);
    case 4: return is_int8 ? dot_strips<4, true>(task) : dot_strips<4, false>(task);
    case 5: return is_int8 ? dot_strips<5, true>(task) : dot_strips<5, false>(task);
    case 6: return is_int8 ? dot_strips<6, true>(task) : dot_strips<6, false>(task);
    default: return is_int8 ? dot_strips<8, true>(task) : dot_strips<8, false>(task);
  }
}

// Up to here codes are decoded again for each block of rows, which costs less than decoding a strip.
constexpr int kFewDotRows = 16;

void dot_products(const PackedMatmulTask& task) {
  if (task.m > kFewDotRows) return dot_many_rows(task);
  int row = 0;
  for (; row + 8 <= task.m; row += 8) dot_few_rows<8>(task, row);
  for (; row + 4 <= task.m; row += 4) dot_few_rows<4>(task, row);
  for (; row + 2 <= task.m; row += 2) dot_few_rows<2>(task, row);
  for (; row < task.m; ++row) dot_few_rows<1>(task, row);
}

}  // namespace
