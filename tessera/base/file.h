// Files as the library reads and writes them: memory maps, whole-file reads, atomic writes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace tessera::base {

/// A read-only memory map of one whole file. Shared: whoever points into the bytes holds the map.
/// Thread-safe. If another process truncates the file while it is mapped, reading past the new end
/// raises SIGBUS, as with every memory map.
class MappedFile {
 public:
  /// Throws InvalidArgument when the file does not exist or is no regular file, and
  /// InvalidArtifact when it is empty or cannot be read.
  static std::shared_ptr<const MappedFile> open(const std::filesystem::path& path);

  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::span<const std::byte> bytes() const { return {data_, size_}; }
  const std::filesystem::path& path() const { return path_; }

  /// Tells the kernel that the pages wholly inside `range` are not needed soon; they are read from
  /// the file again if touched. Used after a tensor has been repacked. `range` lies in bytes().
  void release(std::span<const std::byte> range) const;

 private:
  MappedFile(std::filesystem::path path, const std::byte* data, std::size_t size);

  std::filesystem::path path_;
  const std::byte* data_;
  std::size_t size_;
};

/// The whole content of a (small) file. Throws InvalidArgument when it does not exist, and
/// InvalidArtifact when it cannot be read or is larger than `max_bytes`.
std::string read_file(const std::filesystem::path& path, std::uint64_t max_bytes = 1ULL << 30);

/// The same for a file that may be missing: absent when no entry of that name exists. An entry that
/// exists means something, so one that cannot be read (a dangling link, a folder, a pipe) or is empty
/// is an InvalidArtifact, as is a file larger than `max_bytes`.
std::optional<std::string> read_optional_file(const std::filesystem::path& path,
                                              std::uint64_t max_bytes = 1ULL << 30);

/// Writes through a temporary file in the same folder, fsync and rename, so that a reader sees the
/// old content or the new, never a part. Throws ResourceExhausted when the disk refuses.
void write_file_atomically(const std::filesystem::path& path, std::string_view content);

/// Tessera's own cache folder: $XDG_CACHE_HOME/tessera or $HOME/.cache/tessera.
/// Throws InvalidArgument when neither variable is set.
std::filesystem::path cache_folder();

}  // namespace tessera::base
