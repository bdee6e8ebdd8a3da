// Everything one sequence remembers: one state per layer, over shared page tables.
#pragma once

#include <mlx/array.h>

#include <memory>
#include <vector>

#include "tessera/state/layer_state.h"
#include "tessera/state/masks.h"
#include "tessera/state/page_pool.h"

namespace tessera::state {

/// Owned by its sequence; moving is cheap, copying is clone(). Belongs to the engine's thread.
class SequenceState {
 public:
  SequenceState(std::shared_ptr<PageRow> row, std::vector<std::unique_ptr<AttentionState>> layers)
      : row_(std::move(row)), layers_(std::move(layers)), masks_(std::make_shared<MaskMemo>()) {}

  AttentionState& layer(int index) { return *layers_.at(static_cast<std::size_t>(index)); }
  int n_layers() const { return static_cast<int>(layers_.size()); }
  MaskMemo& masks() { return *masks_; }

  /// Positions every layer holds; after an interrupted forward, those that all of them hold.
  int offset() const;
  /// Forgets all positions from `length` on, in every layer, however far each one had come.
  void rollback(int length);
  /// An independent copy that shares full pages.
  SequenceState clone() const;
  /// What must be evaluated for all appends to have happened.
  std::vector<mlx::core::array> pending() const;
  std::size_t bytes_per_token() const;

 private:
  std::shared_ptr<PageRow> row_;
  std::vector<std::unique_ptr<AttentionState>> layers_;
  std::shared_ptr<MaskMemo> masks_;
};

}  // namespace tessera::state
