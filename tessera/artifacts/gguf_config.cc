// ModelConfig from GGUF metadata. Keys: ggml's docs/gguf.md and the writers of llama.cpp.
#include <algorithm>
#include <cmath>
#include <limits>

#include "tessera/artifacts/config_checks.h"
#include "tessera/artifacts/gguf.h"
#include "tessera/artifacts/model_config.h"
#include "tessera/artifacts/quotes.h"
#include "tessera/artifacts/weight_names.h"
#include "tessera/base/check.h"

namespace tessera::artifacts {
namespace {

using base::fail_artifact;

constexpr const char* kWhere = "[config.parse_gguf]";

/// The keys of one architecture, read with bounds.
class Keys {
 public:
  Keys(const GgufFile& file, const std::string& architecture) : file_(file), prefix_(architecture + ".") {}

  std::string key(const char* name) const { return prefix_ + name; }

  std::optional<int64_t> integer(const char* name, int64_t least, int64_t most) const {
    const std::optional<int64_t> value = file_.integer(key(name));
    if (value && (*value < least || *value > most)) out_of_range(name, *value, least, most);
    return value;
  }

  int64_t required(const char* name, int64_t least, int64_t most) const {
    const std::optional<int64_t> value = integer(name, least, most);
    if (!value) missing(name);
    return *value;
  }

  /// A number that some files write once and others per layer; layers must agree.
  std::optional<int64_t> uniform(const char* name, int64_t least, int64_t most) const {
    const auto found = file_.metadata().find(key(name));
    const bool is_list =
        found != file_.metadata().end() && (std::holds_alternative<std::vector<uint64_t>>(found->second) ||
                                            std::holds_alternative<std::vector<int64_t>>(found->second));
    if (!is_list) return integer(name, least, most);
    const std::vector<int64_t> values = file_.integers(key(name)).value_or(std::vector<int64_t>{});
    if (values.empty()) missing(name);
    if (std::any_of(values.begin(), values.end(), [&](int64_t value) { return value != values.front(); })) {
      base::fail_unsupported(kWhere, " ", file_.origin(), ": ", in_quotes(key(name)),
                             " differs between layers");
    }
    if (values.front() < least || values.front() > most) out_of_range(name, values.front(), least, most);
    return values.front();
  }

  std::optional<double> number(const char* name) const { return file_.number(key(name)); }
  std::optional<bool> boolean(const char* name) const { return file_.boolean(key(name)); }
  std::optional<std::string> string(const char* name) const { return file_.string(key(name)); }

  [[noreturn]] void missing(const char* name) const {
    fail_artifact(kWhere, " ", file_.origin(), ": ", in_quotes(key(name)), " is missing");
  }

 private:
  [[noreturn]] void out_of_range(const char* name, int64_t value, int64_t least, int64_t most) const {
    fail_artifact(kWhere, " ", file_.origin(), ": ", in_quotes(key(name)), "; expected ", least, " to ", most,
                  ", got ", value);
  }

