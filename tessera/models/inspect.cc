// The text-level face of models/: what a model is, from its headers alone.
#include <map>
#include <utility>

#include "tessera/artifacts/checkpoint.h"
#include "tessera/artifacts/model_files.h"
#include "tessera/artifacts/tokenizer_files.h"
#include "tessera/base/check.h"
#include "tessera/model.h"
#include "tessera/models/composition.h"
#include "tessera/models/load.h"
#include "tessera/models/registry.h"

namespace tessera {
namespace {

/// The class a canonical tensor name belongs to.
std::string tensor_class(const std::string& name) {
  const auto has = [&](const char* part) { return name.find(part) != std::string::npos; };
  if (has("norm")) return "norm";
  if (has("embed_tokens")) return "embedding";
  if (has("lm_head")) return "head";
  if (has("self_attn")) return "attention";
  if (has("mlp")) return "mlp";
  return "other";
}

std::string rope_text(const artifacts::ModelConfig& config) {
  std::string text =
      base::concat(config.rope_scaling.kind, ", theta ", static_cast<int64_t>(config.rope_theta));
  if (config.rope_scaling.factor != 1.0) text += base::concat(", factor ", config.rope_scaling.factor);
  return text;
}

void add_tensors(ModelInfo& info, const artifacts::Checkpoint& checkpoint, mlx::core::Dtype dtype) {
  std::map<std::pair<std::string, std::string>, TensorClassInfo> classes;
  for (const artifacts::TensorReport& tensor : checkpoint.report(dtype)) {
    info.tensor_list.push_back({tensor.name, tensor.stored_as, tensor.loaded_as,
                                static_cast<int64_t>(tensor.elements), tensor.stored_bytes,
                                tensor.loaded_bytes});
    TensorClassInfo& entry = classes[{tensor_class(tensor.name), tensor.stored_as}];
    entry.tensor_class = tensor_class(tensor.name);
    entry.stored_as = tensor.stored_as;
    entry.loaded_as = tensor.loaded_as;
    ++entry.tensors;
    entry.parameters += static_cast<int64_t>(tensor.elements);
    entry.stored_bytes += tensor.stored_bytes;
    entry.loaded_bytes += tensor.loaded_bytes;
    info.parameters += static_cast<int64_t>(tensor.elements);
    info.stored_bytes += tensor.stored_bytes;
    info.loaded_bytes += tensor.loaded_bytes;
  }
  for (auto& [key, entry] : classes) info.tensors.push_back(std::move(entry));
}

/// What loading would say, as a note.
void add_support(ModelInfo& info, const artifacts::ModelConfig& config) {
  try {
    models::find_family(config.model_type).check(config);
  } catch (const Error& error) {
    info.notes.emplace_back(error.what());
  }
}

}  // namespace

ModelInfo models::describe(const OpenModel& model, Precision precision) {
  const artifacts::ModelConfig& config = model.config;
  ModelInfo info;
  info.name = model.name;
  info.path = model.files.is_gguf() ? model.files.gguf.front().string() : model.files.folder.string();
  info.format = model.files.is_gguf() ? "gguf" : "safetensors";
  info.architecture = config.model_type;
  info.n_layers = config.n_layers;
  info.hidden_size = config.hidden_size;
  info.intermediate_size = config.intermediate_size;
  info.n_heads = config.n_heads;
  info.n_kv_heads = config.n_kv_heads;
  info.head_dim = config.head_dim;
  info.vocab_size = config.vocab_size;
  info.context_length = config.context_length;
  info.rope = rope_text(config);
  info.is_tied = config.tie_word_embeddings;
  info.eos_token_ids = config.eos_token_ids;
  info.kv_bytes_per_token = kv_bytes_per_token(config, compute_dtype(precision));
  add_tensors(info, *model.checkpoint, compute_dtype(precision));
  add_support(info, config);
  return info;
}

ModelInfo inspect_model(const std::string& name) {
  return models::describe(models::open_model(name), Precision::kAuto);
}

TokenizerSource tokenizer_source(const std::string& name) {
  return artifacts::read_tokenizer_source(models::find_or_fetch_model(name));
}

}  // namespace tessera
