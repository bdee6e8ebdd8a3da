#include "apps/cli/output.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <system_error>

#include "apps/cli/utf8.h"

namespace tessera::cli {
namespace {

constexpr size_t kLongestLine = 2000;  // an error is read by a person; a hostile file may bring megabytes

/// Whether a character shows as itself: no control character, no mark that turns the direction of text.
bool is_printable(std::string_view character) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(character[i]); };
  if (character.size() == 1) return byte(0) >= ' ' && byte(0) != 0x7F;
  if (character.size() == 2) return byte(0) != 0xC2 || byte(1) >= 0xA0;  // not U+0080 to U+009F
  if (character.size() == 3 && byte(0) == 0xE2) {
    const bool is_separator_or_embedding = byte(1) == 0x80 && byte(2) >= 0xA8 && byte(2) <= 0xAE;  // U+2028..
    const bool is_isolate = byte(1) == 0x81 && byte(2) >= 0xA6 && byte(2) <= 0xA9;                 // U+2066..
    return !is_separator_or_embedding && !is_isolate;
  }
  return true;
}

}  // namespace

void open_standard_streams() {
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (fcntl(fd, F_GETFD) >= 0 || errno != EBADF) continue;
    // The wrong direction for input and output, so that using them is the error EBADF as before.
    // open() returns the lowest free number, which is fd: the ones below are open by now.
    [[maybe_unused]] const int opened = open("/dev/null", fd == STDOUT_FILENO ? O_RDONLY : O_WRONLY);
  }
}

void ignore_closed_pipes() { std::signal(SIGPIPE, SIG_IGN); }

void write_output(std::string_view text) {
  errno = 0;
  const bool is_written = std::fwrite(text.data(), 1, text.size(), stdout) == text.size();
  if (is_written && std::fflush(stdout) == 0) return;
  if (errno == EPIPE) throw ReaderGone();
  throw std::system_error(errno, std::generic_category(), "cannot write standard output");
}

void write_message(std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stderr);
  std::fflush(stderr);
}

std::string one_line(std::string_view text) {
  std::string line;
  while (!text.empty() && line.size() < kLongestLine) {
    const size_t size = utf8_size(text);
    const std::string_view character = text.substr(0, std::max<size_t>(size, 1));
    text.remove_prefix(character.size());
    if (character == "\n" || character == "\r" || character == "\t") {
      line += ' ';
    } else if (size > 0 && is_printable(character)) {
      line += character;
    } else {
      for (const char c : character) line += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    }
  }
  if (!text.empty()) line += "...";
  return line;
}

}  // namespace tessera::cli
