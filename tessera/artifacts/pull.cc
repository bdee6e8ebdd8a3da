// `pull`: the endpoint's file list, the choice among its files, and the Hugging Face cache layout
//   models--org--name/blobs/<hash>                content, named by its Git or SHA-256 hash
//   models--org--name/snapshots/<commit>/<file>   relative links into blobs/
//   models--org--name/refs/<revision>             the commit a branch or tag stood for
//   .locks/models--org--name/<hash>.lock          one lock per blob, shared with other tools
// Source of the layout: the "Understand caching" page of the huggingface_hub documentation.
#include "tessera/artifacts/pull.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <system_error>

#include "tessera/artifacts/default_model.h"
#include "tessera/artifacts/download.h"
#include "tessera/artifacts/file_lock.h"
#include "tessera/artifacts/model_files.h"
#include "tessera/base/check.h"
#include "tessera/base/env.h"
#include "tessera/base/file.h"

namespace tessera {

namespace fs = std::filesystem;

namespace artifacts {
namespace {

constexpr const char* kDefaultEndpoint = "https://huggingface.co";
// A repository of a thousand files lists in a few hundred kilobytes.
constexpr std::uint64_t kMaxListingBytes = 64ULL << 20U;

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

/// What the caller asked for, with every default filled in.
struct Source {
  std::string repository;  // org/name
  std::string revision;
  std::string endpoint;  // without a trailing slash
  HttpOptions http;
  fs::path cache;
};

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

/// True for a relative path that stays below its folder: names separated by single slashes, none of
/// them "." or "..", no control characters or backslashes.
bool is_safe_path(const std::string& path) {
  std::size_t begin = 0;
  while (true) {
    const std::size_t end = std::min(path.find('/', begin), path.size());
    const std::string part = path.substr(begin, end - begin);
    if (part.empty() || part == "." || part == "..") return false;
    if (end == path.size()) break;
    begin = end + 1;
  }
  return std::none_of(path.begin(), path.end(),
                      [](char c) { return c == '\\' || static_cast<unsigned char>(c) < 0x20 || c == 0x7f; });
}

/// A part of a repository's name: letters, digits, '-', '_' and '.', as the Hub allows them.
bool is_repository_part(const std::string& part) {
  constexpr std::string_view kAllowed = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.";
  return !part.empty() && part.size() <= 96 && part.find_first_not_of(kAllowed) == std::string::npos &&
         part.front() != '.' && part.find("..") == std::string::npos && part.find("--") == std::string::npos;
}

Source resolve_source(const std::string& name, const RepositoryOptions& options) {
  Source source;
  const std::size_t at = name.find('@');
  source.repository = name.substr(0, at);
  const std::size_t slash = source.repository.find('/');
  if (slash == std::string::npos || !is_repository_part(source.repository.substr(0, slash)) ||
      !is_repository_part(source.repository.substr(slash + 1))) {
    base::fail_argument("[pull.repository] '", name,
                        "' is no repository name; expected org/name or org/name@revision");
  }
  source.revision = options.revision;
  if (at != std::string::npos) {
    if (!options.revision.empty() && options.revision != "main") {
      base::fail_argument("[pull.revision] '", name, "' and the revision '", options.revision,
                          "' both name a revision; expected one");
    }
    source.revision = name.substr(at + 1);
  } else if (source.revision.empty()) {
    source.revision = "main";
  }
  if (!is_safe_path(source.revision)) {
    base::fail_argument("[pull.revision] '", source.revision,
                        "' is no revision; expected a branch, tag or commit");
  }
  source.endpoint = options.endpoint;
  if (source.endpoint.empty()) source.endpoint = base::env("HF_ENDPOINT").value_or(kDefaultEndpoint);
  while (ends_with(source.endpoint, "/")) source.endpoint.pop_back();
  source.http.token = options.token.empty() ? base::env("HF_TOKEN").value_or("") : options.token;
  if (source.http.token.find_first_of("\r\n") != std::string::npos) {
    base::fail_argument("[pull.token] the token contains a line break; expected one line");
  }
  source.http.read_timeout_s = options.timeout_s;
  source.http.connect_timeout_s = std::min(source.http.connect_timeout_s, options.timeout_s);
  source.http.attempts = std::max(1, options.attempts);
  source.http.cancel = options.cancel;
  source.cache = options.cache.empty() ? hugging_face_cache() : options.cache;
  return source;
}

/// A 4xx answer in the words of someone who can act on it; other errors unchanged.
[[noreturn]] void explain_refusal(const Error& error, const Source& source) {
  const std::string what = error.what();
  const auto says = [&](const char* status) { return what.find(status) != std::string::npos; };
  if (error.kind() == ErrorKind::kInvalidArgument && (says(": HTTP 401") || says(": HTTP 403"))) {
    base::fail_argument("[pull.access] ", source.repository,
                        " is private, gated or does not exist; expected a ",
                        source.http.token.empty() ? "token in HF_TOKEN" : "token in HF_TOKEN that has access",
                        ", got ", what);
  }
  if (error.kind() == ErrorKind::kInvalidArgument && says(": HTTP 404")) {
    base::fail_argument("[pull.repository] ", source.repository, " has no revision '", source.revision,
                        "' at ", source.endpoint, ", or does not exist; got ", what);
  }
  throw error;
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

Listing fetch_listing(const Source& source) {
  const std::string url = source.endpoint + "/api/models/" + source.repository + "/revision/" +
                          url_encode(source.revision) + "?blobs=true";
  std::string body;
  try {
    body = http_get(url, source.http, kMaxListingBytes);
  } catch (const Error& error) {
    explain_refusal(error, source);
  }
  const auto json = nlohmann::json::parse(body, nullptr, /*allow_exceptions=*/false);
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

/// The name of a split GGUF file without its part number, "x-00001-of-00003.gguf" -> "x"; otherwise
/// the name itself.
std::string gguf_family(const std::string& name) {
  constexpr std::string_view kPattern = "-00000-of-00000.gguf";
  if (name.size() <= kPattern.size()) return name;
  const std::string end = name.substr(name.size() - kPattern.size());
  for (std::size_t i = 0; i < kPattern.size(); ++i) {
    const bool is_digit = end[i] >= '0' && end[i] <= '9';
    if (kPattern[i] == '0' ? !is_digit : end[i] != kPattern[i]) return name;
  }
  return name.substr(0, name.size() - kPattern.size());
}

/// The one GGUF file (or all parts of one) that `wanted` names.
std::string choose_gguf(const Listing& listing, const std::string& wanted, const std::string& repository) {
  std::map<std::string, std::string> families;  // family -> first file
  std::optional<std::string> exact;
  for (const RemoteFile& file : listing.files) {
    if (!ends_with(file.name, ".gguf")) continue;
    if (file.name == wanted) exact = gguf_family(file.name);
    if (lower_case(file.name).find(lower_case(wanted)) == std::string::npos) continue;
    families.emplace(gguf_family(file.name), file.name);
  }
  if (exact) return *exact;
  if (families.size() == 1) return families.begin()->first;
  std::string names;
  for (const RemoteFile& file : listing.files) {
    if (ends_with(file.name, ".gguf")) names += (names.empty() ? "" : ", ") + file.name;
  }
  if (names.empty()) {
    base::fail_artifact("[pull.files] ", repository, " holds neither safetensors nor GGUF weights");
  }
  base::fail_argument("[pull.files] ", repository, " holds several GGUF files",
                      wanted.empty() ? "" : " and not exactly one fits '" + wanted + "'",
                      "; expected a choice (--file) among: ", names);
}

/// Splits a listing into what is needed and what is not, with the reason.
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
      } else if (gguf_family(name) != gguf) {
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

/// Creates `path` as a relative symbolic link to a blob, replacing what is there in one step.
void link_to_blob(const fs::path& path, const std::string& name, const std::string& blob) {
  std::string target = "../../";
  for (const char c : name) {
    if (c == '/') target += "../";
  }
  target += "blobs/" + blob;
  std::error_code error;
  if (fs::is_symlink(path, error) && fs::read_symlink(path, error) == target) return;
  fs::create_directories(path.parent_path(), error);
  // The name is per blob and link: another process writing the same link writes the same target.
  const fs::path temporary = path.string() + "." + blob.substr(0, 16) + ".link";
  fs::remove(temporary, error);
  error.clear();
  fs::create_symlink(target, temporary, error);
  if (error == std::errc::file_exists) error.clear();  // that other process
  if (!error) fs::rename(temporary, path, error);
  if (error && !(fs::is_symlink(path) && fs::read_symlink(path) == target)) {
    base::fail(ErrorKind::kResourceExhausted, "[pull.link] ", path.string(), ": ", error.message());
  }
}

void make_folder(const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error)
    base::fail(ErrorKind::kResourceExhausted, "[pull.folder] ", folder.string(), ": ", error.message());
}

/// True when the blob is there in full. Its hash was checked before it got its name.
bool is_present(const fs::path& path, std::uint64_t size) {
  std::error_code error;
  return fs::is_regular_file(path, error) && fs::file_size(path, error) == size && !error;
}

}  // namespace

PulledRepository pull_repository(const std::string& repository, const RepositoryOptions& options) {
  const Source source = resolve_source(repository, options);
  const Listing listing = fetch_listing(source);
  PulledRepository result;
  result.commit = listing.commit;
  const std::vector<RemoteFile> files =
      choose_files(listing, options.file, source.repository, result.skipped);
  for (const RemoteFile& file : files) result.total_bytes += file.size;

  std::string folder = "models--" + source.repository;
  folder.replace(folder.find('/'), 1, "--");
  const fs::path root = source.cache / folder;
  make_folder(root / "blobs");
  result.snapshot = root / "snapshots" / listing.commit;
  make_folder(result.snapshot);

  std::uint64_t finished_bytes = 0;
  for (const RemoteFile& file : files) {
    const auto report = [&](std::uint64_t done) {
      if (options.progress) options.progress({file.name, finished_bytes + done, result.total_bytes});
    };
    const fs::path blob = root / "blobs" / file.blob_name();
    if (!is_present(blob, file.size)) {
      const FileLock lock(source.cache / ".locks" / folder / (file.blob_name() + ".lock"), options.cancel);
      // Another process may have brought it while this one waited.
      if (!is_present(blob, file.size)) {
        DownloadRequest request;
        request.url = source.endpoint + "/" + source.repository + "/resolve/" + listing.commit + "/" +
                      url_encode(file.name, "/");
        request.path = blob;
        request.size = file.size;
        request.sha256 = file.sha256;
        request.git_sha1 = file.git_sha1;
        request.http = source.http;
        request.progress = report;
        try {
          result.downloaded_bytes += download_file(request);
        } catch (const Error& error) {
          explain_refusal(error, source);
        }
      }
    }
    report(file.size);
    finished_bytes += file.size;
    link_to_blob(result.snapshot / file.name, file.name, file.blob_name());
    result.files.push_back(file.name);
  }
  // Last, so that a revision never points at a snapshot with files missing.
  if (source.revision != listing.commit) {
    const fs::path ref = root / "refs" / source.revision;
    make_folder(ref.parent_path());
    base::write_file_atomically(ref, listing.commit);
  }
  return result;
}

}  // namespace artifacts

std::string pull(const std::string& name, const PullOptions& options,
                 const std::function<void(const PullProgress&)>& on_progress, std::stop_token cancel) {
  // pip draws the progress bar of the default model.
  if (name == "default") return artifacts::fetch_default_model(options.notice, cancel).string();
  artifacts::RepositoryOptions request;
  request.endpoint = options.endpoint;
  request.revision = options.revision;
  request.file = options.file;
  request.progress = on_progress;
  request.cancel = std::move(cancel);
  const artifacts::PulledRepository pulled = artifacts::pull_repository(name, request);
  if (options.notice) {
    for (const artifacts::SkippedFile& file : pulled.skipped) {
      options.notice("skipped " + file.name + ": " + file.reason);
    }
  }
  return pulled.snapshot.string();
}

}  // namespace tessera
