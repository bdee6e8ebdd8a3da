// What every primitive of ours needs on the CPU.
#pragma once

#include <mlx/allocator.h>
#include <mlx/backend/cpu/encoder.h>
#include <mlx/primitives.h>

#include <stdexcept>
#include <string>
#include <vector>

namespace tessera::kernels::cpu {

/// A primitive that only runs on CPU streams. A primitive outlives the call that built it and runs
/// on MLX's stream thread: it holds values and shared pointers only.
class CpuPrimitive : public mlx::core::Primitive {
 public:
  using Primitive::Primitive;

  void eval_gpu(const std::vector<mlx::core::array>&, std::vector<mlx::core::array>&) override {
    throw std::runtime_error(std::string("[kernels] ") + name() + " has no GPU implementation");
  }
};

/// Gives `out` memory of its own.
inline void allocate(mlx::core::array& out) { out.set_data(mlx::core::allocator::malloc(out.nbytes())); }

/// Of the gradients of all inputs, those that were asked for.
inline std::vector<mlx::core::array> select(const std::vector<mlx::core::array>& gradients,
                                            const std::vector<int>& argnums) {
  std::vector<mlx::core::array> selected;
  for (const int argnum : argnums) selected.push_back(gradients[static_cast<std::size_t>(argnum)]);
  return selected;
}

}  // namespace tessera::kernels::cpu
