#include "tessera/artifacts/repository.h"

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "tessera/artifacts/model_names.h"
#include "tessera/base/check.h"

namespace tessera::artifacts {
namespace {

bool ends_with(std::string_view text, std::string_view end) {
  return text.size() >= end.size() && text.substr(text.size() - end.size()) == end;
}

bool starts_with(std::string_view text, std::string_view begin) {
  return text.substr(0, begin.size()) == begin;
}

bool is_hex(const std::string& text, std::size_t size) {
  return text.size() == size && text.find_first_not_of("0123456789abcdef") == std::string::npos;
}

std::string lower_case(std::string text) {
  for (char& c : text) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return text;
}

RemoteFile parse_file(const nlohmann::json& entry, const std::string& url) {
  RemoteFile file;
  const auto refuse = [&](const std::string& what) {
    base::fail_artifact("[pull.listing] ", url, ": ", what);
  };
  if (!entry.is_object() || !entry.contains("rfilename") || !entry["rfilename"].is_string()) {
    refuse("/siblings has an entry without rfilename");
  }
  file.name = entry["rfilename"].get<std::string>();
  if (!is_safe_path(file.name)) {
    refuse("file name " + nlohmann::json(file.name).dump() + " would leave the snapshot folder");
  }
  const nlohmann::json* sized = &entry;
  const auto large = entry.find("lfs");
  if (large != entry.end() && large->is_object()) {
    sized = &*large;
    if (large->contains("sha256") && (*large)["sha256"].is_string()) {
      file.sha256 = (*large)["sha256"].get<std::string>();
    }
  } else if (entry.contains("blobId") && entry["blobId"].is_string()) {
    file.git_sha1 = entry["blobId"].get<std::string>();
  }
  const auto size = sized->find("size");
  if (size == sized->end() || !size->is_number_unsigned()) refuse(file.name + " has no size");
  file.size = size->get<std::uint64_t>();
  if (!is_hex(file.sha256, 64) && !(file.sha256.empty() && is_hex(file.git_sha1, 40))) {
    refuse(file.name + " has no valid hash; expected lfs.sha256 or blobId");
  }
  return file;
}

/// Configuration, tokenizer and chat template: small files that describe the model.
bool is_description(const std::string& name) {
  constexpr std::string_view kNames[] = {
      "config.json", "generation_config.json", "special_tokens_map.json", "added_tokens.json", "vocab.json",
      "merges.txt",  "adapter_config.json",    "kv_config.json",          "chat_template.json"};
  return std::find(std::begin(kNames), std::end(kNames), name) != std::end(kNames) ||
         starts_with(name, "tokenizer") || starts_with(name, "chat_template") ||
         starts_with(name, "additional_chat_templates/");
}

bool is_root(const std::string& name) { return name.find('/') == std::string::npos; }

/// The key of the one GGUF model, whole or split, that `wanted` names.
std::string choose_gguf(const Listing& listing, const std::string& wanted, const std::string& repository) {
  std::set<std::string> models;  // their keys
  std::optional<std::string> exact;
  for (const RemoteFile& file : listing.files) {
    if (!ends_with(file.name, ".gguf")) continue;
    if (file.name == wanted) exact = gguf_model_key(file.name);
    if (lower_case(file.name).find(lower_case(wanted)) == std::string::npos) continue;
    models.insert(gguf_model_key(file.name));
  }
  if (exact) return *exact;
  if (models.size() == 1) return *models.begin();
  std::string names;
  for (const RemoteFile& file : listing.files) {
    if (ends_with(file.name, ".gguf")) names += (names.empty() ? "" : ", ") + file.name;
  }
  if (names.empty() && !wanted.empty()) {
    base::fail_argument("[pull.files] ", repository, " holds no GGUF file, among which '", wanted,
                        "' (--file) could choose");
  }
  if (names.empty()) {
    base::fail_artifact("[pull.files] ", repository, " holds neither safetensors nor GGUF weights");
  }
  base::fail_argument("[pull.files] ", repository, " holds ",
                      wanted.empty()   ? "several GGUF files"
                      : models.empty() ? "no GGUF file that fits '" + wanted + "'"
                                       : "several GGUF files that fit '" + wanted + "'",
                      "; expected a choice (--file) among: ", names);
}

}  // namespace

Listing parse_listing(std::string_view json_text, const std::string& url) {
  const auto json = nlohmann::json::parse(json_text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object() || !json.contains("sha") || !json["sha"].is_string() || !json.contains("siblings") ||
      !json["siblings"].is_array()) {
    base::fail_artifact("[pull.listing] ", url, ": expected a JSON object with sha and siblings");
  }
  Listing listing;
  listing.commit = json["sha"].get<std::string>();
  if (!is_hex(listing.commit, 40)) base::fail_artifact("[pull.listing] ", url, ": /sha is no commit");
  for (const auto& entry : json["siblings"]) listing.files.push_back(parse_file(entry, url));
  return listing;
}

std::vector<RemoteFile> choose_files(const Listing& listing, const std::string& wanted,
                                     const std::string& repository, std::vector<SkippedFile>& skipped) {
  const auto is_weight = [](const std::string& name) {
    return is_root(name) && ends_with(name, ".safetensors") && !starts_with(name, "consolidated");
  };
  const auto any = [&](const auto& predicate) {
    return std::any_of(listing.files.begin(), listing.files.end(),
                       [&](const RemoteFile& file) { return predicate(file.name); });
  };
  const bool has_safetensors = wanted.empty() && any(is_weight);
  // Some repositories keep further safetensors (adapters, other parts) beside the model's own.
  const bool has_model_files =
      any([&](const std::string& name) { return is_weight(name) && starts_with(name, "model"); });
  const std::string gguf = has_safetensors ? "" : choose_gguf(listing, wanted, repository);

  std::vector<RemoteFile> chosen;
  for (const RemoteFile& file : listing.files) {
    const std::string& name = file.name;
    std::string reason;
    if (ends_with(name, ".gguf")) {
      if (has_safetensors) {
        reason = "safetensors weights are there";
      } else if (gguf_model_key(name) != gguf) {
        reason = "another GGUF file was chosen";
      }
    } else if (ends_with(name, ".safetensors")) {
      if (!has_safetensors) {
        reason = "a GGUF file was chosen";
      } else if (!is_weight(name) || (has_model_files && !starts_with(name, "model"))) {
        reason = "not the model's own weights";
      }
    } else if (ends_with(name, ".safetensors.index.json")) {
      if (!has_safetensors || !is_root(name)) reason = "an index of weights that were not chosen";
    } else if (!is_description(name)) {
      reason = "not needed to run the model";
    }
    if (reason.empty()) {
      chosen.push_back(file);
    } else {
      skipped.push_back({name, reason});
    }
  }
  return chosen;
}

}  // namespace tessera::artifacts
