// Attention masks and the memo that lets the layers of a forward share them.
// Source: spec of the reference system 2.2.
#pragma once

#include <mlx/array.h>

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "tessera/tensor/mask.h"

namespace tessera::state {

/// bool [length, offset + length]: query i (position offset + i) sees key j <= offset + i, and within
/// a window only the newest `window` keys, itself included.
mlx::core::array causal_mask(int length, int offset, std::optional<int> window = std::nullopt);

/// Masks of one sequence, shared by its layers. States with a window or padding lease from it; a full
/// cache needs none, its masks are the words "none" and "causal". A family (how the mask is built) holds one mask; a
/// lease with an equal key shares it, another key replaces it. Leases stay valid after both
/// replacement and clear(). Equal keys must mean equal masks: sharing then only saves builds.
class MaskMemo {
 public:
  using Lease = std::shared_ptr<const tensor::Mask>;

  /// The mask of `family` under `key`, built if it is not the one held. An exception of `build` leaves
  /// the memo as it was.
  Lease lease(const std::string& family, const std::string& key, const std::function<tensor::Mask()>& build);
  void clear() { held_.clear(); }
  /// Masks built so far.
  int builds() const { return builds_; }

 private:
  struct Entry {
    std::string key;
    Lease mask;
  };
  std::map<std::string, Entry> held_;
  int builds_ = 0;
};

}  // namespace tessera::state
