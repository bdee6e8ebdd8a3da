// chat: a conversation in a terminal or over a pipe. Standard output carries the answers, one per
// turn; prompts, notices and errors go to standard error.
#include <fmt/format.h>

#include <optional>
#include <string>

#include "apps/cli/conversation.h"
#include "apps/cli/input.h"
#include "apps/cli/interrupt.h"
#include "apps/cli/output.h"
#include "apps/cli/statistics.h"
#include "apps/cli/terminal.h"
#include "apps/cli/verbs.h"
#include "tessera/engine.h"

namespace tessera::cli {
namespace {

constexpr const char* kChatHelp =
    "/reset         forget the conversation, keep the system message\n"
    "/system TEXT   set the system message (without TEXT: remove it)\n"
    "/help          this list\n"
    "/exit          end (so does Ctrl-D); Ctrl-C stops an answer and keeps the conversation\n"
    "//TEXT         send a line that begins with a slash\n";

/// One running conversation.
class Chat {
 public:
  Chat(const ChatArguments& arguments, Engine& engine)
      : arguments_(arguments),
        engine_(engine),
        session_(engine.new_session()),
        conversation_(arguments.system) {}

  /// Handles one line; false ends the chat.
  bool handle(const std::string& line) {
    if (line.empty()) return true;
    if (line.front() != '/') return answer(line), true;
    if (line.starts_with("//")) return answer(line.substr(1)), true;
    return command(line);
  }

  /// Whether a turn or command failed: a script that pipes its turns in wants to know.
  bool has_failed() const { return has_failed_; }

 private:
  bool command(const std::string& line) {
    const size_t space = line.find(' ');
    const std::string name = line.substr(0, space);
    const size_t text_start = space == std::string::npos ? space : line.find_first_not_of(' ', space);
    const std::string text = text_start == std::string::npos ? "" : line.substr(text_start);
    if (name == "/exit" || name == "/quit") return false;
    if (name == "/help") {
      write_message(kChatHelp);
    } else if (name == "/reset") {
      conversation_.clear();
      session_.reset();
      write_message("[the conversation is forgotten]\n");
    } else if (name == "/system") {
      conversation_.set_system(text.empty() ? std::nullopt : std::optional(text));
      write_message(text.empty() ? "[no system message]\n" : "[system message set]\n");
    } else {
      has_failed_ = true;
      write_message(fmt::format("[unknown command {}; /help lists the commands]\n", one_line(name)));
    }
    return true;
  }

  /// Answers one question. An error is reported and adds no turn.
  void answer(const std::string& question) {
    bool has_begun = false;
    try {
      make_room(question);
      GenerationRequest request;
      request.messages = conversation_.messages(question);
      request.options = arguments_.generation;
      Interrupt interrupt;
      const auto show = [&has_begun](const TokenEvent& event) {
        write_output(event.text);
        has_begun = true;
      };
      const GenerationResult result = session_.generate(request, show, interrupt.token());
      write_output("\n");
      const bool is_stopped = result.finish_reason == FinishReason::kCancelled;
      // An answer stopped before its first token never began: the question is forgotten with it.
      if (!is_stopped || !result.text.empty()) conversation_.add_turn(question, result.text);
      if (is_stopped) write_message("[stopped]\n");
      if (arguments_.is_verbose) write_message(statistics_text(result));
    } catch (const Error& error) {
      has_failed_ = true;
      if (has_begun) write_output("\n");
      write_message(fmt::format("tessera: {}\n", one_line(error.what())));
    }
  }

  /// Lets the oldest turns leave when the context is full. Throws InvalidArgument when the question
  /// alone is too long; then nothing has left.
  void make_room(const std::string& question) {
    const auto count_tokens = [this](const std::vector<ChatMessage>& messages) {
      GenerationRequest request;
      request.messages = messages;
      return static_cast<int64_t>(engine_.encode(request).size());
    };
    const int64_t context = engine_.context_length();
    const int64_t room = answer_room(arguments_.generation.max_tokens, context);
    const auto dropped = turns_to_drop(conversation_, question, context, room, count_tokens);
    if (!dropped) {
      if (conversation_.has_system() && count_tokens({{"user", question}}) < context) {
        throw Error(
            ErrorKind::kInvalidArgument,
            fmt::format("the system message leaves no room for the message in the context of {} tokens; "
                        "/system TEXT sets a shorter one",
                        context));
      }
      throw Error(ErrorKind::kInvalidArgument,
                  fmt::format("the message does not fit into the context of {} tokens", context));
    }
    if (*dropped == 0) return;
    conversation_.drop_oldest(*dropped);
    write_message(fmt::format("[the context of {} tokens is full: the oldest {} left the conversation]\n",
                              context, *dropped == 1 ? "turn" : fmt::format("{} turns", *dropped)));
  }

  const ChatArguments& arguments_;
  Engine& engine_;
  Session session_;
  Conversation conversation_;
  bool has_failed_ = false;
};

}  // namespace

void declare(FlagSet& flags, ChatArguments& arguments) {
  flags.text({"--system", "--system-prompt"}, arguments.system, "System message");
  flags.toggle({"--verbose"}, arguments.is_verbose, "Print statistics to stderr after every answer");
  declare_model_flags(flags, arguments.model);
  declare_generation_flags(flags, arguments.generation);
}

int run(const ChatArguments& arguments) {
  Engine engine = load_engine(arguments.model);
  if (engine.chat_template() == nullptr) {
    throw Error(ErrorKind::kUnsupported,
                "the model has no chat template to chat with; tessera generate --raw continues a text");
  }
  Chat chat(arguments, engine);
  const bool is_interactive = is_input_terminal();
  if (is_interactive) write_message("/help lists the commands; Ctrl-D ends the chat.\n");
  Input input;
  while (true) {
    if (is_interactive) write_message("> ");
    const std::optional<std::string> line = input.line();
    if (!line && is_interactive) write_message("\n");
    if (!line || !chat.handle(*line)) break;
  }
  return !is_interactive && chat.has_failed() ? 1 : 0;
}

}  // namespace tessera::cli
