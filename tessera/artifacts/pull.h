// Downloads a repository's model files from a Hugging Face endpoint into the Hugging Face cache,
// where every tool that knows this cache finds them again. tessera/pull.h is its face.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <stop_token>
#include <string>
#include <vector>

#include "tessera/artifacts/repository.h"
#include "tessera/pull.h"

namespace tessera::artifacts {

struct RepositoryOptions {
  std::string endpoint;  // "" = $HF_ENDPOINT, else https://huggingface.co
  std::string revision;  // branch, tag or commit; "" = main
  std::string file;      // name, or a part of it, of the GGUF file wanted from a repository with several
  std::string token;     // "" = $HF_TOKEN, if set; sent to the endpoint only, never to a redirect's host
  std::filesystem::path cache;  // "" = $HF_HUB_CACHE, $HF_HOME/hub or $HOME/.cache/huggingface/hub
  double timeout_s = 60.0;      // longest silence of the server before the connection counts as lost
  int attempts = 5;             // of each file; a later attempt goes on where the last one stopped
  std::function<void(const PullProgress&)> progress;  // bytes of all files, those already present included
  std::stop_token cancel;
};

struct PulledRepository {
  std::filesystem::path snapshot;  // the folder that holds the files by their names
  std::string commit;              // what the revision stood for
  std::vector<std::string> files;  // names in the snapshot
  std::vector<SkippedFile> skipped;
  uint64_t downloaded_bytes = 0;  // over the network in this call
  uint64_t total_bytes = 0;       // of all files
};

/// Downloads the files that Tessera needs of `repository` ("org/name", optionally
/// "org/name@revision"): configuration, tokenizer, chat template, and the safetensors weights, or a
/// GGUF file when there are none. Every file is verified against the hash the endpoint states before
/// it gets its name; files already present are not downloaded again; an interrupted pull resumes;
/// pulls of several processes wait for each other file by file.
/// Throws InvalidArgument for a malformed or unknown repository or revision, a refused token, or a
/// choice among GGUF files that is missing or ambiguous (the message lists them); InvalidArtifact
/// when what arrives differs from its hash or the endpoint's answer cannot be right;
/// ResourceExhausted when the disk is full or the network fails (trying again may help); Cancelled.
PulledRepository pull_repository(const std::string& repository, const RepositoryOptions& options = {});

}  // namespace tessera::artifacts
