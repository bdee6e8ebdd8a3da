// measure_kl over tiny models: against whole logits of plain forwards, and what it refuses.
#include <mlx/mlx.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <vector>

#include "tessera/base/file.h"
#include "tessera/models/load.h"
#include "tessera/scorer.h"
#include "tessera/tokenizer.h"
#include "tests/arrays.h"
#include "tests/temporary_folder.h"

namespace tessera {
namespace {

namespace mx = mlx::core;

std::string text(std::size_t bytes = 2000) {
  return base::read_file(test::fixture("text.txt")).substr(0, bytes);
}

/// The second side is `b`, both in float32 unless told otherwise. More than one chunk of logits per window.
KlOptions options(const std::string& b = "llama-tiny-tied", const std::string& a = "llama-tiny-tied") {
  KlOptions result;
  result.a.model = test::fixture(a);
  result.b.model = test::fixture(b);
  result.a.precision = result.b.precision = Precision::kFloat32;
  result.window_tokens = 160;
  return result;
}

struct Refusal {
  ErrorKind kind = ErrorKind::kInternal;
  std::string message;
};

Refusal refusal(const KlOptions& kl, const std::string& content) {
  try {
    measure_kl(kl, content);
  } catch (const Error& error) {
    EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos);
    return {.kind = error.kind(), .message = error.what()};
  }
  ADD_FAILURE() << "no error";
  return {};
}

void expect_refused(const KlOptions& kl, const std::string& content, ErrorKind kind,
                    const std::string& part) {
  const Refusal result = refusal(kl, content);
  EXPECT_EQ(result.kind, kind);
  EXPECT_NE(result.message.find(part), std::string::npos) << result.message;
}

void expect_equal(const KlReport& a, const KlReport& b) {
  EXPECT_EQ(a.kl_mean, b.kl_mean);
  EXPECT_EQ(a.kl_max, b.kl_max);
  EXPECT_EQ(a.perplexity_a, b.perplexity_a);
  EXPECT_EQ(a.perplexity_b, b.perplexity_b);
  EXPECT_EQ(a.tokens, b.tokens);
}

/// Log-probabilities [L, V] in float64 of one window, from logits held whole.
std::vector<std::vector<double>> window_log_probs(const std::string& model_name,
                                                  const std::vector<int32_t>& window) {
  const auto model = models::load_model({.model = model_name, .precision = Precision::kFloat32});
  state::SequenceState state = model->new_state();
  const mx::array ids(window.data(), {1, static_cast<int>(window.size())}, mx::int32);
  const std::vector<float> logits =
      test::values(model->logits(model->forward_hidden(ids, state, {.phase = state::Phase::kWindow})));
  const auto width = static_cast<std::size_t>(model->config().vocab_size);
  std::vector<std::vector<double>> rows;
  for (std::size_t start = 0; start < logits.size(); start += width) {
    double sum = 0.0;
    for (std::size_t i = 0; i < width; ++i) sum += std::exp(static_cast<double>(logits[start + i]));
    std::vector<double>& row = rows.emplace_back();
    for (std::size_t i = 0; i < width; ++i) row.push_back(logits[start + i] - std::log(sum));
  }
  return rows;
}

TEST(MeasureKl, EqualsPlainForwardsOverTheSameWindows) {
  const KlOptions kl = options("llama-tiny-4bit");
  const std::string content = text();
  const KlReport report = measure_kl(kl, content);

  const Tokenizer tokenizer = Tokenizer::load(tokenizer_source(kl.a.model));
  const std::vector<int32_t> tokens = tokenizer.encode(content);
  const std::size_t n_windows = tokens.size() / 160;
  ASSERT_GE(n_windows, 2U);
  double sum = 0.0;
  double nll_a = 0.0;
  double nll_b = 0.0;
  int n = 0;
  for (std::size_t w = 0; w < n_windows; ++w) {
    const std::vector<int32_t> window(tokens.begin() + static_cast<std::ptrdiff_t>(w * 160),
                                      tokens.begin() + static_cast<std::ptrdiff_t>(w * 160 + 160));
    const auto p = window_log_probs(kl.a.model, window);
    const auto q = window_log_probs(kl.b.model, window);
    for (std::size_t position = 80; position < 159; ++position) {
      for (std::size_t i = 0; i < p[position].size(); ++i) {
        sum += std::exp(p[position][i]) * (p[position][i] - q[position][i]);
      }
      const auto target = static_cast<std::size_t>(window[position + 1]);
      nll_a -= p[position][target];
      nll_b -= q[position][target];
      ++n;
    }
  }
  EXPECT_EQ(report.windows, static_cast<int64_t>(n_windows));
  EXPECT_EQ(report.tokens, n);
  EXPECT_EQ(report.text_tokens, static_cast<int64_t>(tokens.size()));
  EXPECT_GT(report.kl_mean, 0.0);
  // The head over 64 rows and over 160 rounds float32 logits differently in their last bits.
  EXPECT_NEAR(report.kl_mean, sum / n, 1e-5 * sum / n);
  EXPECT_NEAR(report.perplexity_a, std::exp(nll_a / n), 1e-5 * report.perplexity_a);
  EXPECT_NEAR(report.perplexity_b, std::exp(nll_b / n), 1e-5 * report.perplexity_b);
  EXPECT_NEAR(report.ln_ratio, (nll_b - nll_a) / n, 1e-5);
  EXPECT_LE(report.kl_median, report.kl_q90);
  EXPECT_LE(report.kl_q90, report.kl_q95);
  EXPECT_LE(report.kl_q95, report.kl_q99);
  EXPECT_LE(report.kl_q99, report.kl_max);
}

TEST(MeasureKl, IdenticalSidesDifferByExactlyNothing) {
  const KlReport report = measure_kl(options(), text());
  EXPECT_GT(report.tokens, 100);
  EXPECT_EQ(report.kl_mean, 0.0);
  EXPECT_EQ(report.kl_max, 0.0);
  EXPECT_EQ(report.same_top, 1.0);
  EXPECT_EQ(report.ln_ratio, 0.0);
  EXPECT_EQ(report.perplexity_a, report.perplexity_b);
  EXPECT_FALSE(report.is_cancelled);
}

TEST(MeasureKl, BFloat16IsNearFloat32ButNotEqual) {
  KlOptions kl = options();
  kl.b.precision = Precision::kBFloat16;
  const KlReport report = measure_kl(kl, text());
  EXPECT_GT(report.kl_mean, 0.0);
  EXPECT_LT(report.kl_mean, 1e-2);  // 8 bits of mantissa; measured 1.8e-3
  EXPECT_GT(report.same_top, 0.9);
}

TEST(MeasureKl, ThreadsDoNotChangeABit) {
  KlOptions kl = options("llama-tiny-4bit");
  kl.a.threads = kl.b.threads = 1;
  const KlReport one = measure_kl(kl, text());
  kl.a.threads = 3;
  kl.b.threads = 2;
  expect_equal(measure_kl(kl, text()), one);
}

TEST(MeasureKl, MaxTokensLimitsTheWindows) {
  KlOptions kl = options("llama-tiny-4bit");
  kl.max_tokens = 479;
  const KlReport cut = measure_kl(kl, text());
  EXPECT_EQ(cut.windows, 2);
  EXPECT_GT(cut.text_tokens, 479);
  kl.max_tokens = 320;
  expect_equal(measure_kl(kl, text()), cut);
}

TEST(MeasureKl, SpecialTokensSpelledInTheTextAreText) {
  KlOptions kl = options();
  kl.window_tokens = 3;
  const std::string content = "<|im_start|><|im_end|>";
  const Tokenizer tokenizer = Tokenizer::load(tokenizer_source(kl.a.model));
  EXPECT_EQ(measure_kl(kl, content).text_tokens,
            static_cast<int64_t>(tokenizer.encode(content, {.parse_special_tokens = false}).size()));
}

TEST(MeasureKl, FormatsOfOneVocabularyMeet) {
  const KlReport report =
      measure_kl(options("gguf/llama-tiny-q8_0.gguf", "gguf/llama-tiny-f32.gguf"), text());
  EXPECT_GT(report.kl_mean, 0.0);
  measure_kl(options("gguf/llama-tiny-q8_0.gguf", "llama-tiny-tied"), text());
}

TEST(MeasureKl, ReportsProgressAndStopsWithWhatIsKnown) {
  const std::string content = text();
  const KlReport whole = measure_kl(options("llama-tiny-4bit"), content);
  std::vector<int64_t> done;
  std::stop_source stop;
  const KlReport report = measure_kl(
      options("llama-tiny-4bit"), content,
      [&](const KlProgress& progress) {
        EXPECT_EQ(progress.windows, whole.windows);
        EXPECT_GT(progress.kl_mean, 0.0);
        done.push_back(progress.windows_done);
        if (progress.windows_done == 2) stop.request_stop();
      },
      stop.get_token());
  EXPECT_EQ(done, (std::vector<int64_t>{1, 2}));
  EXPECT_TRUE(report.is_cancelled);
  EXPECT_EQ(report.windows, 2);
  EXPECT_EQ(report.tokens, 2 * 79);

  try {
    measure_kl(options(), content, {}, stop.get_token());
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kCancelled);
  }
}

