// The loop from a prompt to its continuation.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <stop_token>
#include <vector>

#include "tessera/engine.h"
#include "tessera/execution/sequence.h"
#include "tessera/tokenizer.h"

namespace tessera::execution {

/// What a generation needs besides its sequence.
struct GenerationContext {
  const Tokenizer& tokenizer;
  int64_t vocab_size;
  int64_t context_length;
  std::span<const int32_t> end_tokens;  // end of sequence and end of turn
};

/// Throws InvalidArgument naming the option or the token id that cannot be.
void check_request(std::span<const int32_t> prompt, const GenerationOptions& options,
                   const GenerationContext& context);

/// Continues `prompt` on `sequence`; every token is handed to `send` as soon as it is known.
/// Cancellation is a result. REQUIRES: check_request() passed.
GenerationResult run_generation(Sequence& sequence, std::span<const int32_t> prompt,
                                const GenerationOptions& options, const GenerationContext& context,
                                std::stop_token cancel, const std::function<void(TokenEvent)>& send);

}  // namespace tessera::execution
