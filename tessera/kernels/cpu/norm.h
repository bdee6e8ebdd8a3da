// Normalization on the CPU in float32. A pool shares many rows among its threads and may be absent.
#pragma once

#include <mlx/array.h>

#include <memory>
#include <optional>
#include <utility>

#include "tessera/base/thread_pool.h"

namespace tessera::kernels::cpu {

/// As kernels/norm.h; everything float32, x not empty.
mlx::core::array rms_norm(const mlx::core::array& x, const std::optional<mlx::core::array>& weight, float eps,
                          std::shared_ptr<base::ThreadPool> pool = nullptr);
std::pair<mlx::core::array, mlx::core::array> add_rms_norm(const mlx::core::array& x,
                                                           const mlx::core::array& residual,
                                                           const std::optional<mlx::core::array>& weight,
                                                           float eps,
                                                           std::shared_ptr<base::ThreadPool> pool = nullptr);
mlx::core::array layer_norm(const mlx::core::array& x, const std::optional<mlx::core::array>& weight,
                            const std::optional<mlx::core::array>& bias, float eps,
                            std::shared_ptr<base::ThreadPool> pool = nullptr);

}  // namespace tessera::kernels::cpu
