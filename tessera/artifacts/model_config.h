// What a model's configuration says, in our own names. This file and model_config.cc are the only
// ones that know the Hugging Face and GGUF spellings.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tessera::artifacts {

class GgufFile;

/// How rotary frequencies are stretched beyond the trained context. Names in comments are the kinds that
/// read a field; layers/rope.h says what they do with it.
struct RopeScaling {
  // default, linear, dynamic, llama3, yarn, longrope, proportional, another name that the file has, or
  // "factors": a GGUF file that brings one divisor per frequency in its tensor rope_freqs.weight (what
  // llama3 scaling becomes there)
  std::string kind = "default";
  double factor = 1.0;                              // stretch of the context
  double low_freq_factor = 1.0;                     // llama3: wavelengths above original / low are stretched
  double high_freq_factor = 4.0;                    // llama3: wavelengths below original / high are kept
  int64_t original_context_length = 0;              // positions the model was trained on before stretching
  double beta_fast = 32, beta_slow = 1;             // yarn: turns at the ends of the ramp
  bool is_ramp_truncated = true;                    // yarn: the ramp's ends are whole pairs
  double mscale = 0, mscale_all_dim = 0;            // yarn: shape the scale, 0 = unsaid
  std::optional<double> attention_factor;           // yarn, longrope: the scale of rotated dims
  std::vector<double> short_factors, long_factors;  // longrope: [rope_dims / 2]
  double proportion = 1.0;                          // proportional: of the pairs that turn
};

/// How one module's weight is stored in an MLX checkpoint.
struct QuantizationSpec {
  int bits = 0;
  int group_size = 0;
  std::string mode = "affine";  // affine, or MLX's mxfp4, nvfp4, mxfp8
};

/// `quantization` of config.json: a default and overrides by module path.
struct QuantizationConfig {
  std::optional<QuantizationSpec> fallback;  // absent: modules not listed are dense
  std::map<std::string, std::optional<QuantizationSpec>, std::less<>> overrides;  // absent: dense

  /// The spec of the module at `path` (for example "model.layers.0.mlp.up_proj"), or absent when
  /// it is dense.
  std::optional<QuantizationSpec> spec(std::string_view path) const;
};

struct ModelConfig {
  std::string model_type;         // Hugging Face's `model_type`; for GGUF mapped from the architecture
  int64_t hidden_size = 0;        // E
  int64_t intermediate_size = 0;  // F
  int64_t n_layers = 0;
  int64_t n_heads = 0;         // H
  int64_t n_kv_heads = 0;      // Hkv, divides n_heads
  int64_t head_dim = 0;        // D
  int64_t vocab_size = 0;      // V
  int64_t context_length = 0;  // trained positions (max_position_embeddings)
  double rms_norm_eps = 1e-5;
  double rope_theta = 10000.0;
  int64_t rope_dims = 0;             // leading dims of a head that are rotated
  bool is_rope_interleaved = false;  // pairs (0,1),(2,3).. instead of (0,D/2),(1,D/2+1)..
  RopeScaling rope_scaling;
  std::optional<int64_t> sliding_window;  // keys a query sees, itself included
  std::string hidden_activation = "silu";
  bool attention_bias = false;  // q, k, v and o projections carry a bias
  bool mlp_bias = false;
  bool tie_word_embeddings = false;  // the head is the embedding
  bool is_tie_stated = false;        // false: the file does not say; tied if there is no head
  std::string dtype;                 // dtype the weights were published in, "" if unsaid
  QuantizationConfig quantization;
  std::vector<int32_t> eos_token_ids;  // of config.json and generation_config.json together
  std::optional<int32_t> bos_token_id;
};

/// Reads config.json (with a nested `text_config`), and generation_config.json when its text is
/// not empty. `origin` names the folder in messages.
/// Throws InvalidArtifact naming the field on anything missing, of the wrong type or out of range
/// (sizes are bounded so that products cannot overflow, n_heads % n_kv_heads == 0, even rope_dims).
/// Throws Unsupported for a `quantization_config` of another toolkit (GPTQ, AWQ, ...), also beside
/// MLX's `quantization`, or modes and bits that MLX does not know. `model_type` is the one of `text_config` where that has one.
/// It does not decide whether the architecture is supported: models/registry does.
ModelConfig parse_model_config(std::string_view config_json, std::string_view generation_config_json,
                               const std::string& origin);

/// The same from GGUF metadata (`general.architecture` and `<architecture>.*`) and the tensor table:
/// no output.weight means tied. The architecture is taken as the model type; the hidden activation is
/// not in the file and stays "silu". Throws Unsupported where layers differ in size, where a key asks
/// for computations that no model of ours does (soft caps, scales other than the usual ones, attention
/// that is not causal), and for rotary pairs in interleaved rows that cover a part of a head.
ModelConfig parse_model_config(const GgufFile& file);

}  // namespace tessera::artifacts
