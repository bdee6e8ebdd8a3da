// The text-level face of scoring/: loads both sides and leads a text's windows through them.
#include "tessera/scorer.h"

#include <mlx/ops.h>
#include <mlx/transforms.h>

#include <algorithm>
#include <exception>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "tessera/artifacts/tokenizer_files.h"
#include "tessera/base/boundary.h"
#include "tessera/base/thread_pool.h"
#include "tessera/models/load.h"
#include "tessera/scoring/kl.h"
#include "tessera/scoring/windows.h"
#include "tessera/tokenizer.h"

namespace tessera {
namespace {

namespace mx = mlx::core;

constexpr const char* kWhere = "[scoring.kl]";

// Positions whose logits are in memory at a time: enough rows for the head's matrix product to be worth
// its weights' traffic, and 12 MiB per side of a vocabulary of 50k.
constexpr int64_t kChunkPositions = 64;

void check_options(const KlOptions& options) {
  if (options.window_tokens < scoring::kMinWindowTokens) {
    base::fail_argument(kWhere, " windows of ", options.window_tokens, " tokens; expected at least ",
                        scoring::kMinWindowTokens);
  }
  if (options.max_tokens != 0 && options.max_tokens < options.window_tokens) {
    base::fail_argument(kWhere, " at most ", options.max_tokens, " tokens of ", options.text_name,
                        "; expected 0 for all, or at least ", options.window_tokens, ", one window");
  }
}

/// Opens a side's files. Both sides compute one after the other, so they may share their threads.
models::OpenModel open_side(const ModelOptions& options, const KlOptions& kl,
                            const std::shared_ptr<base::ThreadPool>& pool) {
  models::OpenModel open = models::open_model(options.model, pool);
  if (kl.window_tokens > open.config.context_length) {
    base::fail_argument(kWhere, " windows of ", kl.window_tokens, " tokens; expected at most ",
                        open.config.context_length, ", the context of ", open.name);
  }
  return open;
}

/// Every id must mean the same on both sides. One vocabulary may name more ids than the other where an
/// embedding is padded; the logits have the same width all the same.
void check_same_vocabulary(const models::OpenModel& a, const Tokenizer& tokenizer_a,
                           const models::OpenModel& b, const Tokenizer& tokenizer_b) {
  if (a.config.vocab_size != b.config.vocab_size) {
    base::fail_argument(kWhere, " the vocabularies differ: ", a.name, " has ", a.config.vocab_size,
                        " tokens, ", b.name, " has ", b.config.vocab_size);
  }
  const int32_t n_shared = std::min(tokenizer_a.vocab_size(), tokenizer_b.vocab_size());
  for (int32_t id = 0; id < n_shared; ++id) {
    if (tokenizer_a.token_bytes(id) == tokenizer_b.token_bytes(id)) continue;
    base::fail_argument(kWhere, " the vocabularies differ: token ", id, " of ", a.name,
                        " stands for another text in ", b.name);
  }
}

/// The ids of the text, cut off after max_tokens.
struct Tokens {
  std::vector<int32_t> ids;
  int64_t text_tokens = 0;              // before the cut
  std::optional<int32_t> window_start;  // see scoring::window_start
};

Tokens read_tokens(const Tokenizer& tokenizer, std::string_view text, const KlOptions& options,
                   int64_t vocab_size) {
  Tokens tokens;
  tokens.ids = tokenizer.encode(text, {.parse_special_tokens = false});
  tokens.text_tokens = static_cast<int64_t>(tokens.ids.size());
  tokens.window_start = scoring::window_start(tokenizer);
  if (tokens.text_tokens < options.window_tokens) {
    base::fail_argument(kWhere, ' ', options.text_name, " has ", tokens.text_tokens,
                        " tokens; expected at least ", options.window_tokens, ", one window");
  }
  const int32_t largest = *std::max_element(tokens.ids.begin(), tokens.ids.end());
  if (largest >= vocab_size) {
    base::fail_artifact(kWhere, " the tokenizer of ", options.a.model, " made token ", largest,
                        "; expected below ", vocab_size, ", the size of the model's vocabulary");
  }
  if (options.max_tokens > 0 && options.max_tokens < tokens.text_tokens) {
    tokens.ids.resize(static_cast<std::size_t>(options.max_tokens));
  }
  return tokens;
}

/// What a measurement runs on.
struct Sides {
  std::shared_ptr<const models::CausalModel> a;
  std::shared_ptr<const models::CausalModel> b;
  std::shared_ptr<base::ThreadPool> pool;  // of a, free between evaluations
  Tokens tokens;
};

/// Checks everything that the files and the text can be refused for, then loads.
Sides load_sides(const KlOptions& options, std::string_view text) {
  const auto pool = std::make_shared<base::ThreadPool>(options.a.threads);
  const bool shares_pool = options.b.threads == options.a.threads;
  const models::OpenModel open_a = open_side(options.a, options, pool);
  const models::OpenModel open_b = open_side(
      options.b, options, shares_pool ? pool : std::make_shared<base::ThreadPool>(options.b.threads));
  const Tokenizer tokenizer = Tokenizer::load(artifacts::read_tokenizer_source(open_a.files));
  if (options.a.model != options.b.model) {
    check_same_vocabulary(open_a, tokenizer, open_b,
                          Tokenizer::load(artifacts::read_tokenizer_source(open_b.files)));
  }
  Tokens tokens = read_tokens(tokenizer, text, options, open_a.config.vocab_size);

  ModelOptions options_a = options.a;
  ModelOptions options_b = options.b;
  options_a.context_length = options_b.context_length = options.window_tokens;
  return {.a = models::load_model(open_a, options_a),
          .b = models::load_model(open_b, options_b),
          .pool = pool,
          .tokens = std::move(tokens)};
}

/// Hidden states [1, L, E] of a window as a sequence of its own, evaluated.
mx::array window_hidden(const models::CausalModel& model, const std::vector<int32_t>& window,
                        const std::stop_token& cancel) {
  const mx::array ids(window.data(), {1, static_cast<int>(window.size())}, mx::int32);
  state::SequenceState state = model.new_state();
  const mx::array hidden =
      model.forward_hidden(ids, state, {.phase = state::Phase::kWindow, .cancel = cancel});
  std::vector<mx::array> outputs = state.pending();
  outputs.push_back(hidden);
  mx::eval(outputs);
  return hidden;
}

/// Logits [L, V] of positions [first, last) as float32, not evaluated.
mx::array chunk_logits(const models::CausalModel& model, const mx::array& hidden, int64_t first,
                       int64_t last) {
  const mx::array rows =
      mx::slice(hidden, {0, static_cast<int>(first), 0}, {1, static_cast<int>(last), hidden.shape(2)});
  return mx::contiguous(mx::astype(mx::squeeze(model.logits(rows), 0), mx::float32));
}

/// Both sides, and the scores of the windows that went through them.
class Measurement {
 public:
  Measurement(const Sides& sides, const KlOptions& options) : sides_(sides), options_(options) {}

