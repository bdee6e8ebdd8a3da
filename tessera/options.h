// The options of a model and of one generation. Plain data; each struct is consumed by the folder
// that its comment names, and every field has an effect.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace tessera {

/// Arithmetic of a loaded model (docs/numerics.md).
enum class Precision {
  kAuto,      // activations rounded to bfloat16 on their way into exact products, float32 elsewhere
  kFloat32,   // float32 activations and products
  kBFloat16,  // every activation stored in bfloat16, as published checkpoints were trained
  kInt8,      // activations rounded to 8-bit whole numbers per group of columns on their way into products
};

/// Most threads that ModelOptions::threads may ask for (base/thread_pool, apps/cli/flags).
inline constexpr int kMaxThreads = 1024;

/// How a model is loaded (models/).
struct ModelOptions {
  std::string model = "default";  // folder, .gguf file, org/name in the Hugging Face cache, or default
  Precision precision = Precision::kAuto;
  int threads = 0;                   // threads of our own kernels, the caller's included; 0 = physical cores
  int64_t context_length = 0;        // positions a sequence may hold, 0 = what the model was trained on
  int64_t prefill_chunk_tokens = 0;  // prompt tokens per forward, 0 = the default of the device
};

/// How the next token is drawn (execution/sampler). The order of the steps is: logit bias,
/// repetition, presence and frequency penalties, log-softmax, top-p, min-p, XTC, top-k, temperature.
struct SamplingOptions {
  double temperature = 0.0;      // 0 = greedy: the highest score, lowest id on ties
  double top_p = 1.0;            // in (0, 1]: smallest set of tokens with this much probability
  int64_t top_k = 0;             // keep the k most likely tokens, 0 = all
  double min_p = 0.0;            // in [0, 1]: drop tokens below this fraction of the best one
  double xtc_probability = 0.0;  // in [0, 1]: chance of excluding the top choices of a step
  double xtc_threshold = 0.1;    // in [0, 0.5]: probability from which XTC counts a token as a top choice
  double repetition_penalty =
      1.0;  // 0.001 to 1000: divides positive and multiplies negative logits of seen tokens
  int64_t repetition_context = 20;       // tokens the penalties look back, 0 = all
  double presence_penalty = 0.0;         // -1e6 to 1e6: subtracted once from every seen token
  double frequency_penalty = 0.0;        // -1e6 to 1e6: subtracted per occurrence of a seen token
  std::map<int32_t, double> logit_bias;  // up to 1e6: added to the logits of these token ids
  std::optional<uint64_t> seed;          // absent: taken from the system, and reported
  bool logprobs = false;                 // report the log-probability of each token
  int64_t top_logprobs = 0;              // also report the k most likely tokens, up to 20
};

/// One generation (execution/).
struct GenerationOptions {
  int64_t max_tokens = 256;       // >= 1
  std::vector<std::string> stop;  // text that ends the answer; never part of it
  bool ignore_eos = false;        // go on after end-of-sequence tokens
  SamplingOptions sampling;
};

}  // namespace tessera
