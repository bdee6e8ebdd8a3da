// Layers built from a checkpoint by module path, with every tensor accounted for.
#pragma once

#include <mlx/array.h>

#include <memory>
#include <optional>
#include <set>
#include <string>

#include "tessera/artifacts/checkpoint.h"
#include "tessera/layers/embedding.h"
#include "tessera/layers/linear.h"
#include "tessera/layers/norm.h"

namespace tessera::models {

/// Reads a checkpoint's tensors as layers; dense matrices stay in the dtype they are stored in. Remembers what was read, so that
/// check_all_used() can name a tensor that a model silently ignored.
class Weights {
 public:
  /// `runtime` packs the matrices and runs our kernels.
  Weights(std::shared_ptr<const artifacts::Checkpoint> checkpoint, mlx::core::Dtype dtype,
          kernels::Runtime runtime)
      : checkpoint_(std::move(checkpoint)), dtype_(dtype), runtime_(std::move(runtime)) {}

  /// `path`.weight as [out, in], with `path`.bias when `has_bias`.
  /// Throws InvalidArtifact naming the tensor when it is missing or has another shape.
  layers::Linear linear(const std::string& path, int64_t in, int64_t out, bool has_bias);
  /// The output head [vocabulary, hidden]. With the embedding, which serves as the head of tied models, it
  /// never takes int8 activations: it decides between neighbouring tokens, and a prompt passes it once.
  layers::Linear head(const std::string& path, int64_t hidden_size, int64_t vocab_size);
  layers::Embedding embedding(const std::string& path, int64_t vocab_size, int64_t hidden_size);
  layers::RmsNorm rms_norm(const std::string& path, int64_t size, double eps);
  /// A float32 vector of `size` elements, absent when the checkpoint has none of this name.
  std::optional<mlx::core::array> optional_vector(const std::string& name, int64_t size);

  /// Marks a tensor as knowingly unused, for example a head that repeats the tied embedding.
  void ignore(const std::string& name) { used_.insert(name); }
  /// Throws InvalidArtifact naming the first tensor that nobody read.
  void check_all_used() const;

  const kernels::Runtime& runtime() const { return runtime_; }

 private:
  kernels::Runtime head_runtime() const;
  tensor::Weight weight(const std::string& path, int64_t rows, int64_t columns);
  mlx::core::array vector(const std::string& name, int64_t size, mlx::core::Dtype dtype);

  std::shared_ptr<const artifacts::Checkpoint> checkpoint_;
  mlx::core::Dtype dtype_;
  kernels::Runtime runtime_;
  std::set<std::string> used_;
};

}  // namespace tessera::models
