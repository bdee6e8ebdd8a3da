#include "tessera/state/paged_storage.h"

#include <utility>

#include "tessera/base/check.h"

namespace tessera::state {

namespace mx = mlx::core;

PagedStorage::PagedStorage(std::shared_ptr<PageRow> row, int layer, int length)
    : row_(std::move(row)), layer_(layer), length_(length), fence_(kernels::initial_fence()) {
  tail_ = partly_filled_page();
}

std::shared_ptr<Page> PagedStorage::partly_filled_page() const {
  const int page_tokens = row_->pool()->page_tokens();
  if (length_ % page_tokens == 0) return nullptr;
  return row_->pages().at(static_cast<std::size_t>(length_ / page_tokens));
}

std::shared_ptr<const kernels::PageTable> PagedStorage::single_page(const std::shared_ptr<Page>& page) const {
  return std::make_shared<kernels::PageTable>(
      kernels::PageTable{{row_->pool()->memory(layer_, page->id)}, page});
}

std::shared_ptr<const kernels::PageTable> PagedStorage::table() const {
  if (table_ && table_version_ == row_->version()) return table_;
  auto pages = std::make_shared<std::vector<std::shared_ptr<Page>>>(row_->pages());
  auto table = std::make_shared<kernels::PageTable>();
  table->pages.reserve(pages->size());
  for (const auto& page : *pages) table->pages.push_back(row_->pool()->memory(layer_, page->id));
  table->owner = std::move(pages);
  table_ = std::move(table);
  table_version_ = row_->version();
  return table_;
}

void PagedStorage::append(const mx::array& k, const mx::array& v) {
  const int count = k.ndim() == 4 ? k.shape(2) : 0;
  if (count < 1) base::fail_argument("[state.append] keys must be [B, Hkv, L, D] with L of at least 1");
  prepare(count);
  commit(kernels::write_pages(shape(), table(), length_, k, v, fence_));
}

void PagedStorage::prepare(int count) {
  const std::shared_ptr<Page> old_tail = tail_;
  row_->prepare(length_, count);
  if (old_tail) {
    const int page_tokens = row_->pool()->page_tokens();
    const auto& new_tail = row_->pages().at(static_cast<std::size_t>(length_ / page_tokens));
    if (new_tail != old_tail) {
      fence_ = kernels::copy_page(shape(), single_page(old_tail), single_page(new_tail),
                                  length_ % page_tokens, fence_);
    }
  }
  prepared_ = count;
}

void PagedStorage::commit(const mx::array& fence) {
  fence_ = fence;
  length_ += std::exchange(prepared_, 0);
  tail_ = partly_filled_page();
}

kernels::PagedKeys PagedStorage::view() const { return {shape(), table(), length_, fence_}; }

void PagedStorage::trim(int n) {
  if (n < 0 || n > length_) {
    base::fail_argument("[state.trim] ", n, " positions of a state that holds ", length_);
  }
  if (n == 0) return;
  length_ -= n;
  tail_ = partly_filled_page();
  // Reads, copies and writes that have not run may still look at the positions that were trimmed, in
  // this row or in a clone: the page is left to them, and the next append copies what stays.
  if (tail_) row_->protect_tail();
  row_->truncate(length_);
}

PagedStorage PagedStorage::clone(std::shared_ptr<PageRow> row) const {
  PagedStorage copy(std::move(row), layer_, length_);
  copy.fence_ = fence_;  // the clone reads what the pending writes of the original will have written
  return copy;
}

}  // namespace tessera::state
