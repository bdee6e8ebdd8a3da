#include "tessera/artifacts/model_files.h"

#include <algorithm>
#include <optional>
#include <set>
#include <system_error>

#include "tessera/artifacts/model_names.h"
#include "tessera/artifacts/quotes.h"
#include "tessera/artifacts/safetensors.h"
#include "tessera/base/check.h"
#include "tessera/base/env.h"
#include "tessera/base/file.h"

namespace tessera::artifacts {
namespace {

namespace fs = std::filesystem;
using base::fail_argument;
using base::fail_artifact;

constexpr const char* kWhere = "[model_files.find]";

bool is_file(const fs::path& path) {
  std::error_code ignored;
  return fs::is_regular_file(path, ignored);
}

bool is_folder(const fs::path& path) {
  std::error_code ignored;
  return fs::is_directory(path, ignored);
}

/// Whether `path` names anything, be it a link that leads nowhere: reading it then says what is wrong.
bool is_named(const fs::path& path) {
  std::error_code ignored;
  return fs::symlink_status(path, ignored).type() != fs::file_type::not_found;
}

/// The file itself, or all parts in order when it is one part of a split model.
std::vector<fs::path> gguf_parts(const fs::path& path) {
  const std::optional<SplitGgufName> split = parse_split_gguf_name(path.filename().string());
  if (!split) return {path};
  if (split->n_parts < 1) fail_artifact(kWhere, " ", path.string(), ": a split model of 0 parts");
  std::vector<fs::path> parts;
  for (int i = 1; i <= split->n_parts; ++i) {
    fs::path part = path.parent_path() / split->part(i);
    if (!is_file(part)) {
      fail_artifact(kWhere, " ", path.string(), ": part ", i, " of ", split->n_parts,
                    " is missing; expected ", part.string());
    }
    parts.push_back(std::move(part));
  }
  return parts;
}

ModelFiles gguf_model(const std::string& name, const fs::path& path) {
  ModelFiles files;
  files.name = name;
  files.folder = path.parent_path();
  files.gguf = gguf_parts(path);
  return files;
}

/// Names of the files in `folder` that end with `extension`, sorted.
std::vector<std::string> files_ending(const fs::path& folder, const std::string& extension) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    if (it->path().extension() == extension && is_file(it->path()))
      names.push_back(it->path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

/// The weights of a folder with config.json.
void find_safetensors(ModelFiles& files) {
  const fs::path index = files.folder / "model.safetensors.index.json";
  const fs::path single = files.folder / "model.safetensors";
  const std::optional<std::string> index_json = base::read_optional_file(index);
  if (!index_json) {
    if (!is_named(single)) {
      fail_artifact(kWhere, " ", files.folder.string(),
                    ": no weights; expected model.safetensors, model.safetensors.index.json or a .gguf file");
    }
    files.safetensors = {single};
    return;
  }
  files.index = index;
  std::set<std::string> shards;
  for (auto& [tensor, shard] : parse_safetensors_index(*index_json, index.string())) shards.insert(shard);
  if (shards.empty()) fail_artifact(kWhere, " ", index.string(), ": weight_map names no tensor");
  for (const std::string& shard : shards) {
    const fs::path path = files.folder / shard;
    if (!is_file(path))
      fail_artifact(kWhere, " ", index.string(), ": shard ", in_quotes(shard), " is missing from the folder");
    files.safetensors.push_back(path);
  }
}

/// The one GGUF model of a folder without safetensors; absent when it has no GGUF file.
std::optional<fs::path> only_gguf(const fs::path& folder) {
  const std::vector<std::string> names = files_ending(folder, ".gguf");
  std::vector<std::string> models;  // one name per model: of a split one, its first part
  std::set<std::string> keys;
  for (const std::string& name : names) {
    if (keys.insert(gguf_model_key(name)).second) models.push_back(name);
  }
  if (models.empty()) return std::nullopt;
  if (models.size() > 1) {
    std::string list;
    for (const std::string& model : models) list += (list.empty() ? "" : ", ") + in_quotes(model);
    fail_argument(kWhere, " ", folder.string(), " holds ", models.size(),
                  " GGUF models; name one of: ", list);
  }
  return folder / models.front();
}

ModelFiles folder_model(const std::string& name, const fs::path& folder) {
  ModelFiles files;
  files.name = name;
  files.folder = folder;
  const bool has_safetensors =
      is_named(folder / "model.safetensors") || is_named(folder / "model.safetensors.index.json");
  if (!has_safetensors) {
    if (const auto gguf = only_gguf(folder)) return gguf_model(name, *gguf);
  }
  if (!is_named(folder / "config.json"))
    fail_artifact(kWhere, " ", folder.string(), ": config.json is missing");
  find_safetensors(files);
  return files;
}

std::string trimmed(std::string text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r' || text.back() == ' ')) text.pop_back();
  return text;
}

/// The snapshot folder of a cached repository, absent when the revision is not there.
std::optional<fs::path> find_snapshot(const fs::path& repository, const std::string& revision) {
  constexpr uint64_t kLongestRef = 4096;
  const auto is_one_name = [](const std::string& text) {
    return is_safe_path(text) && text.find('/') == std::string::npos;
  };
  const fs::path ref = repository / "refs" / revision;
  if (is_file(ref)) {
    const std::string commit = trimmed(base::read_file(ref, kLongestRef));
    if (!is_one_name(commit))
      fail_artifact(kWhere, " ", ref.string(), "; expected a commit, got ", in_quotes(commit));
    const fs::path snapshot = repository / "snapshots" / commit;
    if (!is_folder(snapshot))
      fail_artifact(kWhere, " ", ref.string(), " names a snapshot that is missing: ", snapshot.string());
    return snapshot;
  }
  // A commit is one name; a path here would be a folder inside of a snapshot.
  const fs::path snapshot = repository / "snapshots" / revision;
  if (is_one_name(revision) && is_folder(snapshot)) return snapshot;
  return std::nullopt;
}

ModelFiles hub_model(const std::string& name, const HubName& hub) {
  const fs::path repository = hugging_face_cache() / hub.cache_folder();
  const std::string revision = hub.revision.value_or("main");
  const std::optional<fs::path> snapshot = find_snapshot(repository, revision);
  if (!snapshot) {
    fail_argument(kWhere, " no model ", in_quotes(name), ": neither a folder here nor revision ",
                  in_quotes(revision), " in ", repository.string(), "; `tessera pull ", name,
                  "` downloads it");
  }
  return folder_model(name, *snapshot);
}

ModelFiles cached_default_model(const std::string& name) {
  // default_model.cc downloads it; that file needs pip and the network, this one must not.
  const fs::path path = base::cache_folder() / "models" / "SmolLM2-135M-Instruct.Q4_1.gguf";
  if (!is_file(path)) {
    fail_argument(kWhere, " the default model is not downloaded; expected ", path.string(),
                  "; `tessera pull default` downloads it");
  }
  return gguf_model(name, path);
}

}  // namespace

fs::path hugging_face_cache() {
  if (const auto cache = base::env("HF_HUB_CACHE")) return *cache;
  if (const auto home = base::env("HF_HOME")) return fs::path(*home) / "hub";
  if (const auto home = base::env("HOME")) return fs::path(*home) / ".cache" / "huggingface" / "hub";
  fail_argument("[model_files.cache] none of HF_HUB_CACHE, HF_HOME and HOME is set");
}

ModelFiles find_model(const std::string& name) {
  if (name.empty())
    fail_argument(kWhere, " the model name is empty; expected a folder, a .gguf file, org/name or default");
  if (name == "default") return cached_default_model(name);
  const fs::path path(name);
  if (is_folder(path)) return folder_model(name, path);
  if (path.extension() == ".gguf") {
    // Any part of a split model stands for all, even one that is missing itself: then it is named.
    if (!is_file(path) && !parse_split_gguf_name(path.filename().string()))
      fail_argument(kWhere, " no file ", in_quotes(name));
    return gguf_model(name, path);
  }
  if (is_file(path))
    fail_argument(kWhere, " ", in_quotes(name), " is a file; expected a .gguf file or the model's folder");
  if (const std::optional<HubName> hub = parse_hub_name(name)) return hub_model(name, *hub);
  fail_argument(kWhere, " no model ", in_quotes(name),
                ": not a folder, a .gguf file, \"default\" or org/name in ", hugging_face_cache().string(),
                "; `tessera pull org/name` downloads a model");
}

}  // namespace tessera::artifacts
