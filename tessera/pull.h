// Downloads a model into the local Hugging Face cache, from where ModelOptions::model finds it by name.
#pragma once

#include <cstdint>
#include <functional>
#include <stop_token>
#include <string>

namespace tessera {

struct PullOptions {
  std::string endpoint;           // base URL; "" = the environment's HF_ENDPOINT, else Hugging Face
  std::string revision = "main";  // branch, tag or commit; `org/name@revision` says the same
  std::string file;               // name, or a part of it, of one GGUF file among several
  std::function<void(const std::string&)> notice;  // lines for people: what is fetched, what was skipped
};

/// How far the download is. `total_bytes` is 0 while it is unknown.
struct PullProgress {
  std::string file;  // the file on its way, relative to the model
  uint64_t done_bytes = 0;
  uint64_t total_bytes = 0;
};

/// Fetches `name`, an org/name, or `default` for the default model, and returns the local folder or
/// file. What is complete on disk is not fetched again (for `default` nothing is asked of the network
/// then), what is partly there is continued. `on_progress` is called on the calling thread.
/// Throws InvalidArgument for a name that cannot be one, InvalidArtifact for what arrives damaged,
/// ResourceExhausted for a full disk, Cancelled when `cancel` was triggered.
std::string pull(const std::string& name, const PullOptions& options = {},
                 const std::function<void(const PullProgress&)>& on_progress = {},
                 std::stop_token cancel = {});

}  // namespace tessera
