#include "tessera/artifacts/model_config.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "tessera/artifacts/config_checks.h"
#include "tessera/artifacts/json_fields.h"
#include "tessera/artifacts/json_reader.h"
#include "tessera/artifacts/quantization_config.h"
#include "tessera/artifacts/quotes.h"
#include "tessera/base/check.h"

namespace tessera::artifacts {
namespace {

using base::fail_artifact;
using nlohmann::json;

constexpr const char* kWhere = "[config.parse]";

/// The first of several spellings of one number.
std::optional<double> first_number(const JsonFields& fields, std::initializer_list<const char*> keys) {
  for (const char* key : keys) {
    if (const auto value = fields.number(key)) return value;
  }
  return std::nullopt;
}

void read_sizes(const JsonFields& text, ModelConfig& config) {
  config.hidden_size = text.required_integer("hidden_size", 1, kMostHidden);
  config.intermediate_size = text.required_integer("intermediate_size", 1, kMostIntermediate);
  config.n_layers = text.required_integer("num_hidden_layers", 1, kMostLayers);
  config.n_heads = text.required_integer("num_attention_heads", 1, kMostHeads);
  config.n_kv_heads = text.integer("num_key_value_heads", 1, kMostHeads).value_or(config.n_heads);
  config.vocab_size = text.required_integer("vocab_size", 1, kMostVocabulary);
  config.context_length = text.required_integer("max_position_embeddings", 1, kMostPositions);
  if (const auto head_dim = text.integer("head_dim", 1, kMostHeadDim)) {
    config.head_dim = *head_dim;
  } else if (config.hidden_size % config.n_heads == 0) {
    config.head_dim = config.hidden_size / config.n_heads;
  } else {
    fail_artifact(text.at("head_dim"), " is missing, and hidden_size ", config.hidden_size,
                  " is no multiple of num_attention_heads ", config.n_heads);
  }
}

/// The kind of scaling. `type` is the old spelling; files that were written in between hold both.
std::string read_rope_kind(const JsonFields& scaling) {
  std::optional<std::string> kind = scaling.string("rope_type");
  if (!kind) kind = scaling.string("type");
  if (kind == "su") return "longrope";  // its name in the first checkpoints that used it
  return kind.value_or("default");
}

void read_yarn(const JsonFields& scaling, RopeScaling& rope) {
  // 0 stands for the default, as in the code that these files were written for.
  const double fast = scaling.number("beta_fast").value_or(0), slow = scaling.number("beta_slow").value_or(0);
  if (fast != 0) rope.beta_fast = fast;
  if (slow != 0) rope.beta_slow = slow;
  rope.mscale = scaling.number("mscale").value_or(0);
  rope.mscale_all_dim = scaling.number("mscale_all_dim").value_or(0);
  rope.is_ramp_truncated = scaling.boolean("truncate").value_or(true);
}

void read_longrope(const JsonFields& scaling, RopeScaling& rope) {
  const auto factors = [&](const char* key) {
    auto numbers = scaling.numbers(key, kMostHeadDim);
    if (!numbers) fail_artifact(scaling.at(key), " is missing for rope type longrope");
    return *std::move(numbers);
  };
  rope.short_factors = factors("short_factor");
  rope.long_factors = factors("long_factor");
}

/// Fields of `scaling` that describe the stretch; the caller has found the object.
void read_rope_scaling(const JsonFields& text, const JsonFields& scaling, ModelConfig& config) {
  RopeScaling& rope = config.rope_scaling;
  rope.kind = read_rope_kind(scaling);
  const bool is_longrope = rope.kind == "longrope", is_yarn = rope.kind == "yarn";
  auto original = scaling.integer("original_max_position_embeddings", 1, kMostPositions);
  // Beside the object, where some files have it, it counts more than inside.
  const auto outer = text.integer("original_max_position_embeddings", 1, kMostPositions);
  if (outer && (is_yarn || is_longrope || rope.kind == "llama3")) original = outer;
  if (rope.kind == "llama3" && !original) {
    fail_artifact(scaling.at("original_max_position_embeddings"), " is missing for rope type llama3");
  }
  if (rope.kind == "dynamic") original.reset();  // this kind stretches max_position_embeddings
  rope.original_context_length = original.value_or(config.context_length);
  const std::optional<double> factor = scaling.number("factor");
  const bool needs_factor = rope.kind == "linear" || rope.kind == "dynamic" || rope.kind == "llama3";
  if (needs_factor && !factor) fail_artifact(scaling.at("factor"), " is missing for rope type ", rope.kind);
  const double ratio =
      static_cast<double>(config.context_length) / static_cast<double>(rope.original_context_length);
  rope.factor = factor.value_or(is_yarn || is_longrope ? ratio : 1.0);
  rope.low_freq_factor = scaling.number("low_freq_factor").value_or(rope.low_freq_factor);
  rope.high_freq_factor = scaling.number("high_freq_factor").value_or(rope.high_freq_factor);
  rope.attention_factor = scaling.number("attention_factor");
  if (is_yarn) read_yarn(scaling, rope);
  if (is_longrope) read_longrope(scaling, rope);
}

/// Where the rotary parameters stand: `rope_parameters` (transformers 5), which may hold one object
/// per layer type, or `rope_scaling`.
std::optional<JsonFields> find_rope(const JsonFields& text) {
  auto parameters = text.nested("rope_parameters");
  if (!parameters) return text.nested("rope_scaling");
  if (auto full = parameters->nested("full_attention")) return full;
  return parameters;
}

void read_rope(const JsonFields& text, ModelConfig& config) {
  std::optional<double> theta = text.number("rope_theta");
  std::optional<double> rotated = first_number(text, {"partial_rotary_factor", "rotary_pct"});
  if (const std::optional<JsonFields> rope = find_rope(text)) {
    read_rope_scaling(text, *rope, config);
    if (const auto inner = rope->number("rope_theta")) theta = inner;
    if (const auto inner = rope->number("partial_rotary_factor")) rotated = inner;
  }
  config.rope_theta = theta.value_or(config.rope_theta);
  const double fraction = rotated.value_or(1.0);
  if (!(fraction > 0 && fraction <= 1)) {
    fail_artifact(text.at("partial_rotary_factor"), "; expected more than 0 and at most 1, got ", fraction);
  }
  config.rope_dims = static_cast<int64_t>(static_cast<double>(config.head_dim) * fraction);
  if (config.rope_scaling.kind == "proportional") {
    // Here the fraction says how many pairs of the whole head turn, and not which dims are left alone.
    config.rope_scaling.proportion = fraction;
    config.rope_dims = config.head_dim;
  }
  config.is_rope_interleaved = text.boolean("rope_interleave").value_or(false);
}

std::string read_dtype(const JsonFields& fields) {
  std::optional<std::string> dtype = fields.string("dtype");
  if (!dtype) dtype = fields.string("torch_dtype");
  if (!dtype) return "";
  constexpr std::string_view kPrefix = "torch.";
  return dtype->starts_with(kPrefix) ? dtype->substr(kPrefix.size()) : *dtype;
}

/// Token ids of a field that holds one id or a list, appended in order without repeats.
void add_token_ids(const JsonFields& fields, const char* key, std::vector<int32_t>& ids) {
  const json* value = fields.find(key);
  if (value == nullptr) return;
  const auto add = [&](const json& id) {
    const auto number =
        static_cast<int32_t>(checked_integer(id, 0, std::numeric_limits<int32_t>::max(), fields.at(key)));
    if (std::find(ids.begin(), ids.end(), number) == ids.end()) ids.push_back(number);
  };
  if (!value->is_array()) return add(*value);
  constexpr std::size_t kMostIds = 4096;  // keeps the search for repeats cheap on hostile files
  if (value->size() > kMostIds)
    fail_artifact(fields.at(key), " lists ", value->size(), " ids; expected at most ", kMostIds);
  for (const json& id : *value) add(id);
}

void read_token_ids(const JsonFields& fields, ModelConfig& config) {
  add_token_ids(fields, "eos_token_id", config.eos_token_ids);
  std::vector<int32_t> bos;
  add_token_ids(fields, "bos_token_id", bos);
  if (!config.bos_token_id && !bos.empty()) config.bos_token_id = bos.front();
}

void read_behaviour(const JsonFields& text, const JsonFields& root, ModelConfig& config) {
  const auto eps =
      first_number(text, {"rms_norm_eps", "layer_norm_eps", "norm_eps", "norm_epsilon", "layernorm_epsilon"});
  if (!eps) fail_artifact(text.at("rms_norm_eps"), " is missing");
  config.rms_norm_eps = *eps;
  if (text.boolean("use_sliding_window").value_or(true)) {
    config.sliding_window = text.integer("sliding_window", 1, kMostPositions);
  }
  // Where both spellings stand, the longer one is the one that models were trained with.
  std::optional<std::string> activation = text.string("hidden_activation");
  if (!activation) activation = text.string("hidden_act");
  config.hidden_activation = activation.value_or(config.hidden_activation);
  config.attention_bias = text.boolean("attention_bias").value_or(false);
  config.mlp_bias = text.boolean("mlp_bias").value_or(false);
  std::optional<bool> tie = text.boolean("tie_word_embeddings");
  if (!tie) tie = root.boolean("tie_word_embeddings");
  config.is_tie_stated = tie.has_value();
  config.tie_word_embeddings = tie.value_or(false);
  config.dtype = read_dtype(text);
  if (config.dtype.empty()) config.dtype = read_dtype(root);
}

}  // namespace

ModelConfig parse_model_config(std::string_view config_json, std::string_view generation_config_json,
                               const std::string& origin) {
  const std::string config_origin = origin + "/config.json";
  const json document = read_json(config_json, kWhere, config_origin, DuplicateKeys::kKeepLast);
  const JsonFields root(document, kWhere, config_origin, "");
  const JsonFields text = root.nested("text_config").value_or(root);

  ModelConfig config;
  std::optional<std::string> model_type = text.string("model_type");
  if (!model_type) model_type = root.string("model_type");
  if (!model_type || model_type->empty()) fail_artifact(root.at("model_type"), " is missing");
  config.model_type = *model_type;
  read_sizes(text, config);
  read_rope(text, config);
  read_behaviour(text, root, config);
  config.quantization = read_quantization(document, kWhere, config_origin);
  read_token_ids(text, config);
  read_token_ids(root, config);
  if (!generation_config_json.empty()) {
    const std::string generation_origin = origin + "/generation_config.json";
    const json generation =
        read_json(generation_config_json, kWhere, generation_origin, DuplicateKeys::kKeepLast);
    read_token_ids(JsonFields(generation, kWhere, generation_origin, ""), config);
  }
  check_model_config(config, kWhere + (" " + config_origin));
  return config;
}

}  // namespace tessera::artifacts
