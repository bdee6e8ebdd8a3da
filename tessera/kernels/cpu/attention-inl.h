// Attention for one target. Included inside its namespace by target-inl.h.
//
// Online softmax over tiles of keys (Milakov & Gimelshein 2018; FlashAttention-2, Dao 2023, alg. 1). Keys
// lie in blocks of 16 positions with a position per lane, so scores need no sums across lanes; values lie
// with an element per lane. In bfloat16 two neighbours share a 32-bit word (two elements of a key, two
// positions of a value), as the dot-product instruction wants them; in float32 a word is one number.
#pragma once

#include "tessera/kernels/cpu/vectors-inl.h"

namespace {

constexpr int kTile = kAttentionTile;
constexpr int kTileBlocks = kTile / kLanes;
constexpr float kMinusInfinity = -__builtin_inff();
#if defined(__AVX512F__)
constexpr int kQueryRows = 4;  // rows that share a loaded key or value
#else
constexpr int kQueryRows = 1;
#endif
constexpr int kValueVectors = 4;  // of an output row that stay in registers

inline int smaller(int a, int b) { return a < b ? a : b; }
inline int larger(int a, int b) { return a > b ? a : b; }

/// sum + stored * x for each lane; x is one word for all.
template <bool kPairs>
inline Floats add_term(Floats sum, Words stored, uint32_t x) {
  if constexpr (!kPairs) {
    return sum + bit_cast<Floats>(stored) * broadcast(bit_cast<float>(x));
  } else {
#if defined(__AVX512BF16__)
    return (Floats)_mm512_dpbf16_ps((__m512)sum, (__m512bh)stored,
                                    (__m512bh)_mm512_set1_epi32(static_cast<int>(x)));
#else
    sum += bit_cast<Floats>(stored << 16) * broadcast(bit_cast<float>(x << 16));
    return sum + bit_cast<Floats>(stored & 0xffff0000U) * broadcast(bit_cast<float>(x & 0xffff0000U));
#endif
  }
}

/// 32 floats as 16 words of two bfloat16 each, in order.
inline Words as_bfloat16_pairs(const Floats* x) {
  const Words low = bit_cast<Words>(round_to_bfloat16(x[0]));
  const Words high = bit_cast<Words>(round_to_bfloat16(x[1]));
#if defined(__AVX512BF16__)
  static_cast<void>(low), static_cast<void>(high);
  return (Words)_mm512_cvtne2ps_pbh((__m512)x[1], (__m512)x[0]);
#else
  Words pairs;
  for (int i = 0; i < kLanes; ++i) {
    const Words& from = i < 8 ? low : high;
    pairs[i] = (from[2 * i % kLanes] >> 16) | from[2 * i % kLanes + 1];
  }
  return pairs;
#endif
}

/// The running softmax of one query row.
struct Row {
  float largest;
  float sum;
};

/// A group of rows that pass over a tile together.
template <int kRows>
struct QueryGroup {
  const uint32_t* q[kRows];
  float* out[kRows];
  Row* rows[kRows];
  const float* mask[kRows];       // of key 0, or absent
  int first[kRows], last[kRows];  // visible keys [first, last)
};

/// scores[row][block] of the first `blocks` blocks of a tile.
template <bool kPairs, int kRows>
void score_tile(const QueryGroup<kRows>& group, const std::byte* keys, int blocks, int words,
                Floats (*scores)[kTileBlocks]) {
  const std::size_t block_bytes = static_cast<std::size_t>(words) * 64;
  if (blocks == kTileBlocks) {
    Floats sums[kRows][kTileBlocks] = {};
    for (int word = 0; word < words; ++word, keys += 64) {
      Words key[kTileBlocks];
      for (int block = 0; block < kTileBlocks; ++block)
        key[block] = load<Words>(keys + static_cast<std::size_t>(block) * block_bytes);
      for (int row = 0; row < kRows; ++row) {
        const uint32_t q = group.q[row][word];
        for (int block = 0; block < kTileBlocks; ++block)
          sums[row][block] = add_term<kPairs>(sums[row][block], key[block], q);
      }
    }
    std::memcpy(scores, sums, sizeof sums);
    return;
  }
  for (int block = 0; block < blocks; ++block, keys += block_bytes) {
    Floats sums[kRows] = {};
    for (int word = 0; word < words; ++word) {
      const Words key = load<Words>(keys + static_cast<std::size_t>(word) * 64);
      for (int row = 0; row < kRows; ++row) sums[row] = add_term<kPairs>(sums[row], key, group.q[row][word]);
    }
    for (int row = 0; row < kRows; ++row) scores[row][block] = sums[row];
  }
}

/// Turns a row's scores of keys [first, first + count) into weights relative to its running maximum;
/// returns what the sums so far have to be multiplied with, or a negative number when no key is visible.
template <bool kPairs>
float weigh_tile(Floats* scores, int blocks, int first, int count, int visible_first, int visible_last,
                 const float* mask, float scale, Row& row, uint32_t* weights) {
  const bool is_whole = visible_first <= first && visible_last >= first + count && count == blocks * kLanes;
  Floats best = broadcast(kMinusInfinity);
  for (int block = 0; block < blocks; ++block) {
    Floats score = scores[block] * broadcast(scale);
    if (mask != nullptr) {
      float values[kLanes] = {};
      const int at = first + block * kLanes;
      const int left = smaller(kLanes, first + count - at);
      std::memcpy(values, mask + at, static_cast<std::size_t>(left) * sizeof(float));
      score += load<Floats>(values);
    }
    if (!is_whole) {
      const Ints key = Ints{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15} + (first + block * kLanes);
      score = key < smaller(visible_last, first + count) ? score : broadcast(kMinusInfinity);
      score = key >= visible_first ? score : broadcast(kMinusInfinity);
    }
    scores[block] = score;
    best = max(best, score);
  }
  const float tile_largest = largest(best);
  if (tile_largest == kMinusInfinity) {
    // Nothing is visible, or what is visible is damaged and the maximum has forgotten it.
    for (int block = 0; block < blocks; ++block)
      row.sum += sum(scores[block] == scores[block] ? Floats{} : scores[block]);
    return -1.0F;
  }
  const float largest_now = row.largest > tile_largest ? row.largest : tile_largest;
  const float factor =
      row.largest == kMinusInfinity ? 0.0F : exp_nonpositive(broadcast(row.largest - largest_now))[0];
  Floats total{};
  for (int block = 0; block < blocks; ++block) {
    scores[block] = exp_nonpositive(scores[block] - broadcast(largest_now));
    total += scores[block];
  }
  row.largest = largest_now;
  row.sum = row.sum * factor + sum(total);
  if constexpr (kPairs) {
    if (blocks % 2 != 0) scores[blocks] = Floats{};
    for (int pair = 0; pair < (blocks + 1) / 2; ++pair) {
      const Words words = as_bfloat16_pairs(scores + 2 * pair);
      std::memcpy(weights + pair * kLanes, &words, sizeof words);
    }
  } else {
    std::memcpy(weights, scores, static_cast<std::size_t>(blocks) * sizeof(Floats));
  }
  return factor;
}

/// out = factor * out + weights . values for `count` positions.
template <bool kPairs, int kRows, int kVectors>
void add_values(const QueryGroup<kRows>& group, const float* factors, const uint32_t (*weights)[kTile],
                const std::byte* values, int count, int dim, int first_element) {
  Floats sums[kRows][kVectors];
  for (int row = 0; row < kRows; ++row) {
    for (int i = 0; i < kVectors; ++i)
      sums[row][i] = load<Floats>(group.out[row] + first_element + i * kLanes) * broadcast(factors[row]);
  }
  const std::size_t word_bytes = static_cast<std::size_t>(dim) * 4;
  const std::byte* from = values + static_cast<std::size_t>(first_element) * 4;
  const int words = kPairs ? count / 2 : count;
  for (int word = 0; word < words; ++word, from += word_bytes) {
    Words value[kVectors];
    for (int i = 0; i < kVectors; ++i) value[i] = load<Words>(from + i * 64);
    for (int row = 0; row < kRows; ++row) {
      const uint32_t weight = weights[row][word];
      for (int i = 0; i < kVectors; ++i) sums[row][i] = add_term<kPairs>(sums[row][i], value[i], weight);
    }
  }
  if (kPairs && count % 2 != 0) {
    // The other position of the last pair may hold anything, even NaN.
    for (int i = 0; i < kVectors; ++i) {
      const Words value = load<Words>(from + i * 64) & 0xffffU;
      for (int row = 0; row < kRows; ++row)
        sums[row][i] = add_term<kPairs>(sums[row][i], value, weights[row][words] & 0xffffU);
    }
  }
  for (int row = 0; row < kRows; ++row) {
    for (int i = 0; i < kVectors; ++i) store(group.out[row] + first_element + i * kLanes, sums[row][i]);
  }
}

template <bool kPairs, int kRows>
void attend_tile(const AttentionTask& task, const QueryGroup<kRows>& group, int first, int count) {
  const std::byte* page = task.pages[first / task.page_tokens];
  const int in_page = first % task.page_tokens;
  const int words = kPairs ? task.key_dim / 2 : task.key_dim;
  const int blocks = (count + kLanes - 1) / kLanes;
  const std::byte* keys = page + task.key_offset +
                          static_cast<std::size_t>(in_page / kLanes) * static_cast<std::size_t>(words) * 64;
  const std::byte* values =
      page + task.value_offset +
      static_cast<std::size_t>(in_page) * static_cast<std::size_t>(task.value_dim) * (kPairs ? 2 : 4);
  Floats scores[kRows][kTileBlocks];
  score_tile<kPairs, kRows>(group, keys, blocks, words, scores);
  uint32_t weights[kRows][kTile];
  float factors[kRows];
  for (int row = 0; row < kRows; ++row) {
    factors[row] = weigh_tile<kPairs>(scores[row], blocks, first, count, group.first[row], group.last[row],
                                      group.mask[row], task.scale, *group.rows[row], weights[row]);
    if (factors[row] >= 0.0F) continue;
    factors[row] = 1.0F;
    std::memset(weights[row], 0, sizeof weights[row]);
  }
  int element = 0;
  for (; element + kValueVectors * kLanes <= task.value_dim; element += kValueVectors * kLanes)
    add_values<kPairs, kRows, kValueVectors>(group, factors, weights, values, count, task.value_dim, element);
  for (; element < task.value_dim; element += kLanes)
    add_values<kPairs, kRows, 1>(group, factors, weights, values, count, task.value_dim, element);
}

template <bool kPairs, int kRows>
void attend_rows(const AttentionTask& task, int first_row, const uint32_t* q, Row* rows) {
  const int queries = task.end - task.begin;
  const int words = kPairs ? task.key_dim / 2 : task.key_dim;
  QueryGroup<kRows> group;
  int first_key = task.last_key;
  int last_key = task.first_key;
  for (int i = 0; i < kRows; ++i) {
    const int head = (first_row + i) / queries;
    const int query = task.begin + (first_row + i) % queries;
    group.q[i] = q + static_cast<std::size_t>(first_row + i) * static_cast<std::size_t>(words);
    group.out[i] = task.out + static_cast<std::size_t>(head) * task.out_head_stride +
                   static_cast<std::size_t>(query) * task.out_query_stride;
    group.rows[i] = rows + first_row + i;
    group.mask[i] = task.mask == nullptr
                        ? nullptr
                        : task.mask + static_cast<std::size_t>(head) * task.mask_head_stride +
                              static_cast<std::size_t>(query) * task.mask_query_stride;
    const int position = task.position + query;
    group.last[i] = task.is_causal ? smaller(task.last_key, position + 1) : task.last_key;
    group.first[i] = task.window > 0 ? larger(task.first_key, position + 1 - task.window) : task.first_key;
    first_key = smaller(first_key, group.first[i]);
    last_key = larger(last_key, group.last[i]);
    *group.rows[i] = Row{kMinusInfinity, 0.0F};
    std::memset(group.out[i], 0, static_cast<std::size_t>(task.value_dim) * sizeof(float));
  }
  // Tiles begin at multiples of a tile within a page, whatever the first visible key is.
  const int tile = smaller(kTile, task.page_tokens);
  for (int first = first_key / tile * tile; first < last_key;) {
    const int left_in_page = task.page_tokens - first % task.page_tokens;
    const int count = smaller(smaller(tile, left_in_page), last_key - first);
    attend_tile<kPairs, kRows>(task, group, first, count);
    first += smaller(tile, left_in_page);
  }
}

/// Queries as words that meet a key's words.
template <bool kPairs>
void prepare_queries(const AttentionTask& task, uint32_t* words) {
  const int queries = task.end - task.begin;
  for (int row = 0; row < task.rep * queries; ++row) {
    const float* q = task.q + static_cast<std::size_t>(row / queries) * task.q_head_stride +
                     static_cast<std::size_t>(task.begin + row % queries) * task.q_query_stride;
    if constexpr (!kPairs) {
      std::memcpy(words, q, static_cast<std::size_t>(task.key_dim) * sizeof(float));
      words += task.key_dim;
    } else {
      int d = 0;
      for (; d + 2 * kLanes <= task.key_dim; d += 2 * kLanes, words += kLanes) {
        const Floats values[2] = {load<Floats>(q + d), load<Floats>(q + d + kLanes)};
        const Words pairs = as_bfloat16_pairs(values);
        std::memcpy(words, &pairs, sizeof pairs);
      }
      if (d < task.key_dim) {
        float tail[2 * kLanes] = {};
        const int left = task.key_dim - d;
        std::memcpy(tail, q + d, static_cast<std::size_t>(left) * sizeof(float));
        const Floats values[2] = {load<Floats>(tail), load<Floats>(tail + kLanes)};
        const Words pairs = as_bfloat16_pairs(values);
        std::memcpy(words, &pairs, static_cast<std::size_t>(left / 2) * sizeof(uint32_t));
        words += left / 2;
      }
    }
  }
}

template <bool kPairs>
void attend(const AttentionTask& task) {
  const int n_rows = task.rep * (task.end - task.begin);
  uint32_t* q = reinterpret_cast<uint32_t*>(task.scratch);
  Row* rows =
      reinterpret_cast<Row*>(q + static_cast<std::size_t>(n_rows) * static_cast<std::size_t>(task.key_dim));
  prepare_queries<kPairs>(task, q);
  int row = 0;
  for (; row + kQueryRows <= n_rows; row += kQueryRows) attend_rows<kPairs, kQueryRows>(task, row, q, rows);
  if constexpr (kQueryRows > 1) {
    if (row + 3 == n_rows) attend_rows<kPairs, 3>(task, row, q, rows), row += 3;
    if (row + 2 == n_rows) attend_rows<kPairs, 2>(task, row, q, rows), row += 2;
  }
  for (; row < n_rows; ++row) attend_rows<kPairs, 1>(task, row, q, rows);

  const int queries = task.end - task.begin;
  for (int r = 0; r < n_rows; ++r) {
    if (task.stats != nullptr) {
      task.stats[2 * r] = rows[r].largest;
      task.stats[2 * r + 1] = rows[r].sum;
      continue;
    }
    float* out = task.out + static_cast<std::size_t>(r / queries) * task.out_head_stride +
                 static_cast<std::size_t>(task.begin + r % queries) * task.out_query_stride;
    const float inverse = rows[r].sum == 0.0F ? 0.0F : 1.0F / rows[r].sum;  // a row that sees nothing is 0
    for (int d = 0; d < task.value_dim; d += kLanes)
      store(out + d, load<Floats>(out + d) * broadcast(inverse));
  }
}

}  // namespace

