// Results of the engine as JSON, in OpenAI's names where they have one.
#pragma once

#include "apps/cli/json.h"
#include "tessera/engine.h"

namespace tessera::cli {

/// {prompt_tokens, completion_tokens, total_tokens, prompt_tokens_details: {cached_tokens}}
Json to_json(const Usage& usage);
Json to_json(const Timings& timings);
/// {content: [{token_id, token, bytes, logprob, top_logprobs: [...]}]}
Json logprobs_json(const GenerationResult& result, const Tokenizer& tokenizer);

}  // namespace tessera::cli
