#include "tessera/artifacts/http.h"

#include <httplib.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <chrono>
#include <cstddef>
#include <exception>
#include <string_view>
#include <system_error>
#include <thread>

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

/// Whether `host`, in lower case, is a name or an address, with a port or without. What is none would
/// only fail as a host that cannot be reached.
bool is_host(std::string_view host) {
  constexpr std::string_view kDigits = "0123456789";
  const bool is_ipv6 = host.starts_with('[');
  const std::size_t end = is_ipv6 ? host.find(']') + 1 : std::min(host.find(':'), host.size());
  const std::string_view name = host.substr(0, end);
  const std::string_view inner = is_ipv6 && !name.empty() ? name.substr(1, name.size() - 2) : name;
  const std::string_view allowed = is_ipv6 ? "0123456789abcdef:." : "0123456789abcdefghijklmnopqrstuvwxyz-._";
  if (inner.empty() || inner.find_first_not_of(allowed) != std::string_view::npos) return false;
  if (end == host.size()) return true;
  const std::string_view port = host.substr(end + 1);
  int number = 0;
  const auto result = std::from_chars(port.data(), port.data() + port.size(), number);
  return host[end] == ':' && !port.empty() && port.find_first_not_of(kDigits) == std::string_view::npos &&
         result.ec == std::errc() && number >= 1 && number <= 65535;
}

/// Throws InvalidArgument for anything but an absolute http or https URL.
Url parse_url(const std::string& text) {
  const auto refuse = [&](const char* what) {
    base::fail_argument("[http.url] ", text, ": ", what, "; expected http://host/... or https://host/...");
  };
  const std::size_t scheme_end = text.find("://");
  const std::string scheme = lower_case(text.substr(0, std::min(scheme_end, text.size())));
  if (scheme_end == std::string::npos || (scheme != "http" && scheme != "https")) refuse("unknown scheme");
  const std::size_t host_begin = scheme_end + 3;
  const std::size_t host_end = std::min(text.find_first_of("/?#", host_begin), text.size());
  std::string host = lower_case(text.substr(host_begin, host_end - host_begin));
  if (host.empty() || host.find('@') != std::string::npos) refuse("no plain host name");
  if (!is_host(host)) refuse("expected a host name or address, and a port from 1 to 65535 if any");
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

[[noreturn]] void fail_cancelled(const std::string& url) {
  base::fail(ErrorKind::kCancelled, "[http.get] ", url, ": cancelled");
}

/// What the server says about a refusal, made fit for one line.
std::string server_message(const HttpAnswer& answer) {
  std::string message = answer.header("x-error-message").substr(0, 300);
  std::replace_if(
      message.begin(), message.end(), [](unsigned char c) { return std::iscntrl(c) != 0; }, ' ');
  return message.empty() ? "" : " (" + message + ")";
}

/// Why no answer arrived.
std::string transport_failure(httplib::Error error) {
  switch (error) {
    case httplib::Error::Connection: return "cannot connect (host name, network or port)";
    case httplib::Error::ConnectionTimeout: return "connecting took too long";
    case httplib::Error::SSLConnection: return "the TLS handshake failed";
    case httplib::Error::Read: return "no answer in time, or the connection was closed";
    default: return "no answer (" + httplib::to_string(error) + ")";
  }
}

/// One request to one origin, no redirects. Exceptions of `head` and `sink` pass through.
HttpAnswer request_once(const Url& url, const httplib::Headers& headers, const HttpOptions& options,
                        const HttpHead& head, const HttpBody& sink) {
  httplib::Client client(url.origin);
  if (!client.is_valid()) {
    base::fail_argument("[http.url] ", url.origin, ": expected a host name and a port");
  }
  const auto seconds = [](double s) { return std::chrono::microseconds(static_cast<int64_t>(s * 1e6)); };
  client.set_connection_timeout(seconds(options.connect_timeout_s));
  client.set_read_timeout(seconds(options.read_timeout_s));
  client.set_write_timeout(seconds(options.read_timeout_s));
  client.set_follow_location(false);
  client.set_url_encode(false);  // our URLs are encoded, and a signed one must not change
  const std::stop_callback close_on_cancel(options.cancel, [&client] { client.stop(); });

  HttpAnswer answer;
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
        for (const auto& [name, value] : response.headers) answer.headers.emplace(lower_case(name), value);
        return guarded([&] {
          if (response.status / 100 == 2) head(answer);
        });
      },
      [&](const char* data, std::size_t size) {
        if (answer.status / 100 != 2) return (ignored += size) <= kMaxIgnoredBody;
        return guarded([&] { sink({data, size}); });
      });
  if (thrown) std::rethrow_exception(thrown);
  const httplib::Error error = result.error();
  if (error == httplib::Error::SSLServerVerification || error == httplib::Error::SSLLoadingCerts) {
    base::fail_argument("[http.tls] ", url.origin,
                        ": the server's certificate is not trusted by this machine");
  }
  if (error != httplib::Error::Success) {
    if (answer.status == 0) {
      answer.failure = transport_failure(error);
    } else if (answer.status / 100 == 2) {
      answer.failure = "the connection was lost or stalled";
    }
  }
  return answer;
}

}  // namespace

