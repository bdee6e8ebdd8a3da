// The one way to standard output and standard error. Writes are checked: a full disk is an error,
// a reader that went away is a quiet end.
#pragma once

#include <exception>
#include <string>
#include <string_view>

namespace tessera::cli {

/// The reader of standard output closed it; the program ends without a message.
class ReaderGone : public std::exception {
 public:
  const char* what() const noexcept override { return "the reader of standard output is gone"; }
};

/// What a shell reports for a program that a closed pipe ended: 128 + SIGPIPE.
inline constexpr int kReaderGoneStatus = 141;
/// What a shell reports for a program that Ctrl-C ended: 128 + SIGINT.
inline constexpr int kInterruptedStatus = 130;

/// Opens /dev/null for every standard stream that the caller closed, so that no file or pipe of ours
/// gets its number: a program that writes its messages to descriptor 2 would write into that. Reading
/// a closed standard input and writing a closed standard output still fail. Call it first.
void open_standard_streams();

/// Makes a write to a closed pipe an error that write_output sees instead of a signal.
void ignore_closed_pipes();

/// Writes to standard output and flushes, so that every token shows when it is made. Throws
/// ReaderGone, or std::system_error when the bytes cannot be stored.
void write_output(std::string_view text);

/// Writes to standard error; failures are ignored, there is nowhere left to report them.
void write_message(std::string_view text);

/// `text` as a part of one line for people: line breaks and tabs as spaces, other control characters,
/// marks that turn the direction of text and bytes that are no UTF-8 as \xNN; cut after about 2000 bytes.
std::string one_line(std::string_view text);

}  // namespace tessera::cli
