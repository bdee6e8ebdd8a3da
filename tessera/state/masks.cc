#include "tessera/state/masks.h"

#include <mlx/ops.h>

#include "tessera/base/check.h"

namespace tessera::state {

namespace mx = mlx::core;

mx::array causal_mask(int length, int offset, std::optional<int> window) {
  TESSERA_CHECK(length > 0 && offset >= 0 && (!window || *window > 0));
  const mx::array queries = mx::expand_dims(mx::arange(offset, offset + length, mx::int32), 1);
  const mx::array keys = mx::expand_dims(mx::arange(offset + length, mx::int32), 0);
  const mx::array is_past = mx::greater_equal(queries, keys);
  if (!window) return is_past;
  return mx::logical_and(is_past, mx::less(queries, mx::add(keys, mx::array(*window, mx::int32))));
}

MaskMemo::Lease MaskMemo::lease(const std::string& family, const std::string& key,
                                const std::function<tensor::Mask()>& build) {
  const auto found = held_.find(family);
  if (found != held_.end() && found->second.key == key) return found->second.mask;
  auto mask = std::make_shared<const tensor::Mask>(build());
  ++builds_;
  held_.insert_or_assign(family, Entry{key, mask});
  return mask;
}

}  // namespace tessera::state
