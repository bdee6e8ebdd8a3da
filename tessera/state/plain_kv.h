// The plain cache: keys and values as they come, every position kept.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tessera/kernels/products.h"
#include "tessera/state/layer_state.h"
#include "tessera/state/paged_storage.h"

namespace tessera::state {

/// Full attention over unquantized keys and values in pages, one row (B = 1). Signature "kv:plain".
/// Committed reads use the window kernel: dense attention computes a row the same way in both.
class PlainKvState final : public AttentionState {
 public:
  /// `layer` is this layer's number in the row's pool.
  /// `runtime` runs our attention kernel; without a pool the reference attends.
  PlainKvState(std::shared_ptr<PageRow> row, int layer, kernels::Runtime runtime = {})
      : storage_(std::move(row), layer), runtime_(std::move(runtime)) {}

  std::unique_ptr<Read> append_decode(const mlx::core::array& k, const mlx::core::array& v) override;
  std::unique_ptr<Read> append_window(const mlx::core::array& k, const mlx::core::array& v) override;
  std::unique_ptr<Read> append_committed(const mlx::core::array& k, const mlx::core::array& v) override;

  std::optional<kernels::KvSlot> open_slot(int length) override;
  void commit_slot(const mlx::core::array& fence) override;

  int offset() const override { return storage_.length(); }
  void trim(int n) override;
  std::unique_ptr<AttentionState> clone(std::shared_ptr<PageRow> row) const override;
  StateCapabilities capabilities() const override { return {.is_trimmable = true, .is_cloneable = true}; }
  std::string signature() const override { return "kv:plain"; }
  std::size_t bytes_per_token() const override;
  std::vector<mlx::core::array> pending() const override { return {storage_.fence()}; }

 private:
  PlainKvState(PagedStorage storage, kernels::Runtime runtime)
      : storage_(std::move(storage)), runtime_(std::move(runtime)) {}
  void append(const mlx::core::array& k, const mlx::core::array& v);
  void require_usable() const;

  PagedStorage storage_;
  kernels::Runtime runtime_;
  bool is_poisoned_ = false;
};

}  // namespace tessera::state
