// The weights of an opened model as arrays, by their canonical (Hugging Face) names, whatever the
// file format. Safetensors that fit are used in place; GGUF blocks are repacked into affine groups.
#pragma once

#include <mlx/array.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/artifacts/gguf.h"
#include "tessera/artifacts/model_config.h"
#include "tessera/artifacts/model_files.h"
#include "tessera/artifacts/safetensors.h"
#include "tessera/base/file.h"
#include "tessera/base/thread_pool.h"
#include "tessera/tensor/weight.h"

namespace tessera::artifacts {

/// What one stored tensor (with its scales and biases) is and becomes.
struct TensorReport {
  std::string name;       // canonical, without the ".weight" of matrices
  std::string stored_as;  // "Q4_1", "BF16", "affine 4-bit g64", "mxfp4 4-bit g32", ...
  std::string loaded_as;  // "affine 4-bit g32", "float32", ...
  uint64_t elements = 0;
  uint64_t stored_bytes = 0;
  uint64_t loaded_bytes = 0;  // in memory, also where the file's own pages are used
};

/// A model's files, mapped and validated. Immutable; arrays that point into the files keep them mapped.
/// Belongs to the engine's thread where it makes arrays; headers may be read on any.
class Checkpoint {
 public:
  virtual ~Checkpoint() = default;

  /// Maps the files and validates every header. No weight is read. Blocks will be repacked on `pool`,
  /// or on the calling thread without one.
  /// Throws InvalidArtifact or Unsupported naming file and tensor.
  static std::shared_ptr<const Checkpoint> open(const ModelFiles& files,
                                                std::shared_ptr<base::ThreadPool> pool = nullptr);

  const ModelConfig& config() const { return config_; }
  /// What to name in messages: the folder or file.
  const std::string& origin() const { return origin_; }

  virtual bool contains(std::string_view name) const = 0;
  /// Canonical names of all stored tensors ("model.norm.weight", "..q_proj.scales", ..).
  virtual std::vector<std::string> names() const = 0;

  /// A tensor in full, converted to `dtype`. Throws InvalidArtifact when it is missing or no float.
  virtual mlx::core::array dense(std::string_view name, mlx::core::Dtype dtype) const = 0;
  /// The matrix of the module at `path`, quantized or dense as it is stored. GGUF formats without an
  /// affine form become float32.
  /// Throws InvalidArtifact when it is missing or its parts do not belong together.
  virtual tensor::Weight weight(const std::string& path) const = 0;

  /// One line per tensor: matrices as weight() gives them, vectors in `dtype`.
  virtual std::vector<TensorReport> report(mlx::core::Dtype dtype) const = 0;

 protected:
  Checkpoint(ModelConfig config, std::string origin)
      : config_(std::move(config)), origin_(std::move(origin)) {}

 private:
  ModelConfig config_;
  std::string origin_;
};

/// Opens model.safetensors or its shards. Throws as Checkpoint::open.
std::shared_ptr<const Checkpoint> open_safetensors(const ModelFiles& files);
/// Opens a GGUF file or all parts of a split one. Throws as Checkpoint::open.
std::shared_ptr<const Checkpoint> open_gguf(const ModelFiles& files, std::shared_ptr<base::ThreadPool> pool);

}  // namespace tessera::artifacts
