// SHA-256 and Git's blob hash of files: what the endpoints of `pull` state about their files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace tessera::artifacts {

/// A running hash. Movable; not thread-safe.
class Digest {
 public:
  static Digest sha256();
  /// The name Git gives a file of `size` bytes: SHA-1 over "blob <size>\0" and the content.
  static Digest git_blob(std::uint64_t size);

  void update(std::string_view bytes);
  /// The hash in lower-case hexadecimal. REQUIRES: called once, last.
  std::string hex();

 private:
  struct Free {
    void operator()(void* context) const;
  };
  explicit Digest(const char* algorithm);
  std::unique_ptr<void, Free> context_;
};

/// Feeds the first `n_bytes` of an open file to a digest. Throws InvalidArtifact on a read error.
void update_from_file(Digest& digest, int fd, std::uint64_t n_bytes, const std::string& name);

/// The SHA-256 of a whole file. Throws InvalidArgument when it cannot be opened.
std::string sha256_of_file(const std::filesystem::path& path);

}  // namespace tessera::artifacts