TEST(MeasureKl, AnExceptionOfTheCallbackComesBack) {
  const KlCallback fail = [](const KlProgress&) { throw std::out_of_range("the caller's own"); };
  EXPECT_THROW(measure_kl(options(), text(), fail), std::out_of_range);
}

TEST(MeasureKl, RefusesTextsAndOptionsThatCannotBe) {
  constexpr auto kBad = ErrorKind::kInvalidArgument;
  KlOptions kl = options();
  kl.text_name = "story.txt";
  expect_refused(kl, "", kBad, "story.txt is empty");
  expect_refused(kl, "a few words", kBad, "story.txt has ");
  kl.window_tokens = 2;
  expect_refused(kl, text(), kBad, "windows of 2 tokens; expected at least 3");
  kl.window_tokens = 513;
  expect_refused(kl, text(), kBad, "expected at most 512, the context of ");
  kl = options();
  kl.max_tokens = 159;
  expect_refused(kl, text(), kBad, "at most 159 tokens");
  kl.max_tokens = -1;
  expect_refused(kl, text(), kBad, "at most -1 tokens");
  expect_refused(options("no-such-model"), text(), kBad, "no-such-model");
}

/// A copy of a model whose JSON file `name` went through `edit`.
template <typename Edit>
std::string edited_model(const test::TemporaryFolder& folder, const std::string& name, Edit edit) {
  const auto path = folder.path() / "model";
  std::filesystem::copy(test::fixture("llama-tiny-tied"), path);
  nlohmann::json json = nlohmann::json::parse(std::ifstream(path / name));
  edit(json);
  std::filesystem::remove(path / name);
  std::ofstream(path / name) << json;
  return path.string();
}

TEST(MeasureKl, RefusesTokensThatMeanOtherTexts) {
  const test::TemporaryFolder folder;
  KlOptions kl = options();
  int first = 0;
  kl.b.model = edited_model(folder, "tokenizer.json", [&](nlohmann::json& json) {
    nlohmann::json& vocabulary = json["model"]["vocab"];
    std::swap(vocabulary["a"], vocabulary["b"]);
    first = std::min(vocabulary["a"].get<int>(), vocabulary["b"].get<int>());
  });
  expect_refused(kl, text(), ErrorKind::kInvalidArgument,
                 "token " + std::to_string(first) + " of " + kl.a.model);
}

TEST(MeasureKl, RefusesVocabulariesOfAnotherSize) {
  const test::TemporaryFolder folder;
  KlOptions kl = options();
  kl.b.model = edited_model(folder, "config.json", [](nlohmann::json& json) { json["vocab_size"] = 385; });
  expect_refused(kl, text(), ErrorKind::kInvalidArgument, kl.b.model + " has 385");
}

}  // namespace
}  // namespace tessera
