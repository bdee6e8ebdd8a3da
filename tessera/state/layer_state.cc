#include "tessera/state/layer_state.h"

#include "tessera/base/check.h"

namespace tessera::state {

std::unique_ptr<Read> append(AttentionState& state, Phase phase, const mlx::core::array& k,
                             const mlx::core::array& v) {
  switch (phase) {
    case Phase::kDecode: return state.append_decode(k, v);
    case Phase::kWindow: return state.append_window(k, v);
    case Phase::kCommitted: return state.append_committed(k, v);
  }
  base::fail(ErrorKind::kInternal, "[state.append] unknown phase");
}

}  // namespace tessera::state
