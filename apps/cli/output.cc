#include "apps/cli/output.h"

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <system_error>

namespace tessera::cli {

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

}  // namespace tessera::cli