  /// Scores one window. Adds nothing when it throws.
  void add_window(const std::vector<int32_t>& window, const std::stop_token& cancel) {
    const mx::array hidden_a = window_hidden(*sides_.a, window, cancel);
    const mx::array hidden_b = window_hidden(*sides_.b, window, cancel);
    const auto [first, last] = scoring::scored_positions(static_cast<int64_t>(window.size()));
    std::vector<scoring::TokenScore> scores(static_cast<std::size_t>(last - first));
    for (int64_t start = first; start < last; start += kChunkPositions) {
      const int64_t end = std::min(start + kChunkPositions, last);
      score_chunk(chunk_logits(*sides_.a, hidden_a, start, end),
                  chunk_logits(*sides_.b, hidden_b, start, end),
                  std::span(window).subspan(static_cast<std::size_t>(start + 1)),
                  std::span(scores).subspan(static_cast<std::size_t>(start - first)));
    }
    for (const scoring::TokenScore& score : scores) {
      if (!score.is_defined) {
        base::fail_artifact(kWhere, " logits are not numbers; the weights of ", options_.a.model, " or ",
                            options_.b.model, " are damaged, or their arithmetic overflows");
      }
    }
    scores_.insert(scores_.end(), scores.begin(), scores.end());
    for (const scoring::TokenScore& score : scores) kl_sum_ += score.kl;
  }

  double kl_mean() const { return kl_sum_ / static_cast<double>(scores_.size()); }
  KlReport report() const { return scoring::summarize(scores_); }

 private:
  /// The named evaluation point: the logits [L, V] of one chunk, `targets` the tokens they predict.
  void score_chunk(mx::array a, mx::array b, std::span<const int32_t> targets,
                   std::span<scoring::TokenScore> scores) {
    mx::eval(a, b);
    const auto width = static_cast<std::size_t>(a.shape(1));
    const float* data_a = a.data<float>();
    const float* data_b = b.data<float>();
    sides_.pool->run(a.shape(0), [&](int row) {
      const auto i = static_cast<std::size_t>(row);
      scores[i] = scoring::score_token({data_a + i * width, width}, {data_b + i * width, width}, targets[i]);
    });
  }

  const Sides& sides_;
  const KlOptions& options_;
  std::vector<scoring::TokenScore> scores_;
  double kl_sum_ = 0.0;
};

KlReport run_kl(const KlOptions& options, std::string_view text, const KlCallback& on_progress,
                const std::stop_token& cancel) {
  check_options(options);
  if (text.empty()) base::fail_argument(kWhere, ' ', options.text_name, " is empty");
  const Sides sides = load_sides(options, text);
  const Tokens& tokens = sides.tokens;
  const int64_t n_windows =
      scoring::count_windows(static_cast<int64_t>(tokens.ids.size()), options.window_tokens);

  Measurement measurement(sides, options);
  int64_t done = 0;
  bool is_cancelled = false;
  while (done < n_windows && !is_cancelled) {
    try {
      if (cancel.stop_requested()) base::fail(ErrorKind::kCancelled, kWhere, " cancelled");
      measurement.add_window(scoring::window_at(tokens.ids, options.window_tokens, done, tokens.window_start),
                             cancel);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kCancelled || done == 0) throw;
      is_cancelled = true;
      continue;
    }
    ++done;
    on_progress({.windows_done = done, .windows = n_windows, .kl_mean = measurement.kl_mean()});
  }
  KlReport report = measurement.report();
  report.text_tokens = tokens.text_tokens;
  report.windows = done;
  report.is_cancelled = is_cancelled;
  return report;
}

}  // namespace

KlReport measure_kl(const KlOptions& options, std::string_view text, const KlCallback& on_progress,
                    std::stop_token cancel) {
  std::exception_ptr callback_failure;  // passes the boundary as it is
  const KlCallback guarded = [&](const KlProgress& progress) {
    try {
      if (on_progress) on_progress(progress);
    } catch (...) {
      callback_failure = std::current_exception();
      throw;
    }
  };
  try {
    return base::with_errors(kWhere, [&] { return run_kl(options, text, guarded, cancel); });
  } catch (...) {
    if (callback_failure) std::rethrow_exception(callback_failure);
    throw;
  }
}

}  // namespace tessera
