#include "apps/cli/input.h"

#include <poll.h>

#include <cerrno>
#include <system_error>
#include <utility>

namespace tessera::cli {

bool Input::read_more() {
  char bytes[4096];
  while (!is_ended_) {
    const ssize_t count = read(fd_, bytes, sizeof bytes);
    if (count > 0) {
      buffer_.append(bytes, static_cast<size_t>(count));
      return true;
    }
    if (count == 0) {
      is_ended_ = true;
    } else if (errno == EAGAIN) {  // another program set the terminal or pipe to non-blocking
      pollfd wait = {fd_, POLLIN, 0};
      poll(&wait, 1, -1);
    } else if (errno != EINTR) {
      throw std::system_error(errno, std::generic_category(), "cannot read " + name_);
    }
  }
  return false;
}

std::optional<std::string> Input::line() {
  size_t end = buffer_.find('\n');
  while (end == std::string::npos) {
    const size_t searched = buffer_.size();
    if (!read_more()) break;
    end = buffer_.find('\n', searched);
  }
  if (end == std::string::npos && buffer_.empty()) return std::nullopt;
  std::string line = buffer_.substr(0, end);
  buffer_.erase(0, end == std::string::npos ? end : end + 1);
  if (line.ends_with('\r')) line.pop_back();
  return line;
}

std::string Input::rest() {
  while (read_more()) {
  }
  return std::exchange(buffer_, {});
}

}  // namespace tessera::cli
