// Conversations to prompts, by the chat template that comes with a model.
//
//   ChatTemplate chat = ChatTemplate::load(source, tokenizer);
//   std::vector<int32_t> prompt = chat.encode({{{"user", "Hello"}}});
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tessera/tokenizer.h"

namespace tessera {

struct ChatMessage {
  std::string role;  // "system", "user", "assistant", "tool"
  std::string content;
  std::string fields_json{};  // JSON object with further fields (tool_calls, name, ...), or ""; its
                              // "role" and "content" override the ones above
};

struct ChatRenderOptions {
  bool add_generation_prompt = true;  // end with the opening of the assistant's answer
  std::string tools_json;             // JSON array of tools, or ""
  std::string kwargs_json;            // JSON object of further template variables, or ""
  std::optional<int64_t> now_s;       // time for strftime_now, seconds since 1970; absent: now
};

/// A rendered conversation.
struct RenderedChat {
  std::string text;
  /// Byte ranges [begin, end) of `text` that the template marks as the assistant's own words
  /// ({% generation %}), ascending. Empty for the many templates that mark nothing.
  std::vector<std::pair<std::size_t, std::size_t>> generation;
};

/// A compiled chat template. A handle: copies share one immutable object, which may be used from
/// any number of threads at the same time. Renders as Python's `transformers` does
/// (apply_chat_template: Jinja with trim_blocks, lstrip_blocks and its filters and functions).
class ChatTemplate {
 public:
  /// Compiles `source.chat_template`, the one place where a template is looked for.
  /// Throws Unsupported when it is empty, InvalidArtifact on a syntax error, naming the line.
  static ChatTemplate load(const TokenizerSource& source, const Tokenizer& tokenizer);

  /// Renders a conversation to text.
  /// Throws InvalidArgument when the template refuses the messages, with its own words, when it
  /// cannot handle them, and when JSON is not of the form above; ResourceExhausted when rendering
  /// takes more than about four million steps or yields more than 64 MiB.
  std::string render(std::span<const ChatMessage> messages, const ChatRenderOptions& options = {}) const;

  /// render() with the ranges of the assistant's words.
  RenderedChat render_marked(std::span<const ChatMessage> messages,
                             const ChatRenderOptions& options = {}) const;

  /// The ids of render(). The template writes BOS itself where the format has one, so none is added
  /// here: a prompt with two would be outside of what the model has seen.
  std::vector<int32_t> encode(std::span<const ChatMessage> messages,
                              const ChatRenderOptions& options = {}) const;

 private:
  struct Impl;
  explicit ChatTemplate(std::shared_ptr<const Impl> impl);
  std::shared_ptr<const Impl> impl_;
};

}  // namespace tessera
