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
  // MLX's CPU backend accumulates bfloat16 products in bfloat16 (several percent of error on a long
  // dot product), so its default tier is float32 until our own kernels carry it (docs/adr/005).
  return precision == Precision::kBFloat16 ? mx::bfloat16 : mx::float32;
}

uint64_t kv_bytes_per_token(const artifacts::ModelConfig& config, mx::Dtype dtype) {
  return static_cast<uint64_t>(2 * config.n_layers * config.n_kv_heads * config.head_dim) * dtype.size();
}

Composition plan(const artifacts::ModelConfig& config, const ModelOptions& options, uint64_t weight_bytes) {
  Composition result;
  result.dtype = compute_dtype(options.precision);
  result.kv_dtype = result.dtype;
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
  result.page_tokens = static_cast<int>(std::min<int64_t>(result.page_tokens, result.context_length));

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
