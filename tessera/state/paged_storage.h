// One layer's keys and values of one row, in the pages of a PageRow.
#pragma once

#include <mlx/array.h>

#include <memory>
#include <utility>
#include <vector>

#include "tessera/kernels/attention.h"
#include "tessera/state/page_pool.h"

namespace tessera::state {

/// Appends into pages and hands out what a read needs. What is stored is neither moved nor copied by
/// an append; a partly filled page is copied once when another row shares it or after a trim into it.
class PagedStorage {
 public:
  /// `layer` is the layer's number in the row's pool. Starts at position `length` of the row.
  PagedStorage(std::shared_ptr<PageRow> row, int layer, int length = 0);

  /// Writes k and v behind what is stored.
  void append(const mlx::core::array& k, const mlx::core::array& v);
  /// An append in two steps: makes `count` positions behind what is stored writable, then takes them as
  /// written once `fence` has been evaluated. Between the two, table() covers them.
  void prepare(int count);
  void commit(const mlx::core::array& fence);
  std::shared_ptr<const kernels::PageTable> table() const;

  /// Everything stored, the last append included.
  kernels::PagedKeys view() const;
  /// Forgets the newest n positions. Throws InvalidArgument when there are fewer.
  void trim(int n);
  /// The same content over a clone of the row.
  PagedStorage clone(std::shared_ptr<PageRow> row) const;

  int length() const { return length_; }
  const kernels::PageShape& shape() const { return row_->pool()->shape(layer_); }
  const mlx::core::array& fence() const { return fence_; }

 private:
  std::shared_ptr<const kernels::PageTable> single_page(const std::shared_ptr<Page>& page) const;
  std::shared_ptr<Page> partly_filled_page() const;

  std::shared_ptr<PageRow> row_;
  int layer_;
  int length_;
  int prepared_ = 0;  // positions between prepare() and commit()
  mlx::core::array fence_;
  std::shared_ptr<Page> tail_;  // the page this layer has partly filled, absent at a page boundary

  // The row's pages as this layer's pointers, rebuilt when the row changes.
  mutable std::shared_ptr<const kernels::PageTable> table_;
  mutable uint64_t table_version_ = 0;
};

}  // namespace tessera::state
