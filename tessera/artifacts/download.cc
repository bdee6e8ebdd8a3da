#include "tessera/artifacts/download.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string_view>
#include <system_error>

#include "tessera/artifacts/digest.h"
#include "tessera/artifacts/file_lock.h"
#include "tessera/base/check.h"

namespace tessera::artifacts {
namespace {

/// The file that a download grows, with the running hash of its content.
class PartialFile {
 public:
  explicit PartialFile(const DownloadRequest& request)
      : request_(request),
        path_(request.path.string() + ".incomplete"),
        file_(::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644)) {
    struct stat status {};
    if (file_.get() < 0 || ::fstat(file_.get(), &status) != 0) refuse("open");
    size_ = static_cast<std::uint64_t>(status.st_size);
    if (size_ > 0 && request_.size && size_ > *request_.size) {
      restart();
    } else {
      begin_digest();
      if (digest_) update_from_file(*digest_, file_.get(), size_, path_);
    }
  }

  std::uint64_t size() const { return size_; }

  void append(std::string_view bytes) {
    if (request_.size && bytes.size() > *request_.size - size_) {
      remove();
      base::fail_artifact("[download.size] ", request_.url, ": more bytes than the ", *request_.size,
                          " announced");
    }
    std::size_t done = 0;
    while (done < bytes.size()) {
      const ssize_t n =
          ::pwrite(file_.get(), bytes.data() + done, bytes.size() - done, static_cast<off_t>(size_ + done));
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) refuse("write");
      done += static_cast<std::size_t>(n);
    }
    size_ += bytes.size();
    if (digest_) digest_->update(bytes);
  }

  /// Throws the content away.
  void restart() {
    if (::ftruncate(file_.get(), 0) != 0) refuse("truncate");
    size_ = 0;
    begin_digest();
  }

  void remove() { ::unlink(path_.c_str()); }

  /// "" when the content is what the request expects, else what differs.
  std::string difference() {
    if (request_.size && size_ != *request_.size) {
      return base::concat("expected ", *request_.size, " bytes, got ", size_);
    }
    if (!digest_) return "";
    const std::string& expected = request_.sha256.empty() ? request_.git_sha1 : request_.sha256;
    const std::string actual = digest_->hex();
    digest_.reset();
    if (actual == expected) return "";
    return (request_.sha256.empty() ? "expected Git blob " : "expected SHA-256 ") + expected + ", got " +
           actual;
  }

  /// Gives the file its name, after its bytes have reached the disk.
  void finish() {
    if (::fsync(file_.get()) != 0 || ::rename(path_.c_str(), request_.path.c_str()) != 0) refuse("rename");
  }

 private:
  void begin_digest() {
    digest_.reset();
    if (!request_.sha256.empty()) {
      digest_.emplace(Digest::sha256());
    } else if (!request_.git_sha1.empty()) {
      TESSERA_CHECK(request_.size.has_value());
      digest_.emplace(Digest::git_blob(*request_.size));
    }
  }

  [[noreturn]] void refuse(const char* step) const {
    base::fail(ErrorKind::kResourceExhausted, "[download.write] ", path_, ": ", step, ": ",
               std::strerror(errno));
  }

  const DownloadRequest& request_;
  std::string path_;
  FileHandle file_;
  std::uint64_t size_ = 0;
  std::optional<Digest> digest_;
};

void check_disk_space(const DownloadRequest& request, std::uint64_t present) {
  std::error_code error;
  const auto space = std::filesystem::space(request.path.parent_path(), error);
  if (error || !request.size || space.available >= *request.size - std::min(present, *request.size)) return;
  base::fail(ErrorKind::kResourceExhausted, "[download.space] ", request.path.parent_path().string(), ": ",
             *request.size - present, " bytes are still to come for ", request.url, ", ", space.available,
             " are free");
}

/// Prepares the partial file for the body that an answer announces.
void begin_body(const HttpAnswer& answer, const DownloadRequest& request, PartialFile& partial) {
  if (answer.status != 206) {
    if (partial.size() > 0) partial.restart();
    const std::string length = answer.header("content-length");
    if (request.size && !length.empty() && length != std::to_string(*request.size)) {
      partial.remove();
      base::fail_artifact("[download.size] ", request.url, ": expected ", *request.size,
                          " bytes, the server announces ", length);
    }
    return;
  }
  const std::string expected = base::concat("bytes ", partial.size(), "-");
  const std::string range = answer.header("content-range");
  if (range.rfind(expected, 0) != 0) {
    partial.remove();  // or every later attempt would end here too
    base::fail_artifact("[download.resume] ", request.url, ": Content-Range '", range, "'; expected '",
                        expected, "...'");
  }
}

}  // namespace

std::uint64_t download_file(const DownloadRequest& request) {
  PartialFile partial(request);
  check_disk_space(request, partial.size());
  HttpAttempts attempts(request.url, request.http);
  std::uint64_t received = 0;
  std::uint64_t furthest = partial.size();
  bool is_resumed = partial.size() > 0;
  while (true) {
    const bool is_whole = request.size && partial.size() == *request.size;
    if (!is_whole) {
      const HttpAnswer answer = http_request(
          request.url, partial.size(), request.http,
          [&](const HttpAnswer& head) {
            begin_body(head, request, partial);
            is_resumed = is_resumed && head.status == 206;
          },
          [&](std::string_view bytes) {
            partial.append(bytes);
            received += bytes.size();
            if (request.progress) request.progress(partial.size());
          });
      if (answer.status == 416) {
        // The partial file does not fit the file on the server: begin anew, once.
        if (partial.size() == 0) attempts.next("HTTP 416 for the whole file");
        partial.restart();
        is_resumed = false;
        continue;
      }
      if (!answer.failure.empty()) {
        if (partial.size() > furthest) attempts.reset();
        furthest = std::max(furthest, partial.size());
        attempts.next(answer.failure);
        continue;
      }
    }
    const std::string difference = partial.difference();
    if (difference.empty()) break;
    if (is_resumed) {
      // What lay there may have been of another version of the file.
      partial.restart();
      is_resumed = false;
      continue;
    }
    partial.remove();
    base::fail_artifact("[download.verify] ", request.url, ": ", difference);
  }
  partial.finish();
  return received;
}

}  // namespace tessera::artifacts