std::string HttpAnswer::header(const std::string& name) const {
  const auto found = headers.find(name);
  return found == headers.end() ? "" : found->second;
}

HttpAnswer http_request(const std::string& url_text, std::uint64_t range_begin, const HttpOptions& options,
                        const HttpHead& head, const HttpBody& sink) {
  const Url first = parse_url(url_text);
  Url url = first;
  for (int i = 0; i <= kMaxRedirects; ++i) {
    if (options.cancel.stop_requested()) fail_cancelled(url_text);
    httplib::Headers sent;
    if (range_begin > 0) sent.emplace("Range", base::concat("bytes=", range_begin, "-"));
    sent.emplace("User-Agent", "tessera");
    sent.emplace("Accept-Encoding", "identity");  // sizes and ranges are those of the file
    if (!options.token.empty() && url.origin == first.origin) {
      sent.emplace("Authorization", "Bearer " + options.token);
    }
    HttpAnswer answer = request_once(url, sent, options, head, sink);
    if (options.cancel.stop_requested()) fail_cancelled(url_text);
    const std::string location = answer.header("location");
    const bool is_redirect = answer.status / 100 == 3 && answer.status != 304 && !location.empty();
    if (is_redirect) {
      const Url next = resolve_redirect(url, location);
      if (url.is_https() && !next.is_https()) {
        base::fail_argument("[http.get] ", url_text, ": redirected from https to ", next.origin,
                            "; expected https");
      }
      url = next;
      continue;
    }
    if (answer.status == 429 || answer.status >= 500) {
      answer.failure = base::concat("HTTP ", answer.status, server_message(answer));
    } else if (answer.failure.empty() && answer.status != 416 && answer.status / 100 != 2) {
      base::fail_argument("[http.get] ", url_text, ": HTTP ", answer.status, server_message(answer));
    }
    return answer;
  }
  base::fail_argument("[http.get] ", url_text, ": more than ", kMaxRedirects, " redirects");
}

HttpAttempts::HttpAttempts(const std::string& url, const HttpOptions& options)
    : url_(url), options_(options), pause_s_(options.retry_pause_s) {}

void HttpAttempts::next(const std::string& failure) {
  if (++n_done_ >= options_.attempts) {
    base::fail(ErrorKind::kResourceExhausted, "[http.get] ", url_, ": ", failure, " after ", n_done_,
               n_done_ == 1 ? " attempt" : " attempts", "; try again, a download goes on where it stopped");
  }
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(pause_s_);
  while (std::chrono::steady_clock::now() < end) {
    if (options_.cancel.stop_requested()) fail_cancelled(url_);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  pause_s_ *= 2;
}

void HttpAttempts::reset() {
  n_done_ = 0;
  pause_s_ = options_.retry_pause_s;
}

std::string http_get(const std::string& url, const HttpOptions& options, std::uint64_t max_bytes) {
  HttpAttempts attempts(url, options);
  while (true) {
    std::string body;
    const HttpAnswer answer = http_request(
        url, 0, options, [](const HttpAnswer&) {},
        [&](std::string_view bytes) {
          if (bytes.size() > max_bytes - body.size()) {
            base::fail_artifact("[http.get] ", url, ": the answer is longer than ", max_bytes, " bytes");
          }
          body.append(bytes);
        });
    if (answer.failure.empty()) return body;
    attempts.next(answer.failure);
  }
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
