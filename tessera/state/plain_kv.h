// The plain cache: keys and values as they come, every position kept.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tessera/base/thread_pool.h"
#include "tessera/state/layer_state.h"
#include "tessera/state/paged_storage.h"

namespace tessera::state {

/// Full attention over unquantized keys and values in pages, one row (B = 1). Signature "kv:plain".
/// Committed reads use the window kernel: dense attention computes a row the same way in both.
class PlainKvState final : public AttentionState {
 public:
  /// `layer` is this layer's number in the row's pool.
  /// `pool` runs our attention kernel; without one the reference attends.
  PlainKvState(std::shared_ptr<PageRow> row, int layer, std::shared_ptr<base::ThreadPool> pool = nullptr)
      : storage_(std::move(row), layer), pool_(std::move(pool)) {}

  std::unique_ptr<Read> append_decode(const mlx::core::array& k, const mlx::core::array& v) override;
  std::unique_ptr<Read> append_window(const mlx::core::array& k, const mlx::core::array& v) override;
  std::unique_ptr<Read> append_committed(const mlx::core::array& k, const mlx::core::array& v) override;

  int offset() const override { return storage_.length(); }
  void trim(int n) override;
  std::unique_ptr<AttentionState> clone(std::shared_ptr<PageRow> row) const override;
  StateCapabilities capabilities() const override { return {.is_trimmable = true, .is_cloneable = true}; }
  std::string signature() const override { return "kv:plain"; }
  std::size_t bytes_per_token() const override;
  std::vector<mlx::core::array> pending() const override { return {storage_.fence()}; }

 private:
  PlainKvState(PagedStorage storage, std::shared_ptr<base::ThreadPool> pool)
      : storage_(std::move(storage)), pool_(std::move(pool)) {}
  void append(const mlx::core::array& k, const mlx::core::array& v);
  void require_usable() const;

  PagedStorage storage_;
  std::shared_ptr<base::ThreadPool> pool_;
  bool is_poisoned_ = false;
};

}  // namespace tessera::state
