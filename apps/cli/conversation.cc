#include "apps/cli/conversation.h"

#include <algorithm>

namespace tessera::cli {

void Conversation::drop_oldest(size_t count) {
  turns_.erase(turns_.begin(), turns_.begin() + static_cast<std::ptrdiff_t>(std::min(count, turns_.size())));
}

std::vector<ChatMessage> Conversation::messages(const std::string& question, size_t dropped) const {
  std::vector<ChatMessage> messages;
  if (system_) messages.push_back({"system", *system_});
  for (size_t i = dropped; i < turns_.size(); ++i) {
    messages.push_back({"user", turns_[i].question});
    messages.push_back({"assistant", turns_[i].answer});
  }
  messages.push_back({"user", question});
  return messages;
}

int64_t answer_room(int64_t max_tokens, int64_t context_length) {
  return std::min(max_tokens, std::max<int64_t>(1, context_length / 4));
}

std::optional<size_t> turns_to_drop(
    const Conversation& conversation, const std::string& question, int64_t context_length, int64_t room,
    const std::function<int64_t(const std::vector<ChatMessage>&)>& count_tokens) {
  for (size_t dropped = 0; dropped <= conversation.turns(); ++dropped) {
    const bool is_alone = dropped == conversation.turns();
    const int64_t needed = count_tokens(conversation.messages(question, dropped)) + (is_alone ? 1 : room);
    if (needed <= context_length) return dropped;
  }
  return std::nullopt;
}

}  // namespace tessera::cli
