#include "tessera/base/file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "tessera/base/check.h"
#include "tessera/base/env.h"

namespace tessera::base {
namespace {

/// A file descriptor that closes itself.
class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }

 private:
  int fd_;
};

std::string reason() { return std::strerror(errno); }

/// Opens a regular file for reading and returns its size. `kind` is the error for what cannot be opened.
std::uint64_t open_regular(const std::filesystem::path& path, ErrorKind kind, int& fd) {
  // Without O_NONBLOCK, opening a pipe waits for a writer, perhaps for ever; regular files ignore it.
  fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) fail(kind, "[file.open] ", path.string(), ": ", reason());
  struct stat status {};
  if (::fstat(fd, &status) != 0 || !S_ISREG(status.st_mode)) {
    ::close(fd);
    fail(kind, "[file.open] ", path.string(), ": not a regular file");
  }
  return static_cast<std::uint64_t>(status.st_size);
}

std::string read_opened(const std::filesystem::path& path, std::uint64_t max_bytes, ErrorKind kind) {
  int fd = -1;
  const std::uint64_t size = open_regular(path, kind, fd);
  const Descriptor descriptor(fd);
  if (size > max_bytes) {
    fail_artifact("[file.read] ", path.string(), ": ", size, " bytes; expected at most ", max_bytes);
  }
  std::string content(size, '\0');
  std::size_t done = 0;
  while (done < content.size()) {
    const ssize_t n = ::read(fd, content.data() + done, content.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) fail_artifact("[file.read] ", path.string(), ": ", n < 0 ? reason() : "short read");
    done += static_cast<std::size_t>(n);
  }
  return content;
}

}  // namespace

MappedFile::MappedFile(std::filesystem::path path, const std::byte* data, std::size_t size)
    : path_(std::move(path)), data_(data), size_(size) {}

MappedFile::~MappedFile() { ::munmap(const_cast<std::byte*>(data_), size_); }

std::shared_ptr<const MappedFile> MappedFile::open(const std::filesystem::path& path) {
  int fd = -1;
  const std::uint64_t size = open_regular(path, ErrorKind::kInvalidArgument, fd);
  const Descriptor descriptor(fd);
  if (size == 0) fail_artifact("[file.open] ", path.string(), ": the file is empty");
  void* data = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd, 0);
  if (data == MAP_FAILED) fail_artifact("[file.open] ", path.string(), ": ", reason());
  return std::shared_ptr<const MappedFile>(new MappedFile(path, static_cast<const std::byte*>(data), size));
}

void MappedFile::release(std::span<const std::byte> range) const {
  const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto begin = (reinterpret_cast<std::uintptr_t>(range.data()) + page - 1) / page * page;
  const auto end = reinterpret_cast<std::uintptr_t>(range.data() + range.size()) / page * page;
  // Only advice: a failure costs memory, not correctness.
  if (begin < end) ::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
}

std::string read_file(const std::filesystem::path& path, std::uint64_t max_bytes) {
  return read_opened(path, max_bytes, ErrorKind::kInvalidArgument);
}

std::optional<std::string> read_optional_file(const std::filesystem::path& path, std::uint64_t max_bytes) {
  struct stat status {};
  if (::lstat(path.c_str(), &status) != 0) {
    if (errno == ENOENT || errno == ENOTDIR) return std::nullopt;
    fail_artifact("[file.open] ", path.string(), ": ", reason());
  }
  std::string content = read_opened(path, max_bytes, ErrorKind::kInvalidArtifact);
  if (content.empty()) fail_artifact("[file.read] ", path.string(), ": the file is empty");
  return content;
}

void write_file_atomically(const std::filesystem::path& path, std::string_view content) {
  const auto refuse = [&](const char* step) {
    fail(ErrorKind::kResourceExhausted, "[file.write] ", path.string(), ": ", step, ": ", reason());
  };
  std::string temporary = path.string() + ".XXXXXX";
  const Descriptor descriptor(::mkstemp(temporary.data()));
  if (descriptor.get() < 0) refuse("create");
  std::size_t done = 0;
  while (done < content.size()) {
    const ssize_t n = ::write(descriptor.get(), content.data() + done, content.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) {
      const int saved = errno;
      ::unlink(temporary.c_str());
      errno = saved;
      refuse("write");
    }
    done += static_cast<std::size_t>(n);
  }
  if (::fsync(descriptor.get()) != 0 || ::fchmod(descriptor.get(), 0644) != 0 ||
      ::rename(temporary.c_str(), path.c_str()) != 0) {
    const int saved = errno;
    ::unlink(temporary.c_str());
    errno = saved;
    refuse("rename");
  }
}

std::filesystem::path cache_folder() {
  if (const auto cache = env("XDG_CACHE_HOME")) return std::filesystem::path(*cache) / "tessera";
  if (const auto home = env("HOME")) return std::filesystem::path(*home) / ".cache" / "tessera";
  fail_argument("[file.cache_folder] neither XDG_CACHE_HOME nor HOME is set");
}

}  // namespace tessera::base
