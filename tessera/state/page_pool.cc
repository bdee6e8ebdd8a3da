#include "tessera/state/page_pool.h"

#include <sys/mman.h>

#include <algorithm>
#include <utility>

#include "tessera/base/check.h"

namespace tessera::state {
namespace {

constexpr std::size_t kAlignment = 64;               // a cache line: kernels read whole lines
constexpr std::size_t kSlabBytes = 8 * 1024 * 1024;  // few enough calls, little enough left unused

std::size_t round_up(std::size_t bytes, std::size_t unit) { return (bytes + unit - 1) / unit * unit; }

}  // namespace

Page::~Page() { pool->give_back(id); }

std::shared_ptr<PagePool> PagePool::create(std::vector<kernels::PageShape> layers) {
  return std::shared_ptr<PagePool>(new PagePool(std::move(layers)));
}

PagePool::PagePool(std::vector<kernels::PageShape> layers) : layers_(std::move(layers)) {
  TESSERA_CHECK(!layers_.empty());
  for (const kernels::PageShape& layer : layers_) {
    TESSERA_CHECK(layer.page_tokens == layers_.front().page_tokens && layer.page_tokens > 0);
    layer_offsets_.push_back(page_bytes_);
    page_bytes_ += round_up(layer.page_bytes(), kAlignment);
  }
  pages_per_slab_ = static_cast<int>(std::max<std::size_t>(1, kSlabBytes / page_bytes_));
}

PagePool::~PagePool() {
  for (const Slab& slab : slabs_) ::munmap(slab.data, slab.bytes);
}

void PagePool::add_slab() {
  const std::size_t bytes = static_cast<std::size_t>(pages_per_slab_) * page_bytes_;
  void* data = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED) {
    base::fail(ErrorKind::kResourceExhausted, "[state.page_pool] no memory for ", bytes,
               " more bytes of keys and values; ", slabs_.size() * bytes, " are in use");
  }
  slabs_.push_back({static_cast<std::byte*>(data), bytes});
  // Highest first, so that ids are handed out in ascending order.
  for (int i = pages_per_slab_ - 1; i >= 0; --i) free_.push_back(n_pages_ + i);
  n_pages_ += pages_per_slab_;
  free_.reserve(static_cast<std::size_t>(n_pages_));  // so that giving a page back cannot fail
}

std::shared_ptr<Page> PagePool::take() {
  int id = 0;
  {
    const std::lock_guard lock(mutex_);
    if (free_.empty()) add_slab();
    id = free_.back();
    free_.pop_back();
  }
  return std::make_shared<Page>(shared_from_this(), id);
}

void PagePool::give_back(int id) {
  const std::lock_guard lock(mutex_);
  free_.push_back(id);
}

std::byte* PagePool::memory(int layer, int id) {
  const std::lock_guard lock(mutex_);
  const auto slab = static_cast<std::size_t>(id / pages_per_slab_);
  const auto in_slab = static_cast<std::size_t>(id % pages_per_slab_);
  return slabs_.at(slab).data + in_slab * page_bytes_ + layer_offsets_.at(static_cast<std::size_t>(layer));
}

int PagePool::pages_in_use() const {
  const std::lock_guard lock(mutex_);
  return n_pages_ - static_cast<int>(free_.size());
}

std::size_t PagePool::reserved_bytes() const {
  const std::lock_guard lock(mutex_);
  return slabs_.size() * static_cast<std::size_t>(pages_per_slab_) * page_bytes_;
}

PageRow::~PageRow() {
  for (const auto& page : pages_) --page->owners;
}

void PageRow::append(std::shared_ptr<Page> page) {
  ++page->owners;
  pages_.push_back(std::move(page));
  ++version_;
}

void PageRow::prepare(int start, int length) {
  TESSERA_CHECK(start >= 0 && length > 0);
  if (start + length <= prepared_end_) return;  // another layer of the group came first
  const int page_tokens = pool_->page_tokens();
  const auto tail = static_cast<std::size_t>(start / page_tokens);
  if (tail < pages_.size() && start >= prepared_end_ && (pages_[tail]->owners > 1 || is_tail_protected_)) {
    // The layers copy what they keep of the old page (PagedStorage); pages after it are unused.
    truncate(static_cast<int>(tail) * page_tokens);
    append(pool_->take());
  }
  is_tail_protected_ = false;
  while (static_cast<int>(pages_.size()) * page_tokens < start + length) append(pool_->take());
  prepared_end_ = start + length;
}

void PageRow::truncate(int length) {
  const int page_tokens = pool_->page_tokens();
  const auto keep = static_cast<std::size_t>((length + page_tokens - 1) / page_tokens);
  prepared_end_ = std::min(prepared_end_, length);
  if (keep >= pages_.size()) return;
  for (std::size_t i = keep; i < pages_.size(); ++i) --pages_[i]->owners;
  pages_.resize(keep);
  ++version_;
}

std::shared_ptr<PageRow> PageRow::clone() const {
  auto copy = std::make_shared<PageRow>(pool_);
  for (const auto& page : pages_) copy->append(page);
  copy->prepared_end_ = prepared_end_;
  copy->is_tail_protected_ = is_tail_protected_;
  return copy;
}

}  // namespace tessera::state
