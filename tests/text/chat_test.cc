#include "tessera/chat.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tessera/error.h"
#include "tests/text/vocabularies.h"

namespace tessera {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using text_testing::json_source;

constexpr const char* kTemplate =
    "{{ bos_token }}{% for m in messages %}{{ m.role }}:{{ m.content }};{% endfor %}"
    "{% if add_generation_prompt %}assistant:{% endif %}";

ChatTemplate load(const std::string& text) {
  TokenizerSource source = json_source();
  source.chat_template = text;
  return ChatTemplate::load(source, Tokenizer::load(source));
}

std::string render(const std::string& text, const ChatRenderOptions& options = {}) {
  return load(text).render({}, options);
}

const std::vector<ChatMessage> kConversation = {{"system", "Be brief.", ""}, {"user", "Hi", ""}};

TEST(Chat, RendersAConversation) {
  const ChatTemplate chat = load(kTemplate);
  EXPECT_EQ(chat.render(kConversation), "<s>system:Be brief.;user:Hi;assistant:");
  EXPECT_EQ(chat.render(kConversation, {.add_generation_prompt = false}), "<s>system:Be brief.;user:Hi;");
  EXPECT_EQ(chat.render({}), "<s>assistant:");
}

TEST(Chat, PromptsHaveOneBos) {
  const ChatTemplate chat = load("{{ bos_token }}{{ messages[0].content }}");
  const std::vector<ChatMessage> messages = {{"user", "hello", ""}};
  EXPECT_THAT(chat.encode(messages), ElementsAre(8, 7, 3));
  EXPECT_THAT(load("{{ messages[0].content }}").encode(messages), ElementsAre(7, 3));
}

TEST(Chat, OnlyTheTemplateOfTheSourceCounts) {
  TokenizerSource source = json_source();
  source.tokenizer_config = R"({"bos_token": "<s>", "chat_template": "config"})";
  const Tokenizer tokenizer = Tokenizer::load(source);
  EXPECT_THROW(ChatTemplate::load(source, tokenizer), Error);
  source.chat_template = "file";
  EXPECT_EQ(ChatTemplate::load(source, tokenizer).render({}), "file");
}

TEST(Chat, WithoutATemplateTheErrorSaysWhatToDo) {
  const TokenizerSource source = text_testing::byte_level_source();
  try {
    ChatTemplate::load(source, Tokenizer::load(source));
    FAIL() << "loaded";
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::kUnsupported);
    EXPECT_STREQ(e.what(), "[text.chat] tiny.gguf has no chat template; use --raw to complete plain text");
  }
}

TEST(Chat, FieldsToolsAndVariables) {
  const std::vector<ChatMessage> messages = {
      {"assistant", "ignored",
       R"({"content": null, "tool_calls": [{"name": "f", "arguments": {"x": 1.0}}]})"}};
  const ChatTemplate chat = load(
      "{{ messages[0].content is none }} {{ messages[0].tool_calls|tojson }} {{ tools|tojson }} "
      "{{ enable_thinking }} {{ strftime_now('%Y') }}");
  EXPECT_EQ(chat.render(messages, {.tools_json = R"([{"b": "é<", "a": []}])",
                                   .kwargs_json = R"({"enable_thinking": false})",
                                   .now_s = 1'700'000'000}),
            R"(True [{"name": "f", "arguments": {"x": 1.0}}] [{"b": "é<", "a": []}] False 2023)");
}

TEST(Chat, TheAssistantsWordsAreMarked) {
  const ChatTemplate chat = load(
      "{% for m in messages %}{% if m.role == 'assistant' %}{% generation %}{{ m.content }}.{% endgeneration "
      "%}"
      "{% else %}{{ m.content }}?{% endif %}{% endfor %}");
  const std::vector<ChatMessage> messages = {
      {"user", "ü", ""}, {"assistant", "yes", ""}, {"user", "b", ""}, {"assistant", "no", ""}};
  const RenderedChat rendered = chat.render_marked(messages);
  EXPECT_EQ(rendered.text, "ü?yes.b?no.");
  std::vector<std::string> marked;
  for (const auto& [begin, end] : rendered.generation)
    marked.push_back(rendered.text.substr(begin, end - begin));
  EXPECT_THAT(marked, ElementsAre("yes.", "no."));
}

TEST(Chat, TextThatIsNotUtf8IsReplaced) {
  const std::vector<ChatMessage> messages = {{"user", "a\xff", ""}};
  EXPECT_EQ(load("{{ messages[0].content }}").render(messages), "a\uFFFD");
}

TEST(Chat, ARefusalIsInTheTemplatesOwnWords) {
  try {
    render("{{ raise_exception('Conversation roles must alternate') }}");
    FAIL() << "rendered";
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::kInvalidArgument);
    EXPECT_STREQ(e.what(), "[text.chat] Conversation roles must alternate");
  }
}

TEST(Chat, ARefusalIsOnePrintableLine) {
  try {
    render(R"({{ raise_exception('a\x1b[2Jb\nc' ~ 'x' * 5000) }})");
    FAIL() << "rendered";
  } catch (const Error& e) {
    EXPECT_THAT(std::string(e.what()), testing::StartsWith(R"([text.chat] a\x1b[2Jb cxx)"));
    EXPECT_LT(std::string(e.what()).size(), 1100U);
  }
}

TEST(Chat, BadTemplatesAndArgumentsAreRefused) {
  struct Case {
    std::string text;
    ChatRenderOptions options;
    ErrorKind kind;
  };
  const ErrorKind argument = ErrorKind::kInvalidArgument;
  const std::vector<Case> cases = {
      {"{% if %}", {}, ErrorKind::kInvalidArtifact},
      {"{% for x in y %}", {}, ErrorKind::kInvalidArtifact},
      {"{{ 'open", {}, ErrorKind::kInvalidArtifact},
      {std::string("\xff{%"), {}, ErrorKind::kInvalidArtifact},
      {"{{ nothing.at.all }}", {}, argument},
      {"{{ no_such_function() }}", {}, argument},
      {"{% include 'other' %}", {}, ErrorKind::kInvalidArtifact},
      {"x", {.tools_json = "{}"}, argument},
      {"x", {.tools_json = "[1"}, argument},
      {"x", {.tools_json = "\xff"}, argument},
      {"x", {.kwargs_json = "3"}, argument},
      {"x", {.kwargs_json = R"({"messages": 1})"}, argument},
      {"{% for i in range(99999) %}{% for j in range(99999) %}{{ i }}{% endfor %}{% endfor %}",
       {},
       ErrorKind::kResourceExhausted},
      {"{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", {}, argument},
  };
  for (const Case& c : cases) {
    try {
      render(c.text, c.options);
      ADD_FAILURE() << "rendered " << c.text;
    } catch (const Error& e) {
      EXPECT_EQ(e.kind(), c.kind) << c.text << ": " << e.what();
      EXPECT_THAT(std::string(e.what()), HasSubstr("[text.chat] "));
      EXPECT_THAT(std::string(e.what()), testing::Not(HasSubstr("\n")));
    }
  }
}

}  // namespace
}  // namespace tessera