  const GgufFile& file_;
  std::string prefix_;
};

int64_t vocabulary_size(const GgufFile& file, const Keys& keys) {
  if (const auto stated = keys.integer("vocab_size", 1, kMostVocabulary)) return *stated;
  const auto embedding = file.tensors().find("token_embd.weight");
  if (embedding != file.tensors().end() && embedding->second.shape.size() == 2)
    return embedding->second.shape[0];
  if (const auto* tokens = file.strings("tokenizer.ggml.tokens"); tokens != nullptr && !tokens->empty()) {
    return static_cast<int64_t>(tokens->size());
  }
  keys.missing("vocab_size");
}

void read_sizes(const GgufFile& file, const Keys& keys, ModelConfig& config) {
  config.hidden_size = keys.required("embedding_length", 1, kMostHidden);
  config.n_layers = keys.required("block_count", 1, kMostLayers);
  config.context_length = keys.required("context_length", 1, kMostPositions);
  const auto intermediate = keys.uniform("feed_forward_length", 1, kMostIntermediate);
  if (!intermediate) keys.missing("feed_forward_length");
  config.intermediate_size = *intermediate;
  const auto heads = keys.uniform("attention.head_count", 1, kMostHeads);
  if (!heads) keys.missing("attention.head_count");
  config.n_heads = *heads;
  config.n_kv_heads = keys.uniform("attention.head_count_kv", 1, kMostHeads).value_or(config.n_heads);
  const auto key_length = keys.integer("attention.key_length", 1, kMostHeadDim);
  if (!key_length && config.hidden_size % config.n_heads != 0) keys.missing("attention.key_length");
  config.head_dim = key_length.value_or(config.hidden_size / config.n_heads);
  const auto value_length = keys.integer("attention.value_length", 1, kMostHeadDim);
  if (value_length && *value_length != config.head_dim) {
    base::fail_unsupported(kWhere, " ", file.origin(), ": values of ", *value_length, " dims beside keys of ",
                           config.head_dim);
  }
  config.vocab_size = vocabulary_size(file, keys);
  if (config.vocab_size > kMostVocabulary) {
    fail_artifact(kWhere, " ", file.origin(), ": a vocabulary of ", config.vocab_size, "; expected at most ",
                  kMostVocabulary);
  }
}

void read_rope(const GgufFile& file, const Keys& keys, ModelConfig& config) {
  config.rope_theta = keys.number("rope.freq_base").value_or(config.rope_theta);
  config.rope_dims = keys.integer("rope.dimension_count", 0, kMostHeadDim).value_or(config.head_dim);
  RopeScaling& rope = config.rope_scaling;
  rope.kind = keys.string("rope.scaling.type").value_or("none");
  if (rope.kind == "none") rope.kind = "default";
  // rope.scale_linear is the spelling of files from before scaling had types.
  const std::optional<double> old_factor = keys.number("rope.scale_linear");
  rope.factor = keys.number("rope.scaling.factor").value_or(old_factor.value_or(1.0));
  if (rope.kind == "default" && rope.factor != 1.0 && rope.factor != 0.0) rope.kind = "linear";
  if (rope.factor == 0.0) rope.factor = 1.0;  // written by some converters for "no scaling"
  rope.original_context_length =
      keys.integer("rope.scaling.original_context_length", 1, kMostPositions).value_or(config.context_length);
  rope.beta_fast = keys.number("rope.scaling.yarn_beta_fast").value_or(rope.beta_fast);
  rope.beta_slow = keys.number("rope.scaling.yarn_beta_slow").value_or(rope.beta_slow);
  if (file.tensors().contains("rope_freqs.weight")) rope.kind = "factors";
  if (rope.kind == "longrope") {
    // Its factors are tensors, and their scale another key.
    base::fail_unsupported(kWhere, " ", file.origin(), ": ", in_quotes(keys.key("rope.scaling.type")),
                           " is longrope, which Tessera reads from Hugging Face checkpoints only");
  }
}

/// Keys that change what a model computes, in ways that none of our models does. Only their neutral
/// values are read; 0 is how several converters write "not used".
void check_neutral_keys(const GgufFile& file, const Keys& keys, const ModelConfig& config) {
  const auto refuse = [&](const char* name, const std::string& expected) {
    base::fail_unsupported(kWhere, " ", file.origin(), ": ", in_quotes(keys.key(name)),
                           " changes the results in a way that Tessera does not compute; expected ",
                           expected);
  };
  for (const char* name : {"logit_scale", "embedding_scale", "residual_scale", "rope.scaling.attn_factor",
                           "rope.scaling.yarn_attn_factor"}) {
    const double value = keys.number(name).value_or(1);
    if (value != 1 && value != 0) refuse(name, "1 or none");
  }
  for (const char* name : {"attn_logit_softcapping", "final_logit_softcapping", "attention.clamp_kqv",
                           "attention.max_alibi_bias", "rope.scaling.yarn_log_multiplier"}) {
    if (keys.number(name).value_or(0) != 0) refuse(name, "0 or none");
  }
  // How much of yarn's ramp is applied; negative means unsaid.
  const double all_of_it = config.rope_scaling.kind == "yarn" ? 1 : 0;
  const double share = keys.number("rope.scaling.yarn_ext_factor").value_or(all_of_it);
  if (!(share < 0 || share == all_of_it)) {
    refuse("rope.scaling.yarn_ext_factor", all_of_it == 1 ? "1 or none" : "0 or none");
  }
  if (!keys.boolean("attention.causal").value_or(true)) refuse("attention.causal", "true or none");
  if (keys.boolean("use_parallel_residual").value_or(false)) refuse("use_parallel_residual", "false or none");
  const double usual_scale = 1 / std::sqrt(static_cast<double>(config.head_dim));
  const double scale = keys.number("attention.scale").value_or(usual_scale);
  // The file holds a float32.
  if (scale != 0 && !(std::abs(scale - usual_scale) <= 1e-6 * usual_scale)) {
    refuse("attention.scale", "1 / sqrt(head_dim) or none");
  }
  if (config.rope_dims != config.head_dim && has_interleaved_rope_rows(config.model_type)) {
    base::fail_unsupported(kWhere, " ", file.origin(), ": ", in_quotes(keys.key("rope.dimension_count")),
                           " rotates ", config.rope_dims, " of ", config.head_dim,
                           " dims in interleaved rows, which Tessera does not read");
  }
}

std::optional<int32_t> token_id(const GgufFile& file, const char* key) {
  const std::optional<int64_t> id = file.integer(key);
  if (!id) return std::nullopt;
  if (*id < 0 || *id > std::numeric_limits<int32_t>::max()) {
    // -1 and its unsigned twin mean "none" in files of several converters.
    if (*id == -1 || *id == std::numeric_limits<uint32_t>::max()) return std::nullopt;
    fail_artifact(kWhere, " ", file.origin(), ": ", key, "; expected a token id, got ", *id);
  }
  return static_cast<int32_t>(*id);
}

void read_token_ids(const GgufFile& file, ModelConfig& config) {
  config.bos_token_id = token_id(file, "tokenizer.ggml.bos_token_id");
  for (const char* key :
       {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id", "tokenizer.ggml.eom_token_id"}) {
    const std::optional<int32_t> id = token_id(file, key);
    std::vector<int32_t>& ids = config.eos_token_ids;
    if (id && std::find(ids.begin(), ids.end(), *id) == ids.end()) ids.push_back(*id);
  }
}

}  // namespace

ModelConfig parse_model_config(const GgufFile& file) {
  const std::optional<std::string> architecture = file.string("general.architecture");
  if (!architecture || architecture->empty())
    fail_artifact(kWhere, " ", file.origin(), ": general.architecture is missing");
  const Keys keys(file, *architecture);
  ModelConfig config;
  config.model_type = *architecture;
  read_sizes(file, keys, config);
  read_rope(file, keys, config);
  std::optional<double> eps = keys.number("attention.layer_norm_rms_epsilon");
  if (!eps) eps = keys.number("attention.layer_norm_epsilon");
  if (!eps) keys.missing("attention.layer_norm_rms_epsilon");
  config.rms_norm_eps = *eps;
  const auto window = keys.integer("attention.sliding_window", 0, kMostPositions);
  if (window && *window > 0) config.sliding_window = window;
  config.attention_bias = file.tensors().contains("blk.0.attn_q.bias");
  config.mlp_bias = file.tensors().contains("blk.0.ffn_up.bias");
  config.tie_word_embeddings = !file.tensors().contains("output.weight");
  config.is_tie_stated = true;
  read_token_ids(file, config);
  check_model_config(config, base::concat(kWhere, " ", file.origin()));
  check_neutral_keys(file, keys, config);
  return config;
}

}  // namespace tessera::artifacts
