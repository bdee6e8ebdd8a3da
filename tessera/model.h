// What a model is, read from its files without loading a weight.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tessera/tokenizer_source.h"

namespace tessera {

/// The tensors of one class (attention, mlp, embedding, head, norm) in one format.
struct TensorClassInfo {
  std::string tensor_class;  // "attention", "mlp", "embedding", "head", "norm", "other"
  std::string stored_as;     // as in the file: "Q4_1", "BF16", "affine 4-bit g64", ...
  std::string loaded_as;     // in memory: "affine 4-bit g32", "float32", ...
  int64_t tensors = 0;
  int64_t parameters = 0;
  uint64_t stored_bytes = 0;
  uint64_t loaded_bytes = 0;
};

/// What became of one tensor (a matrix with its scales and biases).
struct TensorInfo {
  std::string name;  // Hugging Face's, whatever the file calls it
  std::string stored_as;
  std::string loaded_as;
  int64_t parameters = 0;
  uint64_t stored_bytes = 0;
  uint64_t loaded_bytes = 0;
};

struct ModelInfo {
  std::string name;          // as the user gave it
  std::string path;          // folder or file
  std::string format;        // "gguf" or "safetensors"
  std::string architecture;  // model_type
  int64_t n_layers = 0;
  int64_t hidden_size = 0;
  int64_t intermediate_size = 0;
  int64_t n_heads = 0;
  int64_t n_kv_heads = 0;
  int64_t head_dim = 0;
  int64_t vocab_size = 0;
  int64_t context_length = 0;
  std::string rope;      // for example "default, theta 100000"
  bool is_tied = false;  // the head is the embedding
  int64_t parameters = 0;
  uint64_t stored_bytes = 0;  // tensors in the files
  uint64_t loaded_bytes = 0;  // tensors in memory
  uint64_t kv_bytes_per_token = 0;
  std::vector<TensorClassInfo> tensors;
  std::vector<TensorInfo> tensor_list;  // every tensor, by name
  std::vector<std::string> notes;       // why loading would refuse the model
  std::vector<int32_t> eos_token_ids;
};

/// Describes a model by name (see ModelOptions::model) from its headers alone.
/// Throws as loading would for missing or damaged files; an unsupported architecture is described
/// with a note.
ModelInfo inspect_model(const std::string& name);

/// The data a tokenizer and a chat template are built from, read from the model's files.
TokenizerSource tokenizer_source(const std::string& name);

}  // namespace tessera
