// The messages of a chat and the one rule about a full context: the oldest turns leave, the system
// message and the newest question stay.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "tessera/chat.h"

namespace tessera::cli {

/// A system message (or none) and turns, each a question with its answer.
class Conversation {
 public:
  explicit Conversation(std::optional<std::string> system = {}) : system_(std::move(system)) {}

  void set_system(std::optional<std::string> system) { system_ = std::move(system); }
  bool has_system() const { return system_.has_value(); }
  /// Forgets the turns, keeps the system message.
  void clear() { turns_.clear(); }
  /// Keeps a question and its answer.
  void add_turn(const std::string& question, const std::string& answer) {
    turns_.push_back({question, answer});
  }
  /// Drops the `count` oldest turns.
  void drop_oldest(size_t count);
  size_t turns() const { return turns_.size(); }

  /// What the model is given for `question`, without the `dropped` oldest turns.
  std::vector<ChatMessage> messages(const std::string& question, size_t dropped = 0) const;

 private:
  struct Turn {
    std::string question;
    std::string answer;
  };
  std::optional<std::string> system_;
  std::vector<Turn> turns_;
};

/// How many positions are kept free for an answer: max_tokens, but at most a quarter of the context,
/// so that a generous max_tokens does not push the whole conversation out.
int64_t answer_room(int64_t max_tokens, int64_t context_length);

/// How many of the oldest turns have to leave so that `question` and `room` positions of an answer fit
/// into the context. With all of them gone the question alone may use the room too; absent when not
/// even then one position is left. `count_tokens` counts the tokens of rendered messages.
std::optional<size_t> turns_to_drop(
    const Conversation& conversation, const std::string& question, int64_t context_length, int64_t room,
    const std::function<int64_t(const std::vector<ChatMessage>&)>& count_tokens);

}  // namespace tessera::cli
