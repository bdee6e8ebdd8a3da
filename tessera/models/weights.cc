#include "tessera/models/weights.h"

#include <mlx/memory.h>

#include "tessera/base/check.h"
#include "tessera/base/memory.h"
#include "tessera/tensor/shape.h"

namespace tessera::models {

namespace mx = mlx::core;

namespace {

/// The layer whose weight has just been packed. MLX keeps the buffers of the unpacked form for arrays of the
/// same size, which nobody will make, and the allocator those that it has freed: they have to be told.
template <typename Layer>
Layer packed(Layer layer, int64_t elements) {
  constexpr int64_t kLarge = 16 << 20;
  mx::clear_cache();
  if (elements > kLarge) base::release_free_memory();
  return layer;
}

}  // namespace

tensor::Weight Weights::weight(const std::string& path, int64_t rows, int64_t columns) {
  tensor::Weight weight = checkpoint_->weight(path);
  for (const char* part : {".weight", ".scales", ".biases"}) used_.insert(path + part);
  if (tensor::weight_rows(weight) != rows || tensor::weight_columns(weight) != columns) {
    base::fail_artifact("[models.weights] ", checkpoint_->origin(), ": tensor ", path, ".weight is [",
                        tensor::weight_rows(weight), ", ", tensor::weight_columns(weight), "]; expected [",
                        rows, ", ", columns, "] from the configuration");
  }
  return weight;
}

mx::array Weights::vector(const std::string& name, int64_t size, mx::Dtype dtype) {
  mx::array values = checkpoint_->dense(name, dtype);
  used_.insert(name);
  if (values.shape() != mx::Shape{static_cast<int>(size)}) {
    base::fail_artifact("[models.weights] ", checkpoint_->origin(), ": tensor ", name, " is ",
                        tensor::to_string(values.shape()), "; expected [", size, "] from the configuration");
  }
  return values;
}

layers::Linear Weights::linear(const std::string& path, int64_t in, int64_t out, bool has_bias) {
  std::optional<mx::array> bias;
  if (has_bias) bias = vector(path + ".bias", out, dtype_);
  return packed(layers::Linear(weight(path, out, in), std::move(bias), runtime_), in * out);
}

kernels::Runtime Weights::head_runtime() const {
  kernels::Runtime runtime = runtime_;
  if (runtime.products == kernels::Products::kInt8) runtime.products = kernels::Products::kBFloat16;
  return runtime;
}

layers::Linear Weights::head(const std::string& path, int64_t hidden_size, int64_t vocab_size) {
  return packed(layers::Linear(weight(path, vocab_size, hidden_size), std::nullopt, head_runtime()),
                vocab_size * hidden_size);
}

layers::Embedding Weights::embedding(const std::string& path, int64_t vocab_size, int64_t hidden_size) {
  return packed(layers::Embedding(weight(path, vocab_size, hidden_size), dtype_, head_runtime()), vocab_size * hidden_size);
}

layers::RmsNorm Weights::rms_norm(const std::string& path, int64_t size, double eps) {
  return layers::RmsNorm(vector(path + ".weight", size, dtype_), static_cast<float>(eps), runtime_);
}

std::optional<mx::array> Weights::optional_vector(const std::string& name, int64_t size) {
  if (!checkpoint_->contains(name)) return std::nullopt;
  return vector(name, size, mx::float32);
}

void Weights::check_all_used() const {
  for (const std::string& name : checkpoint_->names()) {
    if (used_.contains(name)) continue;
    base::fail_artifact("[models.weights] ", checkpoint_->origin(), ": tensor ", name,
                        " belongs to no part of this architecture");
  }
}

}  // namespace tessera::models
