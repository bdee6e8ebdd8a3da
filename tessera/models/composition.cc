#include "tessera/models/composition.h"

#include <algorithm>

#include "tessera/base/check.h"
#include "tessera/base/memory.h"

namespace tessera::models {
namespace {

namespace mx = mlx::core;

// Long enough that decoding a weight once for all rows pays; a layer of one, the unit of cancellation,
// takes some tens of milliseconds of a small model.
constexpr int kCpuPrefillChunk = 256;

uint64_t mebibytes(uint64_t bytes) { return (bytes + (1 << 20) - 1) >> 20; }

}  // namespace

mx::Dtype compute_dtype(Precision precision) {
  // Between products the activations stay float32: our kernels round them on the way into a product, and
  // MLX's CPU backend accumulates bfloat16 in bfloat16 (docs/adr/005).
  return precision == Precision::kBFloat16 ? mx::bfloat16 : mx::float32;
}

kernels::Products products_of(Precision precision) {
  switch (precision) {
    case Precision::kAuto: return kernels::Products::kBFloat16;
    case Precision::kInt8: return kernels::Products::kInt8;
    case Precision::kFloat32:
    case Precision::kBFloat16: return kernels::Products::kFloat32;
  }
  return kernels::Products::kFloat32;
}

uint64_t kv_bytes_per_token(const artifacts::ModelConfig& config, mx::Dtype dtype) {
  return static_cast<uint64_t>(2 * config.n_layers * config.n_kv_heads * config.head_dim) * dtype.size();
}

Composition plan(const artifacts::ModelConfig& config, const ModelOptions& options, uint64_t weight_bytes) {
  Composition result;
  result.dtype = compute_dtype(options.precision);
  // Keys and values meet queries rounded to bfloat16, so they are stored as what is multiplied.
  result.kv_dtype =
      products_of(options.precision) == kernels::Products::kFloat32 ? result.dtype : mx::bfloat16;
  result.products = products_of(options.precision);
  result.weight_bytes = weight_bytes;
  result.kv_bytes_per_token = kv_bytes_per_token(config, result.kv_dtype);

  if (options.context_length < 0 || options.context_length > config.context_length) {
    base::fail_argument("[models.plan] context length ", options.context_length, "; expected 1 to ",
                        config.context_length, ", the length the model was trained on (0 = all of it)");
  }
  result.context_length = options.context_length > 0 ? options.context_length : config.context_length;
  if (options.prefill_chunk_tokens < 0 || options.prefill_chunk_tokens > (1 << 20)) {
    base::fail_argument("[models.plan] prefill chunk of ", options.prefill_chunk_tokens,
                        " tokens; expected 1 to 1048576 (0 = the default)");
  }
  result.prefill_chunk_tokens =
      options.prefill_chunk_tokens > 0 ? static_cast<int>(options.prefill_chunk_tokens) : kCpuPrefillChunk;
  // Whole blocks of the attention kernel.
  result.page_tokens =
      static_cast<int>(std::min<int64_t>(result.page_tokens, (result.context_length + 15) / 16 * 16));

  const uint64_t needed =
      weight_bytes + static_cast<uint64_t>(result.page_tokens) * result.kv_bytes_per_token;
  const auto available = base::available_memory_bytes();
  if (available && needed > *available) {
    base::fail(ErrorKind::kResourceExhausted, "[models.plan] loading needs about ", mebibytes(needed),
               " MiB (weights ", mebibytes(weight_bytes), " MiB), but ", mebibytes(*available),
               " MiB of memory are available");
  }
  return result;
}

}  // namespace tessera::models
