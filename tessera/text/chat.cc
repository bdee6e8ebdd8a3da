// Chat templates over the Rust library.
#include "tessera/chat.h"

#include <utility>

#include "tessera/base/check.h"
#include "tessera/text/rust_call.h"
#include "tessera/text/tokenizer_impl.h"

namespace tessera {

using text::slice;

struct ChatTemplate::Impl {
  struct Free {
    void operator()(tessera_text_template* rust) const { tessera_text_template_free(rust); }
  };

  Tokenizer tokenizer;
  std::unique_ptr<tessera_text_template, Free> rust;
};

ChatTemplate::ChatTemplate(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}

ChatTemplate ChatTemplate::load(const TokenizerSource& source, const Tokenizer& tokenizer) {
  const std::string& origin = source.origin.empty() ? tokenizer.origin() : source.origin;
  tessera_text_template* rust = nullptr;
  text::OutputText error;
  const tessera_text_code code =
      tessera_text_template_new(slice(source.chat_template), tokenizer.impl_->rust.get(), &rust, error.get());
  if (code == TESSERA_TEXT_UNSUPPORTED) {
    base::fail_unsupported("[text.chat] ", origin.empty() ? "the model" : origin,
                           " has no chat template; use --raw to complete plain text");
  }
  text::check(code, error, base::concat("[text.chat] ", origin, origin.empty() ? "" : ": "));
  return ChatTemplate(std::make_shared<const Impl>(
      Impl{tokenizer, std::unique_ptr<tessera_text_template, Impl::Free>(rust)}));
}

RenderedChat ChatTemplate::render_marked(std::span<const ChatMessage> messages,
                                         const ChatRenderOptions& options) const {
  std::vector<tessera_text_message> list;
  list.reserve(messages.size());
  for (const ChatMessage& message : messages) {
    list.push_back({slice(message.role), slice(message.content), slice(message.fields_json)});
  }
  const tessera_text_render_options c{
      .add_generation_prompt = options.add_generation_prompt,
      .tools_json = slice(options.tools_json),
      .kwargs_json = slice(options.kwargs_json),
      .now_s = options.now_s.value_or(-1),
  };
  text::OutputText text;
  text::Output<tessera_text_ranges> ranges;
  text::OutputText error;
  const tessera_text_code code = tessera_text_template_render(impl_->rust.get(), list.data(), list.size(), &c,
                                                              text.get(), ranges.get(), error.get());
  text::check(code, error, "[text.chat] ");
  RenderedChat rendered{.text = std::string(text->data, text->size), .generation = {}};
  for (std::size_t i = 0; i + 1 < ranges->size; i += 2) {
    rendered.generation.emplace_back(ranges->data[i], ranges->data[i + 1]);
  }
  return rendered;
}

std::string ChatTemplate::render(std::span<const ChatMessage> messages,
                                 const ChatRenderOptions& options) const {
  return render_marked(messages, options).text;
}

std::vector<int32_t> ChatTemplate::encode(std::span<const ChatMessage> messages,
                                          const ChatRenderOptions& options) const {
  return impl_->tokenizer.encode(render(messages, options), {.add_special_tokens = false});
}

}  // namespace tessera
