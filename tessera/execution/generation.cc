#include "tessera/execution/generation.h"

#include <algorithm>
#include <chrono>
#include <random>
#include <utility>

#include "tessera/base/check.h"
#include "tessera/base/memory.h"
#include "tessera/execution/sampler.h"
#include "tessera/execution/stop_matcher.h"

namespace tessera::execution {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

double rate(int64_t tokens, double seconds) {
  return seconds > 0 ? static_cast<double>(tokens) / seconds : 0.0;
}

uint64_t fresh_seed() {
  std::random_device device;
  return (static_cast<uint64_t>(device()) << 32) | device();
}

/// Token ids to text that may go out, and the result they add up to.
class Answer {
 public:
  Answer(const GenerationContext& context, const GenerationOptions& options,
         const std::function<void(TokenEvent)>& send)
      : options_(options),
        tokenizer_(context.tokenizer),
        detokenizer_(context.tokenizer, {.skip_special_tokens = true}),
        stops_(options.stop),
        send_(send) {}

  /// Adds a token; true when a stop sequence has ended the answer.
  bool add(const Sample& sample, GenerationResult& result) {
    result.tokens.push_back(sample.token);
    // An embedding padded to a round size has ids that no token spells.
    const bool has_text = sample.token < tokenizer_.vocab_size();
    TokenEvent event{.token = sample.token};
    if (has_text) event.text = stops_.append(detokenizer_.append(sample.token));
    if (options_.sampling.logprobs) event.logprob = sample.logprob;
    event.top_logprobs = sample.top;
    emit(std::move(event), result);
    return !stops_.matched().empty();
  }

  /// Lets out what was held back, unless a stop sequence was found.
  void finish(GenerationResult& result) {
    std::string text = stops_.append(detokenizer_.finish());
    text += stops_.finish();
    result.stop_sequence = stops_.matched();
    if (!text.empty()) emit({.token = kNoToken, .text = std::move(text)}, result);
  }

 private:
  void emit(TokenEvent event, GenerationResult& result) {
    result.text += event.text;
    const bool wants_logprobs = options_.sampling.logprobs || options_.sampling.top_logprobs > 0;
    if (wants_logprobs && event.token != kNoToken) result.events.push_back(event);
    send_(std::move(event));
  }

  const GenerationOptions& options_;
  const Tokenizer& tokenizer_;
  Detokenizer detokenizer_;
  StopMatcher stops_;
  const std::function<void(TokenEvent)>& send_;
};

bool contains(std::span<const int32_t> tokens, int32_t token) {
  return std::find(tokens.begin(), tokens.end(), token) != tokens.end();
}

/// XTC must not suppress the ways an answer can end or break a line.
std::vector<int32_t> protected_tokens(const GenerationContext& context) {
  std::vector<int32_t> tokens(context.end_tokens.begin(), context.end_tokens.end());
  for (const int32_t token : context.tokenizer.encode("\n", {.add_special_tokens = false}))
    tokens.push_back(token);
  std::erase_if(tokens, [&](int32_t token) { return token >= context.vocab_size; });
  return tokens;
}

}  // namespace

void check_request(std::span<const int32_t> prompt, const GenerationOptions& options,
                   const GenerationContext& context) {
  if (prompt.empty()) base::fail_argument("[execution.generate] the prompt is empty");
  for (const int32_t token : prompt) {
    if (token < 0 || token >= context.vocab_size) {
      base::fail_argument("[execution.generate] token id ", token, " is outside the vocabulary of ",
                          context.vocab_size);
    }
  }
  if (static_cast<int64_t>(prompt.size()) > context.context_length) {
    base::fail_argument("[execution.generate] the prompt has ", prompt.size(),
                        " tokens, but the context holds ", context.context_length);
  }
  if (options.max_tokens < 1) {
    base::fail_argument("[execution.generate] max_tokens is ", options.max_tokens, "; expected at least 1");
  }
}

GenerationResult run_generation(Sequence& sequence, std::span<const int32_t> prompt,
                                const GenerationOptions& options, const GenerationContext& context,
                                std::stop_token cancel, const std::function<void(TokenEvent)>& send) {
  GenerationResult result;
  result.seed = options.sampling.seed.value_or(fresh_seed());
  const Sampler sampler(options.sampling, result.seed, context.vocab_size, protected_tokens(context));
  Answer answer(context, options, send);
  result.usage.prompt_tokens = static_cast<int64_t>(prompt.size());
  result.finish_reason = FinishReason::kCancelled;

  const Clock::time_point start = Clock::now();
  std::span<float> logits;
  try {
    logits = sequence.prefill(prompt, cancel);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kCancelled) throw;
    return result;
  }
  result.usage.cached_tokens = sequence.cached_tokens();
  result.timings.prompt_s = seconds_since(start);

  const Clock::time_point generation_start = Clock::now();
  std::vector<int32_t> history(prompt.begin(), prompt.end());
  int64_t decoded = 0;
  while (!cancel.stop_requested()) {
    const Sample sample = sampler.sample(logits, history, result.tokens.size());
    if (result.tokens.empty()) result.timings.time_to_first_token_s = seconds_since(start);
    if (!options.ignore_eos && contains(context.end_tokens, sample.token)) {
      result.finish_reason = FinishReason::kStop;
      break;
    }
    if (answer.add(sample, result)) {
      result.finish_reason = FinishReason::kStop;
      break;
    }
    const bool is_context_full = static_cast<int64_t>(sequence.tokens().size()) >= context.context_length;
    if (static_cast<int64_t>(result.tokens.size()) >= options.max_tokens || is_context_full) {
      result.finish_reason = FinishReason::kLength;
      break;
    }
    history.push_back(sample.token);
    logits = sequence.decode(sample.token);
    ++decoded;
  }
  answer.finish(result);
  result.usage.completion_tokens = static_cast<int64_t>(result.tokens.size());
  result.timings.generation_s = seconds_since(generation_start);
  result.timings.prompt_tokens_per_s =
      rate(result.usage.prompt_tokens - result.usage.cached_tokens, result.timings.prompt_s);
  result.timings.generation_tokens_per_s = rate(decoded, result.timings.generation_s);
  result.timings.peak_memory_bytes = base::peak_resident_bytes();
  return result;
}

}  // namespace tessera::execution
