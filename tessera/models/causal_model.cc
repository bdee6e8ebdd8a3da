#include "tessera/models/causal_model.h"

#include <mlx/transforms.h>

#include "tessera/base/check.h"

namespace tessera::models {

void ForwardContext::between_layers(const mlx::core::array& hidden) const {
  if (phase == state::Phase::kDecode || !cancel.stop_possible()) return;
  if (cancel.stop_requested()) base::fail(ErrorKind::kCancelled, "[models.forward] cancelled");
  mlx::core::eval(hidden);
}

}  // namespace tessera::models
