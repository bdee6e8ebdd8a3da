// How exactly our kernels multiply: the precision tiers of docs/numerics.md at the level of a product.
#pragma once

#include <cstdint>
#include <memory>

#include "tessera/base/thread_pool.h"
#include "tessera/kernels/weight_memory.h"

namespace tessera::kernels {

/// What the activations of a product are rounded to first. Products are exact and summed in float32 in
/// every tier; dense weights in float16 or float32 are always multiplied with unrounded activations.
enum class Products : uint8_t {
  kFloat32,   // not at all
  kBFloat16,  // to bfloat16
  kInt8,      // to whole multiples of (largest magnitude of the weight's group of columns) / 127
};

/// What our kernels run with. Copying shares the threads.
struct Runtime {
  std::shared_ptr<base::ThreadPool> pool;  // absent: MLX's own operations run instead
  Products products = Products::kFloat32;
  std::shared_ptr<WeightMemory> weights = nullptr;  // where weights are packed; absent: each on its own
};

}  // namespace tessera::kernels
