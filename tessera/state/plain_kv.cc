#include "tessera/state/plain_kv.h"

#include <utility>

#include "tessera/base/check.h"
#include "tessera/kernels/attention.h"

namespace tessera::state {
namespace {

namespace mx = mlx::core;

class PlainRead final : public Read {
 public:
  PlainRead(PagedStorage::View view, tensor::Mask mask, std::shared_ptr<base::ThreadPool> pool)
      : view_(std::move(view)), mask_(std::move(mask)), pool_(std::move(pool)) {}

  mx::array attend(const mx::array& q, float scale) const override {
    const auto [k, v] = view_.gather();
    return kernels::attention(q, k, v, scale, mask_, pool_);
  }

 private:
  PagedStorage::View view_;
  tensor::Mask mask_;
  std::shared_ptr<base::ThreadPool> pool_;
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
  return std::make_unique<PlainRead>(storage_.view(), tensor::Mask::none(), pool_);
}

std::unique_ptr<Read> PlainKvState::append_window(const mx::array& k, const mx::array& v) {
  append(k, v);
  return std::make_unique<PlainRead>(storage_.view(), tensor::Mask::causal(), pool_);
}

std::unique_ptr<Read> PlainKvState::append_committed(const mx::array& k, const mx::array& v) {
  return append_window(k, v);
}

void PlainKvState::trim(int n) {
  require_usable();
  storage_.trim(n);
}

std::unique_ptr<AttentionState> PlainKvState::clone(std::shared_ptr<PageRow> row) const {
  require_usable();
  return std::unique_ptr<AttentionState>(new PlainKvState(storage_.clone(std::move(row)), pool_));
}

std::size_t PlainKvState::bytes_per_token() const {
  const kernels::PageShape& shape = storage_.shape();
  return shape.page_bytes() / static_cast<std::size_t>(shape.page_tokens);
}

}  // namespace tessera::state
