#include "tessera/state/plain_kv.h"

#include <utility>

#include "tessera/base/check.h"
#include "tessera/kernels/attention.h"

namespace tessera::state {
namespace {

namespace mx = mlx::core;

class PlainRead final : public Read {
 public:
  PlainRead(kernels::PagedKeys keys, tensor::Mask mask, kernels::Runtime runtime)
      : keys_(std::move(keys)), mask_(std::move(mask)), runtime_(std::move(runtime)) {}

  mx::array attend(const mx::array& q, float scale) const override {
    return kernels::paged_attention(q, keys_, scale, mask_, runtime_);
  }

 private:
  kernels::PagedKeys keys_;
  tensor::Mask mask_;
  kernels::Runtime runtime_;
};

}  // namespace

void PlainKvState::require_usable() const {
  if (is_poisoned_) base::fail(ErrorKind::kInternal, "[state.plain_kv] used after an append failed");
}

void PlainKvState::append(const mx::array& k, const mx::array& v) {
  require_usable();
  is_poisoned_ = true;
  storage_.append(k, v);
  is_poisoned_ = false;
}

std::unique_ptr<Read> PlainKvState::append_decode(const mx::array& k, const mx::array& v) {
  if (k.ndim() != 4 || k.shape(2) != 1) {
    base::fail_argument("[state.append_decode] a decode step appends one position per row");
  }
  append(k, v);
  return std::make_unique<PlainRead>(storage_.view(), tensor::Mask::none(), runtime_);
}

std::unique_ptr<Read> PlainKvState::append_window(const mx::array& k, const mx::array& v) {
  append(k, v);
  return std::make_unique<PlainRead>(storage_.view(), tensor::Mask::causal(), runtime_);
}

std::unique_ptr<Read> PlainKvState::append_committed(const mx::array& k, const mx::array& v) {
  return append_window(k, v);
}

std::optional<kernels::KvSlot> PlainKvState::open_slot(int length) {
  require_usable();
  if (!runtime_.pool || !storage_.shape().is_readable_in_place()) return std::nullopt;
  is_poisoned_ = true;  // until the kernel's fence comes back
  storage_.prepare(length);
  return kernels::KvSlot{storage_.shape(), {{storage_.table(), storage_.length()}}, storage_.fence()};
}

void PlainKvState::commit_slot(const mx::array& fence) {
  storage_.commit(fence);
  is_poisoned_ = false;
}

void PlainKvState::trim(int n) {
  require_usable();
  storage_.trim(n);
}

std::unique_ptr<AttentionState> PlainKvState::clone(std::shared_ptr<PageRow> row) const {
  require_usable();
  return std::unique_ptr<AttentionState>(new PlainKvState(storage_.clone(std::move(row)), runtime_));
}

std::size_t PlainKvState::bytes_per_token() const {
  const kernels::PageShape& shape = storage_.shape();
  return shape.page_bytes() / static_cast<std::size_t>(shape.page_tokens);
}

}  // namespace tessera::state
