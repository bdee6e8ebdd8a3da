// The engine: a loaded model that turns prompts into text.
//
//   tessera::Engine engine({.model = "default"});
//   tessera::GenerationRequest request;
//   request.messages = {{"user", "What is the capital of France?"}};
//   const auto answer = engine.generate(request, [](const tessera::TokenEvent& event) {
//     std::cout << event.text << std::flush;
//   });
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "tessera/chat.h"
#include "tessera/error.h"
#include "tessera/model.h"
#include "tessera/options.h"
#include "tessera/tokenizer.h"

namespace tessera {

/// What to continue. Exactly one of `messages`, `prompt` and `tokens` is set.
struct GenerationRequest {
  std::vector<ChatMessage> messages;  // rendered with the model's chat template
  std::optional<std::string> prompt;  // raw text; gets the BOS its tokenizer defines
  std::vector<int32_t> tokens;        // token ids, used as they are
  GenerationOptions options;
};

struct TokenLogprob {
  int32_t token = 0;
  double logprob = 0.0;  // natural log; after penalties, before temperature
};

/// The token of an event that carries text only.
inline constexpr int32_t kNoToken = -1;

/// One generated token. `text` may be empty: bytes of an unfinished character and text that may
/// turn out to be a stop sequence are held back until they are decided. What is still held back at
/// the end comes in an event of its own, whose token is kNoToken.
struct TokenEvent {
  int32_t token = kNoToken;
  std::string text;                        // valid UTF-8; special tokens are not shown
  std::optional<double> logprob;           // when asked for
  std::vector<TokenLogprob> top_logprobs;  // most likely first
};

enum class FinishReason {
  kStop,       // an end-of-sequence token or a stop sequence
  kLength,     // max_tokens, or the context is full
  kCancelled,  // the stop token was triggered
};
const char* finish_reason_name(FinishReason reason);  // "stop", "length", "cancelled"

struct Usage {
  int64_t prompt_tokens = 0;
  int64_t completion_tokens = 0;
  int64_t cached_tokens = 0;  // prompt tokens whose keys and values were already there
};

struct Timings {
  double prompt_s = 0.0;      // from the start to the first token's logits
  double generation_s = 0.0;  // from there to the end
  double time_to_first_token_s = 0.0;
  double prompt_tokens_per_s = 0.0;      // uncached prompt tokens / prompt_s
  double generation_tokens_per_s = 0.0;  // forwards of one token / generation_s
  uint64_t peak_memory_bytes = 0;        // peak resident memory of the process
};

struct GenerationResult {
  std::string text;                // the joined texts of all events
  std::vector<int32_t> tokens;     // generated ids, an end-of-sequence token excluded
  std::vector<TokenEvent> events;  // filled when logprobs were asked for
  FinishReason finish_reason = FinishReason::kStop;
  std::string stop_sequence;  // the stop sequence that ended it, or ""
  uint64_t seed = 0;          // what was used
  Usage usage;
  Timings timings;
};

using TokenCallback = std::function<void(const TokenEvent&)>;

class Session;

/// A loaded model with its tokenizer. Movable, not copyable. Thread-safe: one thread owned by the
/// engine does all computing, requests of several threads run one after the other.
class Engine {
 public:
  /// Loads the model; `default` is downloaded on first use. Throws InvalidArgument,
  /// InvalidArtifact, Unsupported, or ResourceExhausted when it cannot fit into memory.
  explicit Engine(const ModelOptions& options = {});
  ~Engine();
  Engine(Engine&&) noexcept;
  Engine& operator=(Engine&&) noexcept;

  const ModelInfo& info() const;
  const Tokenizer& tokenizer() const;
  /// Absent when the model ships no chat template.
  const ChatTemplate* chat_template() const;
  /// Positions one sequence may hold.
  int64_t context_length() const;

  /// The token ids a request starts from. Throws InvalidArgument for an empty prompt or contradictory
  /// fields, Unsupported for messages without a chat template.
  std::vector<int32_t> encode(const GenerationRequest& request) const;

  /// Generates until a stop; `on_token` is called on the calling thread. Cancellation through `cancel`
  /// takes effect between two layers of a prompt and between two tokens of an answer (within a second
  /// for the default model), once the request runs; it is a result, not an error.
  /// Throws InvalidArgument for bad options or a prompt longer than the context; an exception of
  /// `on_token` stops the generation and is rethrown.
  GenerationResult generate(const GenerationRequest& request, const TokenCallback& on_token = {},
                            std::stop_token cancel = {});

  /// A conversation that keeps its keys and values between calls.
  Session new_session();

 private:
  friend class Session;
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

/// A sequence that remembers: each generate() reuses the keys and values of the longest common
/// prefix with what the session holds. Keeps its engine's model alive. Not thread-safe.
class Session {
 public:
  ~Session();
  Session(Session&&) noexcept;
  Session& operator=(Session&&) noexcept;

  /// As Engine::generate. After an error or an interrupted prompt the session is still usable.
  GenerationResult generate(const GenerationRequest& request, const TokenCallback& on_token = {},
                            std::stop_token cancel = {});
  /// Forgets everything.
  void reset();

 private:
  friend class Engine;
  struct Impl;
  explicit Session(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace tessera
