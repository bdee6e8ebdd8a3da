// Locks between processes, for downloads into shared cache folders.
#pragma once

#include <filesystem>
#include <stop_token>
#include <utility>

namespace tessera::artifacts {

/// A file descriptor that closes itself.
class FileHandle {
 public:
  explicit FileHandle(int fd) : fd_(fd) {}
  ~FileHandle();
  FileHandle(FileHandle&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  FileHandle(const FileHandle&) = delete;
  FileHandle& operator=(const FileHandle&) = delete;
  FileHandle& operator=(FileHandle&&) = delete;
  int get() const { return fd_; }

 private:
  int fd_;
};

/// An exclusive lock on `path` (created with its parent folders, and left there: removing it would
/// let two holders in). Excludes threads of one process too. The kernel releases it when the
/// process dies.
class FileLock {
 public:
  /// Waits until the lock is free. Throws Cancelled when `cancel` is triggered while waiting, and
  /// ResourceExhausted when the file cannot be created.
  explicit FileLock(const std::filesystem::path& path, const std::stop_token& cancel = {});

 private:
  FileHandle file_;
};

}  // namespace tessera::artifacts
