// Stop sequences over streamed text.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace tessera::execution {

/// Passes text on until a stop sequence appears in it, across pieces. Text that may be the beginning
/// of a stop sequence is held back until it is decided, so nothing of a stop sequence ever gets out.
class StopMatcher {
 public:
  /// Throws InvalidArgument for an empty stop sequence.
  explicit StopMatcher(std::vector<std::string> stops);

  /// Adds a piece and returns the text that can go out. After a match the rest of the text is dropped.
  std::string append(const std::string& piece);
  /// The text still held back when the generation ended for another reason.
  std::string finish();

  /// The stop sequence that was found, or "".
  const std::string& matched() const { return matched_; }

 private:
  std::vector<std::string> stops_;
  std::string held_;
  std::string matched_;
};

}  // namespace tessera::execution
