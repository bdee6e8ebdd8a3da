// What every primitive of ours needs on the CPU.
#pragma once

#include <mlx/allocator.h>
#include <mlx/backend/cpu/encoder.h>
#include <mlx/primitives.h>

#include <stdexcept>
#include <string>
#include <vector>

#include "tessera/kernels/cpu/output_memory.h"

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
inline void allocate(mlx::core::array& out) { out.set_data(output_memory(out.nbytes())); }

/// The float32 values of an input as one row-major run. Whether an array is one is only known when it
/// has been evaluated, and a `contiguous` node in front of every primitive costs as much as a small
/// primitive itself: so the few inputs that need a copy get it here.
class RowMajor {
 public:
  explicit RowMajor(const mlx::core::array& x) : data_(x.data<float>()) {
    if (x.flags().row_contiguous || x.size() <= 1) return;
    shape_.assign(x.shape().begin(), x.shape().end());
    strides_.assign(x.strides().begin(), x.strides().end());
  }

  /// The values; `storage` holds them where they had to be copied.
  const float* get(std::vector<float>& storage) const {
    if (shape_.empty()) return data_;
    std::size_t size = 1;
    for (const int64_t n : shape_) size *= static_cast<std::size_t>(n);
    storage.resize(size);
    std::vector<int64_t> at(shape_.size(), 0);
    const float* from = data_;
    for (float& value : storage) {
      value = *from;
      for (std::size_t axis = shape_.size(); axis-- > 0;) {
        from += strides_[axis];
        if (++at[axis] < shape_[axis]) break;
        from -= strides_[axis] * shape_[axis];
        at[axis] = 0;
      }
    }
    return storage.data();
  }

 private:
  const float* data_;
  std::vector<int64_t> shape_, strides_;  // empty when the values are row-major already
};

/// Of the gradients of all inputs, those that were asked for.
inline std::vector<mlx::core::array> select(const std::vector<mlx::core::array>& gradients,
                                            const std::vector<int>& argnums) {
  std::vector<mlx::core::array> selected;
  for (const int argnum : argnums) selected.push_back(gradients[static_cast<std::size_t>(argnum)]);
  return selected;
}

}  // namespace tessera::kernels::cpu
