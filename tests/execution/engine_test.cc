// The engine over a tiny model: streams, stops, sessions, cancellation, errors.
#include "tessera/engine.h"

#include <chrono>
#include <thread>

#include "tests/arrays.h"

namespace tessera {
namespace {

ModelOptions tiny() { return {.model = test::fixture("llama-tiny-tied")}; }

GenerationRequest raw(const std::string& prompt, int64_t max_tokens = 24) {
  GenerationRequest request;
  request.prompt = prompt;
  request.options.max_tokens = max_tokens;
  request.options.ignore_eos = true;
  return request;
}

ErrorKind kind_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos);
    return error.kind();
  }
  ADD_FAILURE() << "no error";
  return ErrorKind::kInternal;
}

TEST(Engine, StreamsTheTextItReturns) {
  Engine engine(tiny());
  std::string streamed;
  int tokens = 0;
  const auto result = engine.generate(raw("the cat sat"), [&](const TokenEvent& event) {
    streamed += event.text;
    tokens += event.token == kNoToken ? 0 : 1;
  });
  EXPECT_EQ(streamed, result.text);
  EXPECT_EQ(tokens, 24);
  EXPECT_EQ(result.finish_reason, FinishReason::kLength);
  EXPECT_EQ(result.usage.completion_tokens, 24);
  EXPECT_EQ(result.usage.prompt_tokens, static_cast<int64_t>(engine.encode(raw("the cat sat")).size()));
  EXPECT_EQ(result.text, engine.tokenizer().decode(result.tokens, {.skip_special_tokens = true}));
  EXPECT_EQ(engine.generate(raw("the cat sat")).tokens, result.tokens) << "greedy is repeatable";
}

TEST(Engine, StopsAtASequenceAndNeverShowsIt) {
  Engine engine(tiny());
  const auto whole = engine.generate(raw("the cat sat"));
  ASSERT_GT(whole.text.size(), 8U);
  GenerationRequest request = raw("the cat sat");
  const std::string stop = whole.text.substr(5, 3);
  request.options.stop = {stop};
  std::string streamed;
  const auto result = engine.generate(request, [&](const TokenEvent& event) { streamed += event.text; });
  EXPECT_EQ(result.text, whole.text.substr(0, whole.text.find(stop)));
  EXPECT_EQ(streamed, result.text);
  EXPECT_EQ(result.finish_reason, FinishReason::kStop);
  EXPECT_EQ(result.stop_sequence, stop);
}

TEST(Engine, EndsAtAnEndTokenUnlessToldNotTo) {
  Engine engine(tiny());
  ASSERT_FALSE(engine.info().eos_token_ids.empty());
  GenerationRequest request = raw("the cat sat");
  request.options.ignore_eos = false;
  request.options.sampling.logit_bias = {{engine.info().eos_token_ids.front(), 1000.0}};
  const auto result = engine.generate(request);
  EXPECT_EQ(result.finish_reason, FinishReason::kStop);
  EXPECT_TRUE(result.tokens.empty());
  EXPECT_EQ(result.text, "");
  request.options.ignore_eos = true;
  EXPECT_EQ(engine.generate(request).usage.completion_tokens, 24);
}

TEST(Engine, SeedsRepeatAndDiffer) {
  Engine engine(tiny());
  GenerationRequest request = raw("the cat sat");
  request.options.sampling.temperature = 1.5;
  request.options.sampling.seed = 1;
  const auto first = engine.generate(request);
  EXPECT_EQ(engine.generate(request).tokens, first.tokens);
  request.options.sampling.seed = 2;
  EXPECT_NE(engine.generate(request).tokens, first.tokens);
  request.options.sampling.seed.reset();
  const auto unseeded = engine.generate(request);
  request.options.sampling.seed = unseeded.seed;
  EXPECT_EQ(engine.generate(request).tokens, unseeded.tokens) << "the reported seed repeats the run";
}

TEST(Engine, ReportsLogprobs) {
  Engine engine(tiny());
  GenerationRequest request = raw("the cat sat", 4);
  request.options.sampling.logprobs = true;
  request.options.sampling.top_logprobs = 3;
  const auto result = engine.generate(request);
  ASSERT_EQ(result.events.size(), 4U);
  for (const TokenEvent& event : result.events) {
    ASSERT_TRUE(event.logprob);
    EXPECT_LE(*event.logprob, 0.0);
    ASSERT_EQ(event.top_logprobs.size(), 3U);
    EXPECT_EQ(event.top_logprobs[0].token, event.token) << "greedy takes the most likely token";
  }
}

TEST(Engine, ASessionReusesItsPrefixAndAnswersAsAFreshOne) {
  Engine engine(tiny());
  Session session = engine.new_session();
  const auto first = session.generate(raw("the cat sat on the mat", 8));
  EXPECT_EQ(first.usage.cached_tokens, 0);
  GenerationRequest longer;
  longer.tokens = engine.encode(raw("the cat sat on the mat"));
  longer.tokens.insert(longer.tokens.end(), first.tokens.begin(), first.tokens.end());
  longer.options = raw("").options;
  const auto warm = session.generate(longer);
  EXPECT_EQ(warm.usage.cached_tokens, static_cast<int64_t>(longer.tokens.size()) - 1);
  EXPECT_EQ(warm.tokens, engine.generate(longer).tokens);
  const auto other = session.generate(raw("a dog"));
  EXPECT_EQ(other.tokens, engine.generate(raw("a dog")).tokens);
  EXPECT_EQ(session.generate(raw("a dog")).tokens, other.tokens) << "the whole prompt was there already";
  session.reset();
  EXPECT_EQ(session.generate(raw("a dog")).usage.cached_tokens, 0);
}

