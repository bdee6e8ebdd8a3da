// Downloads of large files to disk, with resume and verification.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "tessera/artifacts/http.h"

namespace tessera::artifacts {

/// One file to download.
struct DownloadRequest {
  std::string url;
  std::filesystem::path path;         // its parent folder exists
  std::optional<std::uint64_t> size;  // expected bytes, if known
  std::string sha256;                 // expected hash in lower-case hexadecimal, or ""
  std::string git_sha1;               // expected Git blob hash, or ""; needs `size`
  HttpOptions http;
  /// Called with the bytes of this file on disk so far, resumed ones included.
  std::function<void(std::uint64_t done_bytes)> progress;
};

/// Downloads to `path` + ".incomplete", verifies size and hash, then renames: `path` appears whole
/// or not at all. A partial file of an earlier call is continued with a Range request (and begun
/// anew when the server ignores it or the hash then differs). Returns the bytes received.
/// REQUIRES: nobody else downloads to the same path (FileLock).
/// Throws as http_get does, InvalidArtifact when size or hash differ (the partial file is removed), and
/// ResourceExhausted when the disk is full (the partial file stays).
std::uint64_t download_file(const DownloadRequest& request);

}  // namespace tessera::artifacts
