// How a model will run: everything that options, files and the machine decide, resolved once at load.
#pragma once

#include <mlx/dtype.h>

#include <cstdint>

#include "tessera/artifacts/model_config.h"
#include "tessera/kernels/products.h"
#include "tessera/options.h"

namespace tessera::models {

/// Immutable after plan().
struct Composition {
  mlx::core::Dtype dtype = mlx::core::float32;               // of activations and dense weights
  mlx::core::Dtype kv_dtype = mlx::core::float32;            // of stored keys and values
  kernels::Products products = kernels::Products::kFloat32;  // of our kernels
  int64_t context_length = 0;                                // positions a sequence may hold
  int page_tokens = 128;                                     // positions of a page
  int prefill_chunk_tokens = 256;                            // prompt tokens per forward
  uint64_t weight_bytes = 0;                                 // estimate: weights in memory
  uint64_t kv_bytes_per_token = 0;                           // all layers
};

/// Resolves the options against the configuration and the machine, and refuses what cannot work:
/// Throws InvalidArgument for a context beyond the trained one or a bad chunk size, and
/// ResourceExhausted with the estimate when weights and a minimal cache exceed the memory that is
/// available. `weight_bytes` is the estimate of artifacts::Checkpoint.
Composition plan(const artifacts::ModelConfig& config, const ModelOptions& options, uint64_t weight_bytes);

/// Bytes that all layers store for one position.
uint64_t kv_bytes_per_token(const artifacts::ModelConfig& config, mlx::core::Dtype dtype);

/// The activation dtype that a precision means on this device (docs/numerics.md).
mlx::core::Dtype compute_dtype(Precision precision);

/// How our kernels multiply in a precision.
kernels::Products products_of(Precision precision);

}  // namespace tessera::models
