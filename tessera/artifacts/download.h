// HTTP and HTTPS downloads: small documents into memory, large files to disk with resume and
// verification. The only part of the library that speaks HTTP as a client.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <stop_token>
#include <string>

namespace tessera::artifacts {

/// How to talk to a server.
struct HttpOptions {
  std::string token;  // bearer token; dropped when a redirect leaves the scheme, host and port asked
  double connect_timeout_s = 20.0;
  double read_timeout_s = 60.0;  // longest silence before the connection counts as lost
  int attempts = 5;              // for lost connections and answers 429 and 5xx, with growing pauses
  double retry_pause_s = 0.5;    // before the second attempt; doubles each time
  std::stop_token cancel;        // closes the connection at once
};

/// The body of a small document. Redirects are followed.
/// Throws, always naming the URL: InvalidArgument for 4xx answers ("... HTTP 404 ..."),
/// ResourceExhausted when the server cannot be reached, stalls, answers 429 or 5xx,
/// InvalidArtifact when the body is longer than `max_bytes`, Cancelled.
std::string http_get(const std::string& url, const HttpOptions& options, std::uint64_t max_bytes);

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
/// Throws as http_get, InvalidArtifact when size or hash differ (the partial file is removed), and
/// ResourceExhausted when the disk is full (the partial file stays).
std::uint64_t download_file(const DownloadRequest& request);

/// `text` with everything but unreserved characters and `kept` percent-encoded.
std::string url_encode(const std::string& text, const std::string& kept = "");

}  // namespace tessera::artifacts
