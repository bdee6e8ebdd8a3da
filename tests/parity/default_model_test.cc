// The default model against HF transformers and mlx-lm in float32 on the same weights.
#include <chrono>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <thread>

#include "tessera/base/memory.h"
#include "tessera/engine.h"
#include "tessera/execution/sampler.h"
#include "tessera/execution/sequence.h"
#include "tessera/models/load.h"
#include "tests/arrays.h"

namespace tessera {
namespace {

using nlohmann::json;

json golden() {
  std::ifstream file(test::fixture("default-model/greedy.json"));
  return json::parse(file);
}

std::shared_ptr<const models::CausalModel> model() {
  static const auto loaded = models::load_model({.model = "default", .precision = Precision::kFloat32});
  return loaded;
}

/// Follows the golden's tokens and expects each of them to be the argmax, except where the golden's
/// own two best logits are closer than two float32 implementations agree.
void expect_greedy(const json& prompt, const char* reference) {
  constexpr double kNearTie = 2e-3;  // measured: HF and mlx-lm differ by up to 1e-3 on logits of about 20
  const auto expected = prompt.at(reference).at("greedy").get<std::vector<int32_t>>();
  const auto gaps = prompt.at("gaps").get<std::vector<double>>();
  execution::Sequence sequence(model());
  std::span<const float> logits = sequence.prefill(prompt.at("input_ids").get<std::vector<int32_t>>(), {});
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const int32_t best = execution::argmax(logits);
    if (best != expected[i]) {
      EXPECT_LT(gaps[i], kNearTie) << "step " << i << ": " << best << " at "
                                   << logits[static_cast<std::size_t>(best)] << ", expected " << expected[i]
                                   << " at " << logits[static_cast<std::size_t>(expected[i])];
    }
    logits = sequence.decode(expected[i]);
  }
}

TEST(DefaultModel, GreedyTokensEqualTheReferences) {
  const json goldens = golden();
  ASSERT_GE(goldens.at("prompts").size(), 5U);
  for (const json& prompt : goldens.at("prompts")) {
    SCOPED_TRACE(prompt.at("prompt").get<std::string>());
    expect_greedy(prompt, "hf");
    // Where the second reference says the same, it is the same test.
    if (prompt.at("mlx").at("greedy") != prompt.at("hf").at("greedy")) expect_greedy(prompt, "mlx");
  }
}

TEST(DefaultModel, TokenizesTheGoldenPrompts) {
  const Tokenizer tokenizer = Tokenizer::load(tokenizer_source("default"));
  for (const json& prompt : golden().at("prompts")) {
    EXPECT_EQ(tokenizer.encode(prompt.at("prompt").get<std::string>()),
              prompt.at("input_ids").get<std::vector<int32_t>>());
  }
}

TEST(DefaultModel, AnswersAQuestion) {
  Engine engine;
  GenerationRequest request;
  request.messages = {{"user", "What is the capital of France?", ""}};
  request.options.max_tokens = 32;
  std::string streamed;
  const GenerationResult result =
      engine.generate(request, [&](const TokenEvent& event) { streamed += event.text; });
  EXPECT_NE(result.text.find("Paris"), std::string::npos) << result.text;
  EXPECT_EQ(streamed, result.text);
  EXPECT_EQ(result.finish_reason, FinishReason::kStop);
  const json chat = golden().at("chat");
  EXPECT_EQ(engine.encode(request), chat.at("input_ids").get<std::vector<int32_t>>());
}

/// Sets the process's peak resident memory back to what it is now.
void reset_peak() { std::ofstream("/proc/self/clear_refs") << 5; }

uint64_t peak_resident_now() {
  std::ifstream file("/proc/self/status");
  std::string key;
  uint64_t kib = 0;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("VmHWM:")) kib = std::stoull(line.substr(6));
  }
  return kib * 1024;
}

TEST(DefaultModel, LoadingPeaksBelowItsBound) {
  const ModelInfo info = inspect_model("default");
  EXPECT_TRUE(info.is_tied);
  reset_peak();
  const uint64_t before = base::resident_bytes();
  const auto loaded = models::load_model({.model = "default"});
  const uint64_t peak = peak_resident_now();
  EXPECT_GT(peak, before + info.loaded_bytes / 2) << "the peak was not measured";
  EXPECT_LT(peak, before + info.loaded_bytes * 13 / 10);
  RecordProperty("peak_mib", static_cast<int>((peak - before) >> 20));
  std::cout << "loading took " << ((peak - before) >> 20) << " MiB at its peak for "
            << (info.loaded_bytes >> 20) << " MiB of weights\n";
}

TEST(DefaultModel, CancelsALongPromptWithinASecond) {
  Engine engine;
  GenerationRequest request;
  request.tokens.assign(6000, 42);  // seconds of work
  request.options.ignore_eos = true;
  std::stop_source stop;
  std::chrono::steady_clock::time_point asked;
  std::thread canceller([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(500));
    asked = std::chrono::steady_clock::now();
    stop.request_stop();
  });
  const GenerationResult result = engine.generate(request, {}, stop.get_token());
  const auto took = std::chrono::steady_clock::now() - asked;
  canceller.join();
  EXPECT_EQ(result.finish_reason, FinishReason::kCancelled);
  EXPECT_TRUE(result.tokens.empty()) << "the prompt was over before the cancellation";
  EXPECT_LT(took, std::chrono::seconds(1));
}

}  // namespace
}  // namespace tessera
