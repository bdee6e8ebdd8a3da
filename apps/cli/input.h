// The one way to standard input. Reads are checked: a failed one is an error, never the end of the input.
#pragma once

#include <unistd.h>

#include <optional>
#include <string>
#include <utility>

namespace tessera::cli {

/// Reads a descriptor, standard input if not told otherwise, line by line or whole. One instance per
/// descriptor: it reads ahead. Throws std::system_error when reading fails.
class Input {
 public:
  /// `name` is what messages call it.
  explicit Input(int fd = STDIN_FILENO, std::string name = "standard input")
      : fd_(fd), name_(std::move(name)) {}

  /// The next line without its end, "\n" or "\r\n"; the last one may have none. Absent at the end.
  std::optional<std::string> line();
  /// Everything that is left.
  std::string rest();

 private:
  /// Appends to the buffer; false at the end.
  bool read_more();

  int fd_;
  std::string name_;
  std::string buffer_;
  bool is_ended_ = false;
};

}  // namespace tessera::cli
