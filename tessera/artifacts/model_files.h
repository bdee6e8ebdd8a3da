// Where a model is: the name a user gives, resolved to files on this machine.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace tessera::artifacts {

/// The files of one model. Either `gguf` is not empty, or `safetensors` is.
struct ModelFiles {
  std::string name;                                // what the user asked for
  std::filesystem::path folder;                    // the model folder, or the folder of the GGUF file
  std::vector<std::filesystem::path> safetensors;  // model.safetensors, or every shard of the index
  std::filesystem::path index;                     // model.safetensors.index.json, or empty
  std::vector<std::filesystem::path> gguf;         // one file, or all parts of a split one in order

  bool is_gguf() const { return !gguf.empty(); }
};

/// Resolves a model name: a folder in Hugging Face or MLX layout, a .gguf file (any part of a split
/// file stands for all), `org/name` (optionally `org/name@revision`) in the Hugging Face cache, or
/// `default`, which must have been fetched (artifacts/default_model.h).
/// Throws InvalidArgument saying what was looked for and where, InvalidArtifact when files that
/// belong to the model are missing.
ModelFiles find_model(const std::string& name);

/// The Hugging Face model cache: $HF_HUB_CACHE, $HF_HOME/hub or $HOME/.cache/huggingface/hub.
std::filesystem::path hugging_face_cache();

}  // namespace tessera::artifacts