void attention(const AttentionTask& task) {
  if (task.is_bfloat16)
    attend<true>(task);
  else
    attend<false>(task);
}

void merge_attention(const float* partial, const float* stats, int parts, std::size_t part_rows,
                     std::size_t dim, float* out) {
  float largest = stats[0];
  for (int part = 1; part < parts; ++part) {
    const float other = stats[static_cast<std::size_t>(part) * part_rows * 2];
    largest = other > largest ? other : largest;
  }
  std::memset(out, 0, dim * sizeof(float));
  float total = 0.0F;
  for (int part = 0; part < parts; ++part) {
    const float* stat = stats + static_cast<std::size_t>(part) * part_rows * 2;
    if (stat[0] == kMinusInfinity) {
      total += stat[1];  // 0, or NaN
      continue;
    }
    const float factor = exp_nonpositive(broadcast(stat[0] - largest))[0];
    total += factor * stat[1];
    const float* from = partial + static_cast<std::size_t>(part) * part_rows * dim;
    for (std::size_t d = 0; d < dim; d += kLanes)
      store(out + d, load<Floats>(out + d) + load<Floats>(from + d) * broadcast(factor));
  }
  const float inverse = total == 0.0F ? 0.0F : 1.0F / total;
  for (std::size_t d = 0; d < dim; d += kLanes) store(out + d, load<Floats>(out + d) * broadcast(inverse));
}
