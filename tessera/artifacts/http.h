// HTTP and HTTPS as a client: one attempt with its redirects, and the rules for trying again.
// Files on disk are the business of download.h.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <stop_token>
#include <string>
#include <string_view>

namespace tessera::artifacts {

/// How to talk to a server.
struct HttpOptions {
  std::string token;  // bearer token; dropped when a redirect leaves the scheme, host and port asked
  double connect_timeout_s = 20.0;
  double read_timeout_s = 60.0;  // longest silence before the connection counts as lost
  int attempts = 5;              // for lost connections and answers 429 and 5xx, with growing pauses
  double retry_pause_s = 0.5;    // before the second attempt; doubles each time
  std::stop_token cancel;        // closes the connection at once
};

/// What came back from one attempt. `failure` says why trying again may help, or is empty.
struct HttpAnswer {
  int status = 0;                              // 0: no answer arrived
  std::map<std::string, std::string> headers;  // names in lower case
  std::string failure;

  /// The value of a header by its lower-case name, or "".
  std::string header(const std::string& name) const;
};

/// Called with the head of a 2xx answer, before its body.
using HttpHead = std::function<void(const HttpAnswer&)>;
/// Called with each part of the body of a 2xx answer. Exceptions of both pass through the request.
using HttpBody = std::function<void(std::string_view bytes)>;

/// One attempt to GET a URL, redirects followed. `range_begin` > 0 asks for the bytes from there on.
/// An answer 416 (Range Not Satisfiable) is returned; `failure` is set for a lost connection and for
/// answers 429 and 5xx. Throws, always naming the URL: InvalidArgument for a malformed URL, other 4xx
/// answers, too many redirects and one from https to http; Cancelled.
HttpAnswer http_request(const std::string& url, std::uint64_t range_begin, const HttpOptions& options,
                        const HttpHead& head, const HttpBody& body);

/// Counts attempts and pauses between them. Keeps references to its arguments.
class HttpAttempts {
 public:
  HttpAttempts(const std::string& url, const HttpOptions& options);

  /// Sleeps before the next attempt. Throws ResourceExhausted with `failure` when there is none left,
  /// and Cancelled.
  void next(const std::string& failure);
  /// The last attempt brought something new: the next failure is the first again.
  void reset();

 private:
  const std::string& url_;
  const HttpOptions& options_;
  double pause_s_;
  int n_done_ = 0;
};

/// The body of a small document. Throws as http_request, ResourceExhausted when the server cannot be
/// reached, stalls, answers 429 or 5xx, and InvalidArtifact when the body is longer than `max_bytes`.
std::string http_get(const std::string& url, const HttpOptions& options, std::uint64_t max_bytes);

/// `text` with everything but unreserved characters and `kept` percent-encoded.
std::string url_encode(const std::string& text, const std::string& kept = "");

}  // namespace tessera::artifacts
