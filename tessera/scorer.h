// Scoring: numbers about a text under loaded models.
//
//   tessera::KlOptions options;
//   options.a.precision = tessera::Precision::kFloat32;  // the reference; b stays at the default tier
//   const tessera::KlReport report = tessera::measure_kl(options, text);
#pragma once

#include <cstdint>
#include <functional>
#include <stop_token>
#include <string>
#include <string_view>

#include "tessera/error.h"
#include "tessera/options.h"

namespace tessera {

/// Two sides that read the same text. The method is that of llama.cpp's perplexity program, so that
/// figures compare: the text is tokenized once (special tokens spelled in it are plain text) and cut
/// into windows that do not overlap; an unfinished one at the end is left out. Where the tokenizer begins
/// a text with BOS, every window's first token is replaced by it. Each window is a sequence of its own;
/// what its second half predicts is scored, from position window_tokens / 2 to the one before the last.
struct KlOptions {
  ModelOptions a;                      // the reference, P; its tokenizer reads the text
  ModelOptions b;                      // what is measured against it, Q
  int64_t window_tokens = 512;         // at least 3; context_length of the two models is ignored
  int64_t max_tokens = 0;              // tokens of the text that are used, 0 = all
  std::string text_name = "the text";  // what messages call the text
};

/// KL(P || Q) of the scored tokens, in nats, and what else the same logits say. Nothing is a NaN: a token
/// that P allows and Q gives no probability has an infinite KL.
struct KlReport {
  int64_t text_tokens = 0;         // tokens of the whole text
  int64_t windows = 0;             // windows scored
  int64_t tokens = 0;              // tokens scored
  double kl_mean = 0.0;            // infinite as soon as one token's is
  double kl_standard_error = 0.0;  // of the mean; 0 for a single token
  double kl_median = 0.0;          // this and the quantiles interpolate between neighbours
  double kl_q90 = 0.0;
  double kl_q95 = 0.0;
  double kl_q99 = 0.0;
  double kl_max = 0.0;
  int64_t infinite_tokens = 0;  // tokens whose KL is infinite
  double same_top = 0.0;        // fraction of tokens where both have the same likeliest next token
  double perplexity_a = 0.0;    // exp of the mean negative log-probability of the text's own tokens
  double perplexity_b = 0.0;
  double ln_ratio = 0.0;      // ln(perplexity_b / perplexity_a); 0 when both are infinite
  bool is_cancelled = false;  // the figures are those of the windows before that
};

/// Windows done of all windows, and the mean KL so far.
struct KlProgress {
  int64_t windows_done = 0;
  int64_t windows = 0;
  double kl_mean = 0.0;
};
using KlCallback = std::function<void(const KlProgress&)>;

/// Loads both sides, measures, and drops them, all on the calling thread; `on_progress` is called there
/// after every window. Both models are in memory at the same time; of the logits, those of 64 positions
/// are. Results are the same bits with any number of threads.
/// Cancellation takes effect between two layers and is a result when a window was finished, else
/// Error(kCancelled).
/// Throws as loading does; InvalidArgument for options that cannot be, a window beyond a model's context,
/// a text that is empty or shorter than one window, and models whose vocabularies differ;
/// InvalidArtifact when a model's logits are not numbers. An exception of `on_progress` ends it and is
/// rethrown.
KlReport measure_kl(const KlOptions& options, std::string_view text, const KlCallback& on_progress = {},
                    std::stop_token cancel = {});

}  // namespace tessera
