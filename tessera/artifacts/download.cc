#include "tessera/artifacts/download.h"

#include <fcntl.h>
#include <httplib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <exception>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>

#include "tessera/artifacts/digest.h"
#include "tessera/artifacts/file_lock.h"
#include "tessera/base/check.h"

namespace tessera::artifacts {
namespace {

constexpr int kMaxRedirects = 10;
// Bodies of error pages and redirects are not read beyond this.
constexpr std::size_t kMaxIgnoredBody = 64U * 1024U;

std::string lower_case(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

/// The parts of an http or https URL that decide where a request goes.
struct Url {
  std::string origin;  // scheme://host:port in lower case, the port always there
  std::string target;  // path and query, without a fragment

  bool is_https() const { return origin.rfind("https:", 0) == 0; }
};

/// Throws InvalidArgument for anything but an absolute http or https URL.
Url parse_url(const std::string& text) {
  const auto refuse = [&](const char* what) {
    base::fail_argument("[download.url] ", text, ": ", what,
                        "; expected http://host/... or https://host/...");
  };
  const std::size_t scheme_end = text.find("://");
  const std::string scheme = lower_case(text.substr(0, std::min(scheme_end, text.size())));
  if (scheme_end == std::string::npos || (scheme != "http" && scheme != "https")) refuse("unknown scheme");
  const std::size_t host_begin = scheme_end + 3;
  const std::size_t host_end = std::min(text.find_first_of("/?#", host_begin), text.size());
  std::string host = lower_case(text.substr(host_begin, host_end - host_begin));
  if (host.empty() || host.find('@') != std::string::npos) refuse("no plain host name");
  // A colon inside brackets belongs to an IPv6 address.
  if (host.find(':', host.find(']') == std::string::npos ? 0 : host.find(']')) == std::string::npos) {
    host += scheme == "https" ? ":443" : ":80";
  }
  const std::size_t fragment = std::min(text.find('#', host_end), text.size());
  std::string target = text.substr(host_end, fragment - host_end);
  if (target.empty() || target.front() != '/') target.insert(target.begin(), '/');
  return {scheme + "://" + host, target};
}

/// The URL a Location header stands for.
Url resolve_redirect(const Url& from, const std::string& location) {
  if (location.find("://") != std::string::npos) return parse_url(location);
  if (location.rfind("//", 0) == 0) return parse_url((from.is_https() ? "https:" : "http:") + location);
  if (location.rfind('/', 0) == 0) return {from.origin, location.substr(0, location.find('#'))};
  const std::string path = from.target.substr(0, from.target.find('?'));
  return {from.origin, path.substr(0, path.rfind('/') + 1) + location.substr(0, location.find('#'))};
}

/// What came back from one attempt. `failure` says why trying again may help, or is empty.
struct Answer {
  int status = 0;  // 0: no answer arrived
  httplib::Headers headers;
  std::string failure;

  std::string header(const char* name) const {
    const auto found = headers.find(name);
    return found == headers.end() ? "" : found->second;
  }
};

using HeadHandler = std::function<void(const Answer&)>;
using BodySink = std::function<void(std::string_view)>;

[[noreturn]] void fail_cancelled(const std::string& url) {
  base::fail(ErrorKind::kCancelled, "[download.get] ", url, ": cancelled");
}

/// What the server says about a refusal, made fit for one line.
std::string server_message(const Answer& answer) {
  std::string message = answer.header("X-Error-Message").substr(0, 300);
  std::replace_if(
      message.begin(), message.end(), [](unsigned char c) { return std::iscntrl(c) != 0; }, ' ');
  return message.empty() ? "" : " (" + message + ")";
}

/// One request to one origin, no redirects. Exceptions of `head` and `sink` pass through.
Answer request_once(const Url& url, const httplib::Headers& headers, const HttpOptions& options,
                    const HeadHandler& head, const BodySink& sink) {
  httplib::Client client(url.origin);
  if (!client.is_valid()) {
    base::fail_argument("[download.url] ", url.origin, ": expected a host name and a port");
  }
  const auto seconds = [](double s) { return std::chrono::microseconds(static_cast<int64_t>(s * 1e6)); };
  client.set_connection_timeout(seconds(options.connect_timeout_s));
  client.set_read_timeout(seconds(options.read_timeout_s));
  client.set_write_timeout(seconds(options.read_timeout_s));
  client.set_follow_location(false);
  client.set_url_encode(false);  // our URLs are encoded, and a signed one must not change
  const std::stop_callback close_on_cancel(options.cancel, [&client] { client.stop(); });

  Answer answer;
  std::exception_ptr thrown;
  std::size_t ignored = 0;
  // httplib must not see our exceptions: it would leave its socket half read.
  const auto guarded = [&thrown](const auto& step) {
    try {
      step();
    } catch (...) {
      thrown = std::current_exception();
      return false;
    }
    return true;
  };
  const auto result = client.Get(
      url.target, headers,
      [&](const httplib::Response& response) {
        answer.status = response.status;
        answer.headers = response.headers;
        return guarded([&] {
          if (response.status / 100 == 2) head(answer);
        });
      },
      [&](const char* data, std::size_t size) {
        if (answer.status / 100 != 2) return (ignored += size) <= kMaxIgnoredBody;
        return guarded([&] { sink({data, size}); });
      });
  if (thrown) std::rethrow_exception(thrown);
  const bool is_complete = result.error() == httplib::Error::Success;
  if (!is_complete && (answer.status == 0 || answer.status / 100 == 2)) {
    answer.failure = answer.status == 0 ? "no answer (" + httplib::to_string(result.error()) + ")"
                                        : "the connection was lost or stalled";
  }
  return answer;
}

/// One attempt: the request and the redirects it leads to. Throws Cancelled, and InvalidArgument for
/// an answer that trying again cannot change, 416 (Range Not Satisfiable) excepted.
Answer request_with_redirects(const std::string& url_text, const httplib::Headers& headers,
                              const HttpOptions& options, const HeadHandler& head, const BodySink& sink) {
  const Url first = parse_url(url_text);
  Url url = first;
  for (int i = 0; i <= kMaxRedirects; ++i) {
    if (options.cancel.stop_requested()) fail_cancelled(url_text);
    httplib::Headers sent = headers;
    sent.emplace("User-Agent", "tessera");
    sent.emplace("Accept-Encoding", "identity");  // sizes and ranges are those of the file
    if (!options.token.empty() && url.origin == first.origin) {
      sent.emplace("Authorization", "Bearer " + options.token);
    }
    Answer answer = request_once(url, sent, options, head, sink);
    if (options.cancel.stop_requested()) fail_cancelled(url_text);
    const std::string location = answer.header("Location");
    const bool is_redirect = answer.status / 100 == 3 && answer.status != 304 && !location.empty();
    if (is_redirect) {
      const Url next = resolve_redirect(url, location);
      if (url.is_https() && !next.is_https()) {
        base::fail_argument("[download.get] ", url_text, ": redirected from https to ", next.origin,
                            "; expected https");
      }
      url = next;
      continue;
    }
    if (answer.status == 429 || answer.status >= 500) {
      answer.failure = base::concat("HTTP ", answer.status, server_message(answer));
    } else if (answer.failure.empty() && answer.status != 416 && answer.status / 100 != 2) {
      base::fail_argument("[download.get] ", url_text, ": HTTP ", answer.status, server_message(answer));
    }
    return answer;
  }
  base::fail_argument("[download.get] ", url_text, ": more than ", kMaxRedirects, " redirects");
}

/// Counts attempts and pauses between them.
class Attempts {
 public:
  Attempts(const std::string& url, const HttpOptions& options)
      : url_(url), options_(options), pause_s_(options.retry_pause_s) {}

  /// Sleeps before the next attempt, or throws ResourceExhausted when there is none left.
  void next(const std::string& failure) {
    if (++n_done_ >= options_.attempts) {
      base::fail(ErrorKind::kResourceExhausted, "[download.get] ", url_, ": ", failure, " after ", n_done_,
                 n_done_ == 1 ? " attempt" : " attempts", "; try again, a download goes on where it stopped");
    }
    const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(pause_s_);
    while (std::chrono::steady_clock::now() < end) {
      if (options_.cancel.stop_requested()) fail_cancelled(url_);
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    pause_s_ *= 2;
  }

  /// The last attempt brought something new: the next failure is the first again.
  void reset() {
    n_done_ = 0;
    pause_s_ = options_.retry_pause_s;
  }

 private:
  const std::string& url_;
  const HttpOptions& options_;
  double pause_s_;
  int n_done_ = 0;
};

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
void begin_body(const Answer& answer, const DownloadRequest& request, PartialFile& partial) {
  if (answer.status != 206) {
    if (partial.size() > 0) partial.restart();
    const std::string length = answer.header("Content-Length");
    if (request.size && !length.empty() && length != std::to_string(*request.size)) {
      partial.remove();
      base::fail_artifact("[download.size] ", request.url, ": expected ", *request.size,
                          " bytes, the server announces ", length);
    }
    return;
  }
  const std::string expected = base::concat("bytes ", partial.size(), "-");
  const std::string range = answer.header("Content-Range");
  if (range.rfind(expected, 0) != 0) {
    partial.remove();  // or every later attempt would end here too
    base::fail_artifact("[download.resume] ", request.url, ": Content-Range '", range, "'; expected '",
                        expected, "...'");
  }
}

}  // namespace

std::string http_get(const std::string& url, const HttpOptions& options, std::uint64_t max_bytes) {
  Attempts attempts(url, options);
  while (true) {
    std::string body;
    const Answer answer = request_with_redirects(
        url, {}, options, [](const Answer&) {},
        [&](std::string_view bytes) {
          if (bytes.size() > max_bytes - body.size()) {
            base::fail_artifact("[download.get] ", url, ": the answer is longer than ", max_bytes, " bytes");
          }
          body.append(bytes);
        });
    if (answer.failure.empty()) return body;
    attempts.next(answer.failure);
  }
}

std::uint64_t download_file(const DownloadRequest& request) {
  PartialFile partial(request);
  check_disk_space(request, partial.size());
  Attempts attempts(request.url, request.http);
  std::uint64_t received = 0;
  std::uint64_t furthest = partial.size();
  bool is_resumed = partial.size() > 0;
  while (true) {
    const bool is_whole = request.size && partial.size() == *request.size;
    if (!is_whole) {
      httplib::Headers headers;
      if (partial.size() > 0) headers.emplace("Range", base::concat("bytes=", partial.size(), "-"));
      const Answer answer = request_with_redirects(
          request.url, headers, request.http,
          [&](const Answer& head) {
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

std::string url_encode(const std::string& text, const std::string& kept) {
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  constexpr std::string_view kUnreserved = "-._~";
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    const bool is_alphanumeric = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    if (is_alphanumeric || kUnreserved.find(c) != std::string_view::npos ||
        kept.find(c) != std::string::npos) {
      out.push_back(c);
    } else {
      out.push_back('%');
      out.push_back(kDigits[byte >> 4U]);
      out.push_back(kDigits[byte & 15U]);
    }
  }
  return out;
}

}  // namespace tessera::artifacts
