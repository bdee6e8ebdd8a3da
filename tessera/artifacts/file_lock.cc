#include "tessera/artifacts/file_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <system_error>
#include <thread>

#include "tessera/base/check.h"

namespace tessera::artifacts {
namespace {

int open_lock_file(const std::filesystem::path& path) {
  std::error_code ignored;  // open() below reports what matters
  std::filesystem::create_directories(path.parent_path(), ignored);
  return ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
}

}  // namespace

FileHandle::~FileHandle() {
  if (fd_ >= 0) ::close(fd_);
}

FileLock::FileLock(const std::filesystem::path& path, const std::stop_token& cancel)
    : file_(open_lock_file(path)) {
  const auto refuse = [&] {
    base::fail(ErrorKind::kResourceExhausted, "[file_lock] ", path.string(), ": ", std::strerror(errno));
  };
  if (file_.get() < 0) refuse();
  while (::flock(file_.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK && errno != EINTR) refuse();
    if (cancel.stop_requested()) {
      base::fail(ErrorKind::kCancelled, "[file_lock] cancelled while another process holds ", path.string());
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
}

}  // namespace tessera::artifacts
