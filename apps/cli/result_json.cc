#include "apps/cli/result_json.h"

#include <array>

namespace tessera::cli {
namespace {

/// `token` is text, and U+FFFD where the token is a part of a character; `bytes` are what it stands for.
Json token_json(int32_t token, double logprob, const Tokenizer& tokenizer) {
  Json json = {{"token_id", token}, {"token", ""}, {"bytes", Json::array()}, {"logprob", logprob}};
  // An embedding padded to a round size has ids that no token spells.
  if (token >= tokenizer.vocab_size()) return json;
  json["token"] = tokenizer.decode(std::array{token});
  for (const char byte : tokenizer.token_bytes(token)) json["bytes"].push_back(static_cast<uint8_t>(byte));
  return json;
}

}  // namespace

Json to_json(const Usage& usage) {
  return {{"prompt_tokens", usage.prompt_tokens},
          {"completion_tokens", usage.completion_tokens},
          {"total_tokens", usage.prompt_tokens + usage.completion_tokens},
          {"prompt_tokens_details", {{"cached_tokens", usage.cached_tokens}}}};
}

Json to_json(const Timings& timings) {
  return {{"prompt_s", timings.prompt_s},
          {"generation_s", timings.generation_s},
          {"time_to_first_token_s", timings.time_to_first_token_s},
          {"prompt_tokens_per_s", timings.prompt_tokens_per_s},
          {"generation_tokens_per_s", timings.generation_tokens_per_s},
          {"peak_memory_bytes", timings.peak_memory_bytes}};
}

Json logprobs_json(const GenerationResult& result, const Tokenizer& tokenizer) {
  Json content = Json::array();
  for (const TokenEvent& event : result.events) {
    if (!event.logprob) continue;
    Json entry = token_json(event.token, *event.logprob, tokenizer);
    entry["top_logprobs"] = Json::array();
    for (const TokenLogprob& top : event.top_logprobs) {
      entry["top_logprobs"].push_back(token_json(top.token, top.logprob, tokenizer));
    }
    content.push_back(std::move(entry));
  }
  return {{"content", std::move(content)}};
}

}  // namespace tessera::cli