TEST(Engine, ASessionOutlivesItsEngine) {
  auto engine = std::make_unique<Engine>(tiny());
  Session session = engine->new_session();
  const auto expected = engine->generate(raw("the cat")).tokens;
  engine.reset();
  EXPECT_EQ(session.generate(raw("the cat")).tokens, expected);
}

TEST(Engine, CancelsInThePromptAndInTheAnswer) {
  Engine engine(tiny());
  std::stop_source stopped;
  stopped.request_stop();
  const auto early = engine.generate(raw("the cat sat"), {}, stopped.get_token());
  EXPECT_EQ(early.finish_reason, FinishReason::kCancelled);
  EXPECT_TRUE(early.tokens.empty());
  std::stop_source stop;
  Session session = engine.new_session();
  int seen = 0;
  const auto late = session.generate(
      raw("the cat sat", 100),
      [&](const TokenEvent&) {
        if (++seen == 3) stop.request_stop();
      },
      stop.get_token());
  EXPECT_EQ(late.finish_reason, FinishReason::kCancelled);
  EXPECT_LT(late.tokens.size(), 100U);
  EXPECT_EQ(session.generate(raw("the cat sat")).tokens, engine.generate(raw("the cat sat")).tokens)
      << "a cancelled session goes on";
}

TEST(Engine, AThrowingCallbackStopsTheGenerationAndIsRethrown) {
  Engine engine(tiny());
  EXPECT_THROW(
      engine.generate(raw("the cat sat"), [](const TokenEvent&) { throw std::runtime_error("reader"); }),
      std::runtime_error);
  EXPECT_EQ(engine.generate(raw("the cat sat")).usage.completion_tokens, 24) << "the engine goes on";
}

TEST(Engine, ServesSeveralThreads) {
  Engine engine(tiny());
  const auto expected = engine.generate(raw("the cat")).tokens;
  std::vector<std::thread> threads;
  std::vector<std::vector<int32_t>> results(4);
  for (auto& result : results) threads.emplace_back([&] { result = engine.generate(raw("the cat")).tokens; });
  for (auto& thread : threads) thread.join();
  for (const auto& result : results) EXPECT_EQ(result, expected);
}

TEST(Engine, AFullContextEndsTheAnswer) {
  ModelOptions options = tiny();
  options.context_length = 10;
  Engine engine(options);
  EXPECT_EQ(engine.context_length(), 10);
  GenerationRequest request;
  request.tokens = {1, 5, 9, 13, 17, 21};
  request.options = raw("").options;
  const auto result = engine.generate(request);
  EXPECT_EQ(result.finish_reason, FinishReason::kLength);
  EXPECT_EQ(result.tokens.size(), 5U)
      << "four fit behind the prompt, the fifth is read off the last position";
  request.tokens.assign(11, 5);
  EXPECT_EQ(kind_of([&] { engine.generate(request); }), ErrorKind::kInvalidArgument);
}

TEST(Engine, RefusesBadRequests) {
  Engine engine(tiny());
  EXPECT_EQ(kind_of([&] { engine.generate({}); }), ErrorKind::kInvalidArgument);
  EXPECT_EQ(kind_of([&] { engine.generate(raw("")); }), ErrorKind::kInvalidArgument);
  GenerationRequest both = raw("a");
  both.tokens = {1};
  EXPECT_EQ(kind_of([&] { engine.generate(both); }), ErrorKind::kInvalidArgument);
  EXPECT_EQ(kind_of([&] { engine.generate(raw("a", 0)); }), ErrorKind::kInvalidArgument);
  GenerationRequest outside;
  outside.tokens = {1, 100000};
  EXPECT_EQ(kind_of([&] { engine.generate(outside); }), ErrorKind::kInvalidArgument);
  GenerationRequest stop = raw("a");
  stop.options.stop = {""};
  EXPECT_EQ(kind_of([&] { engine.generate(stop); }), ErrorKind::kInvalidArgument);
  GenerationRequest hot = raw("a");
  hot.options.sampling.temperature = -1;
  EXPECT_EQ(kind_of([&] { engine.generate(hot); }), ErrorKind::kInvalidArgument);
}

TEST(Engine, RefusesModelsThatAreNotThere) {
  EXPECT_EQ(kind_of([] { Engine engine({.model = "no/such-model"}); }), ErrorKind::kInvalidArgument);
  ModelOptions long_context = tiny();
  long_context.context_length = 1 << 30;
  EXPECT_EQ(kind_of([&] { Engine engine(long_context); }), ErrorKind::kInvalidArgument);
}

}  // namespace
}  // namespace tessera
