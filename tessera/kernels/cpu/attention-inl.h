// Attention for one target. Included inside its namespace by target-inl.h.
//
// Online softmax over tiles of keys (Milakov & Gimelshein 2018; FlashAttention-2, Dao 2023, alg. 1).
// With many query rows a tile of keys is transposed once, so that lanes are keys; with few, a lane is an
// element of the head and each score is summed across lanes.
#pragma once

#include "tessera/kernels/cpu/vectors-inl.h"

namespace {

constexpr int kTile = kAttentionTile;
constexpr int kTileVectors = kTile / kLanes;
constexpr int kUntransposedRows = 4;  // below, transposing costs more than it saves
constexpr float kMinusInfinity = -__builtin_inff();

inline int smaller(int a, int b) { return a < b ? a : b; }

/// The running softmax of one query row.
struct Row {
  float largest = kMinusInfinity;
  float sum = 0.0F;
};

/// keys[tile][d] -> transposed[d][key], zero beyond `count`.
void transpose_keys(const float* k, int count, int dim, float* transposed) {
  for (int key = 0; key < kTile; ++key) {
    for (int d = 0; d < dim; ++d) {
      transposed[d * kTile + key] =
          key < count
              ? k[static_cast<std::size_t>(key) * static_cast<std::size_t>(dim) + static_cast<std::size_t>(d)]
              : 0.0F;
    }
  }
}

void scores_by_key(const float* q, const float* transposed, int dim, Floats* scores) {
  Floats result[kTileVectors] = {};
  for (int d = 0; d < dim; ++d) {
    const Floats value = broadcast(q[d]);
    for (int i = 0; i < kTileVectors; ++i)
      result[i] += value * load<Floats>(transposed + d * kTile + i * kLanes);
  }
  for (int i = 0; i < kTileVectors; ++i) scores[i] = result[i];
}

void scores_by_element(const float* q, const float* k, int count, int dim, float* scores) {
  for (int key = 0; key < count; ++key, k += dim) {
    Floats dot{};
    for (int d = 0; d < dim; d += kLanes) dot += load<Floats>(q + d) * load<Floats>(k + d);
    scores[key] = sum(dot);
  }
}

/// Folds a tile's scores (already scaled, -inf where masked) into a row.
void fold(Floats* scores, int count, const float* v, int dim, Row& row, float* out) {
  Floats best = scores[0];
  for (int i = 1; i < kTileVectors; ++i) best = max(best, scores[i]);
  const float tile_largest = largest(best);
  if (tile_largest == kMinusInfinity) return;  // nothing of this tile is visible to the row
  const float largest_now = row.largest > tile_largest ? row.largest : tile_largest;
  const float factor = row.largest == kMinusInfinity
                           ? 0.0F
                           : sum(exp_nonpositive(broadcast(row.largest - largest_now))) / kLanes;
  Floats total{};
  for (int i = 0; i < kTileVectors; ++i) {
    scores[i] = exp_nonpositive(scores[i] - broadcast(largest_now));
    total += scores[i];
  }
  row.largest = largest_now;
  row.sum = row.sum * factor + sum(total);
  float weights[kTile];
  std::memcpy(weights, scores, sizeof weights);
  for (int d = 0; d < dim; d += kLanes) {
    Floats even = load<Floats>(out + d) * broadcast(factor);
    Floats odd{};
    const float* value = v + d;
    int key = 0;
    for (; key + 1 < count; key += 2, value += 2 * dim) {
      even += broadcast(weights[key]) * load<Floats>(value);
      odd += broadcast(weights[key + 1]) * load<Floats>(value + dim);
    }
    if (key < count) even += broadcast(weights[key]) * load<Floats>(value);
    store(out + d, even + odd);
  }
}

}  // namespace

void attention(const AttentionTask& task) {
  const int queries = task.end - task.begin;
  const int n_rows = task.rep * queries;
  const auto key_dim = static_cast<std::size_t>(task.key_dim);
  const auto value_dim = static_cast<std::size_t>(task.value_dim);
  const bool is_transposed = n_rows > kUntransposedRows;
  float* const transposed = task.scratch;
  Row* const rows = reinterpret_cast<Row*>(task.scratch + static_cast<std::size_t>(kTile) * key_dim);
  for (int r = 0; r < n_rows; ++r) rows[r] = Row{};
  std::memset(task.out, 0, static_cast<std::size_t>(n_rows) * value_dim * sizeof(float));
  const int last_visible = task.is_causal ? task.stored - task.length + task.end : task.stored;
  const int last_key = smaller(task.last_key, last_visible);

  for (int first = task.first_key; first < last_key; first += kTile) {
    const int count = smaller(kTile, last_key - first);
    const float* k = task.k + static_cast<std::size_t>(first) * key_dim;
    if (is_transposed) transpose_keys(k, count, task.key_dim, transposed);
    for (int r = 0; r < n_rows; ++r) {
      const int query = task.begin + r % queries;
      const int visible =
          task.is_causal ? smaller(count, task.stored - task.length + query + 1 - first) : count;
      if (visible <= 0) continue;
      const float* q =
          task.q + (static_cast<std::size_t>(r / queries) * static_cast<std::size_t>(task.length) +
                    static_cast<std::size_t>(query)) *
                       key_dim;
      Floats scores[kTileVectors];
      if (!is_transposed) {
        float plain[kTile] = {};
        scores_by_element(q, k, visible, task.key_dim, plain);
        std::memcpy(scores, plain, sizeof plain);
      } else {
        scores_by_key(q, transposed, task.key_dim, scores);
      }
      for (int i = 0; i < kTileVectors; ++i) {
        const Ints key = Ints{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15} + i * kLanes;
        scores[i] = key < visible ? scores[i] * broadcast(task.scale) : broadcast(kMinusInfinity);
      }
      fold(scores, visible, task.v + static_cast<std::size_t>(first) * value_dim, task.value_dim, rows[r],
           task.out + static_cast<std::size_t>(r) * value_dim);
    }
  }
  for (int r = 0; r < n_rows; ++r) {
    const Row& row = rows[r];
    if (task.stats != nullptr) {
      task.stats[2 * r] = row.largest;
      task.stats[2 * r + 1] = row.sum;
      continue;
    }
    float* out = task.out + static_cast<std::size_t>(r) * value_dim;
    const float inverse = 1.0F / row.sum;
    for (std::size_t d = 0; d < value_dim; d += kLanes)
      store(out + d, load<Floats>(out + d) * broadcast(inverse));
  }
}
