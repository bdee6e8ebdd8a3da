// What an endpoint says a repository holds, and which of its files a model needs. Knows no network.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tessera::artifacts {

/// One file of the repository as the endpoint lists it.
struct RemoteFile {
  std::string name;
  std::uint64_t size = 0;
  std::string sha256;    // of files in large-file storage
  std::string git_sha1;  // of the others

  const std::string& blob_name() const { return sha256.empty() ? git_sha1 : sha256; }
};

struct Listing {
  std::string commit;
  std::vector<RemoteFile> files;
};

/// A file of the repository that is not needed.
struct SkippedFile {
  std::string name;
  std::string reason;
};

/// Reads the endpoint's answer (Hub API, `/api/models/{repository}/revision/{revision}?blobs=true`).
/// Throws InvalidArtifact naming `url` when it is no such answer, a file has no size or valid hash, or
/// a file name would leave the folder it belongs into.
Listing parse_listing(std::string_view json, const std::string& url);

/// The files a model needs: configuration, tokenizer, chat template, and the safetensors weights, or,
/// without those or when `wanted` names one, a GGUF file with all its parts. The others are appended
/// to `skipped`. Throws InvalidArgument when `wanted` does not choose exactly one of several GGUF
/// files, and InvalidArtifact when there are no weights.
std::vector<RemoteFile> choose_files(const Listing& listing, const std::string& wanted,
                                     const std::string& repository, std::vector<SkippedFile>& skipped);

}  // namespace tessera::artifacts
