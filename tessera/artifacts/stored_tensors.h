// What the checkpoints of both file formats share: tensors by canonical name, and arrays that use a
// file's bytes in place.
#pragma once

#include <mlx/array.h>

#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tessera/artifacts/checkpoint.h"
#include "tessera/base/check.h"
#include "tessera/base/file.h"
#include "tessera/tensor/external_array.h"

namespace tessera::artifacts {

/// A checkpoint over tensors of one format, `Stored`.
template <typename Stored>
class StoredTensors : public Checkpoint {
 public:
  bool contains(std::string_view name) const override { return tensors_.contains(name); }

  std::vector<std::string> names() const override {
    std::vector<std::string> names;
    for (const auto& [name, stored] : tensors_) names.push_back(name);
    return names;
  }

 protected:
  using Tensors = std::map<std::string, Stored, std::less<>>;

  StoredTensors(ModelConfig config, std::string origin, Tensors tensors = {})
      : Checkpoint(std::move(config), std::move(origin)), tensors_(std::move(tensors)) {}

  /// Throws InvalidArtifact naming a tensor that is missing.
  const Stored& find(std::string_view name) const {
    const auto found = tensors_.find(name);
    if (found == tensors_.end()) {
      base::fail_artifact("[artifacts.checkpoint] ", origin(), ": tensor ", name, " is missing");
    }
    return found->second;
  }

  Tensors tensors_;
};

/// A tensor's name as reports have it: the module's path for a matrix "<path>.weight".
inline std::string reported_name(std::string_view name) {
  constexpr std::string_view kSuffix = ".weight";
  return std::string(name.ends_with(kSuffix) ? name.substr(0, name.size() - kSuffix.size()) : name);
}

/// An array over `bytes` of the file. Its pages are given back when the last array over them goes: by
/// then the values have been packed. REQUIRES: `bytes` aligned to the element.
inline mlx::core::array in_place(std::span<const std::byte> bytes, mlx::core::Shape shape,
                                 mlx::core::Dtype dtype,
                                 const std::shared_ptr<const base::MappedFile>& file) {
  const std::shared_ptr<const void> owner(bytes.data(), [file, bytes](const void*) { file->release(bytes); });
  return tensor::external_array(bytes.data(), std::move(shape), dtype, owner);
}

}  // namespace tessera::artifacts
