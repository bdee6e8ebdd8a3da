// Keys and values in pages: writing, copying and gathering them.
//
// A page holds a fixed number of positions of one layer, all KV heads: first the keys, then the values,
// each [Hkv, page_tokens, D] in the order that our attention kernel reads (PagePlane). Pages are memory that a state owns
// and that these operations change in place, outside of MLX's graph of values. What orders them is
// the fence: every operation takes the fence of the state's last write as an input, and every write
// returns a new one. A write that nobody evaluates does not happen, so a state hands out its fence.
#pragma once

#include <mlx/array.h>

#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

namespace tessera::kernels {

/// How the positions and elements of one head lie in a page: position t, element d at
/// (t / b) b D + (d / c) b c + (t mod b) c + d mod c. Keys come in blocks of b = 16 positions, a position
/// per lane, with c elements in each 32-bit word; values in 32-bit words of b positions, an element per lane.
/// With b = c = 1 it is the plain [page_tokens, D].
struct PagePlane {
  std::size_t offset = 0;  // of head 0 in the page, in bytes
  int page_tokens = 0, dim = 0;
  int block_tokens = 1;    // b
  int chunk_elements = 1;  // c
  std::size_t item_bytes = 4;

  std::size_t head_bytes() const { return items(page_tokens) * item_bytes; }
  /// Items of so many positions, whole blocks.
  std::size_t items(int tokens) const {
    return static_cast<std::size_t>((tokens + block_tokens - 1) / block_tokens * block_tokens) *
           static_cast<std::size_t>(dim);
  }
  /// The first element of a position, in items from the start of its head.
  std::size_t first_item(int token) const {
    return items(token / block_tokens * block_tokens) +
           static_cast<std::size_t>(token % block_tokens * chunk_elements);
  }
};

struct PageShape {
  int page_tokens = 128;  // positions of one page
  int n_kv_heads = 0;     // Hkv
  int key_dim = 0;        // D
  int value_dim = 0;      // Dv
  mlx::core::Dtype dtype = mlx::core::float32;

  std::size_t key_bytes() const { return plane_bytes(key_dim); }
  std::size_t value_bytes() const { return plane_bytes(value_dim); }
  std::size_t page_bytes() const { return key_bytes() + value_bytes(); }

  /// Whether our attention kernel reads such pages in place.
  bool is_readable_in_place() const {
    const bool has_pairs = dtype == mlx::core::bfloat16;
    return page_tokens % 16 == 0 && value_dim % 16 == 0 && (dtype == mlx::core::float32 || has_pairs) &&
           (!has_pairs || key_dim % 2 == 0);
  }
  PagePlane keys() const {
    const int chunk = is_readable_in_place() && dtype.size() == 2 ? 2 : 1;
    return {0, page_tokens, key_dim, is_readable_in_place() ? 16 : 1, chunk, dtype.size()};
  }
  PagePlane values() const {
    const int block = is_readable_in_place() && dtype.size() == 2 ? 2 : 1;
    return {key_bytes(), page_tokens, value_dim, block, 1, dtype.size()};
  }

 private:
  std::size_t plane_bytes(int dim) const {
    return static_cast<std::size_t>(n_kv_heads) * static_cast<std::size_t>(page_tokens) *
           static_cast<std::size_t>(dim) * dtype.size();
  }
};

/// The pages of one row in one layer, in the order of positions. Immutable; operations share it
/// until they have run, and it keeps the pages' memory alive.
struct PageTable {
  std::vector<std::byte*> pages;      // page i holds positions [i * page_tokens, (i + 1) * page_tokens)
  std::shared_ptr<const void> owner;  // keeps the memory of `pages`
};

/// The fence of a state that has written nothing yet.
mlx::core::array initial_fence();

/// Writes k and v at positions [start, start + L) and returns the new fence, an int32 scalar.
/// k [1, Hkv, L, D], v [1, Hkv, L, Dv], any strides, in the pages' dtype or, for bfloat16 pages, in float32:
/// then they are rounded.
/// Throws InvalidArgument on a mismatch of shape or dtype. REQUIRES: the table covers the positions.
/// Never runs inside `compile` or a checkpoint, has no gradient, and is never merged with another.
mlx::core::array write_pages(const PageShape& shape, std::shared_ptr<const PageTable> table, int start,
                             const mlx::core::array& k, const mlx::core::array& v,
                             const mlx::core::array& fence);

/// Copies the first `tokens` positions of page 0 of `from` into page 0 of `to`; returns the new fence.
/// REQUIRES: both tables have a page, tokens <= shape.page_tokens.
mlx::core::array copy_page(const PageShape& shape, std::shared_ptr<const PageTable> from,
                           std::shared_ptr<const PageTable> to, int tokens, const mlx::core::array& fence);

/// Positions [start, start + length) as contiguous k [1, Hkv, length, D] and v [1, Hkv, length, Dv]
/// for composed kernels. Has no gradient. REQUIRES: the table covers the positions, length > 0.
std::pair<mlx::core::array, mlx::core::array> gather_pages(const PageShape& shape,
                                                           std::shared_ptr<const PageTable> table, int start,
                                                           int length, const mlx::core::array& fence);

}  // namespace tessera::kernels
