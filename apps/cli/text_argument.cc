#include "apps/cli/text_argument.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "apps/cli/flags.h"
#include "apps/cli/input.h"
#include "tessera/error.h"

namespace tessera::cli {
namespace {

std::string read_path(const std::string& path, const std::string& flag) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) throw std::system_error(errno, std::generic_category(), fmt::format("{} {}", flag, path));
  struct Closer {
    int fd;
    ~Closer() { close(fd); }
  } closer{fd};
  return Input(fd, fmt::format("{} {}", flag, path)).rest();
}

}  // namespace

std::string read_text_argument(const std::optional<std::string>& argument, const std::string& what) {
  if (!argument) {
    throw UsageError(fmt::format("no {0}; give one as an argument, or '-' to read standard input", what));
  }
  std::string text = *argument;
  if (text == "-") text = Input().rest();
  if (text.empty()) throw UsageError(fmt::format("the {} is empty", what));
  return text;
}

std::string read_text_file(const std::optional<std::string>& path, const std::string& flag) {
  if (!path || path->empty()) {
    throw UsageError(fmt::format("no text; name a file with {}, or '-' for standard input", flag));
  }
  std::string text = *path == "-" ? Input().rest() : read_path(*path, flag);
  if (text.empty()) throw Error(ErrorKind::kInvalidArgument, fmt::format("{} {} is empty", flag, *path));
  return text;
}

}  // namespace tessera::cli
