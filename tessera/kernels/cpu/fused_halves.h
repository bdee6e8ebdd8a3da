// The CPU primitives behind kernels/fused_halves.h; arguments are validated there.
#pragma once

#include "tessera/kernels/fused_halves.h"

namespace tessera::kernels::cpu {

std::pair<mlx::core::array, mlx::core::array> attention_half(const mlx::core::array& x,
                                                             std::shared_ptr<const AttentionHalf> half,
                                                             const KvSlot& slot,
                                                             const std::optional<mlx::core::array>& residual,
                                                             const AttentionAdapters& adapters);

mlx::core::array mlp_half(const mlx::core::array& x, std::shared_ptr<const MlpHalf> half,
                          const std::optional<mlx::core::array>& residual, const MlpAdapters& adapters);

}  // namespace tessera::kernels::cpu
