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

void add_tensors(ModelInfo& info, const artifacts::Checkpoint& checkpoint) {
  std::map<std::pair<std::string, std::string>, TensorClassInfo> classes;
  for (const artifacts::TensorReport& tensor : checkpoint.report(models::compute_dtype(Precision::kAuto))) {
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

ModelInfo inspect_model(const std::string& name) {
  const artifacts::ModelFiles files = models::find_or_fetch_model(name);
  const auto checkpoint = artifacts::Checkpoint::open(files);
  const artifacts::ModelConfig& config = checkpoint->config();

  ModelInfo info;
  info.name = name;
  info.path = files.is_gguf() ? files.gguf.front().string() : files.folder.string();
  info.format = files.is_gguf() ? "gguf" : "safetensors";
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
  info.is_tied = config.is_tie_stated ? config.tie_word_embeddings : !checkpoint->contains("lm_head.weight");
  info.eos_token_ids = config.eos_token_ids;
  info.kv_bytes_per_token = static_cast<uint64_t>(2 * config.n_layers * config.n_kv_heads * config.head_dim) *
                            models::compute_dtype(Precision::kAuto).size();
  add_tensors(info, *checkpoint);
  add_support(info, config);
  return info;
}

TokenizerSource tokenizer_source(const std::string& name) {
  return artifacts::read_tokenizer_source(models::find_or_fetch_model(name));
}

}  // namespace tessera
