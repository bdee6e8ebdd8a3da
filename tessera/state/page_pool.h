// Where keys and values live: pages of memory, and which of them a row holds.
//
// A pool serves a group of layers whose rows grow together. One page id stands for one page in each
// of the group's layers, so that a row has one table for all of them. Memory comes in slabs that
// never move and go back when the pool ends; a page that nobody holds is used again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "tessera/kernels/pages.h"

namespace tessera::state {

class PagePool;

/// One page id of a pool, given back when the last holder lets go. `owners` counts the rows that
/// have it in their table: a page with more than one owner is not written to.
struct Page {
  Page(std::shared_ptr<PagePool> pool, int id) : pool(std::move(pool)), id(id) {}
  ~Page();
  Page(const Page&) = delete;
  Page& operator=(const Page&) = delete;

  std::shared_ptr<PagePool> pool;
  int id;
  int owners = 0;
};

/// Memory for pages of several layers. Pages are taken and returned from any thread (MLX drops its
/// primitives on the stream's thread); everything else belongs to the engine's thread.
class PagePool : public std::enable_shared_from_this<PagePool> {
 public:
  /// One shape per layer; all layers of a pool have the same page_tokens.
  static std::shared_ptr<PagePool> create(std::vector<kernels::PageShape> layers);
  ~PagePool();
  PagePool(const PagePool&) = delete;
  PagePool& operator=(const PagePool&) = delete;

  int page_tokens() const { return layers_.front().page_tokens; }
  const kernels::PageShape& shape(int layer) const { return layers_.at(static_cast<std::size_t>(layer)); }

  /// A page id that no one else holds. Throws ResourceExhausted when the system has no memory.
  std::shared_ptr<Page> take();

  /// The memory of page `id` in `layer`. Valid while the page is held.
  std::byte* memory(int layer, int id);

  int pages_in_use() const;
  std::size_t reserved_bytes() const;

 private:
  friend struct Page;
  explicit PagePool(std::vector<kernels::PageShape> layers);
  void give_back(int id);
  void add_slab();

  struct Slab {
    std::byte* data;
    std::size_t bytes;
  };

  std::vector<kernels::PageShape> layers_;
  std::vector<std::size_t> layer_offsets_;  // of each layer's page inside a page's memory
  std::size_t page_bytes_ = 0;              // of all layers together
  int pages_per_slab_ = 1;
  mutable std::mutex mutex_;
  std::vector<Slab> slabs_;
  std::vector<int> free_;
  int n_pages_ = 0;
};

/// The pages of one row, shared by the layer states of a group. The row's states move it forward
/// together: whoever comes first to a position makes room for all.
class PageRow {
 public:
  explicit PageRow(std::shared_ptr<PagePool> pool) : pool_(std::move(pool)) {}
  ~PageRow();
  PageRow(const PageRow&) = delete;
  PageRow& operator=(const PageRow&) = delete;

  /// Makes positions [start, start + length) writable: adds pages, and replaces a partly filled page
  /// that another row or a pending read still needs. Called by every layer with the same arguments.
  void prepare(int start, int length);

  /// Drops the pages wholly at or beyond position `length`. Called by every layer that is trimmed; the
  /// layers of a group are trimmed together before any of them is read or written again.
  void truncate(int length);

  /// The next prepare() leaves the partly filled page as it is, for reads and copies that have not run,
  /// and takes a new one.
  void protect_tail() { is_tail_protected_ = true; }

  /// A row that shares all pages with this one.
  std::shared_ptr<PageRow> clone() const;

  const std::vector<std::shared_ptr<Page>>& pages() const { return pages_; }
  const std::shared_ptr<PagePool>& pool() const { return pool_; }
  /// Grows whenever pages() changes.
  uint64_t version() const { return version_; }

 private:
  void append(std::shared_ptr<Page> page);

  std::shared_ptr<PagePool> pool_;
  std::vector<std::shared_ptr<Page>> pages_;
  bool is_tail_protected_ = false;
  int prepared_end_ = 0;  // positions below are prepared for the layers still to come
  uint64_t version_ = 0;
};

}  // namespace tessera::state
