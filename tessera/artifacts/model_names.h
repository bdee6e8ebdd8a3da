// Names of models as people and repositories write them: `org/name@revision` on a hub, and the parts
// of a split GGUF file. Where the files are is left to model_files.h and pull.h.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace tessera::artifacts {

/// `org/name` or `org/name@revision`, each part safe to be one of a path.
struct HubName {
  std::string repository;               // org/name
  std::optional<std::string> revision;  // branch ("main", "refs/pr/1"), tag or commit; absent: not named

  /// Its folder in the Hugging Face cache: models--org--name.
  std::string cache_folder() const;
};

/// The parts of a hub name; absent when it is none. Organization and name are letters, digits, '-',
/// '_' and '.', without "--" and ".." and not beginning with '.', as the Hub allows them; a revision
/// is a safe path.
std::optional<HubName> parse_hub_name(std::string_view name);

/// True for a relative path that stays below its folder: names separated by single slashes, none of
/// them "." or "..", no control characters or backslashes.
bool is_safe_path(std::string_view path);

/// "stem-00002-of-00003.gguf" as its stem and number of parts.
struct SplitGgufName {
  std::string stem;
  int n_parts = 0;

  /// The file name of a part, counted from 1.
  std::string part(int index) const;
};

/// The parts of such a name, which may have folders before it; absent for every other name.
std::optional<SplitGgufName> parse_split_gguf_name(std::string_view name);

/// What all parts of one GGUF model share, and no other file of the same folder: a key to group by.
std::string gguf_model_key(const std::string& name);

}  // namespace tessera::artifacts
