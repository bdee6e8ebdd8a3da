// A small Hugging Face endpoint on the loopback interface, for the tests of downloads. It serves
// what a test puts into it, misbehaves on request, and remembers what it was asked.
#pragma once

#include <httplib.h>

#include <atomic>
#include <chrono>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "tessera/artifacts/digest.h"

namespace tessera::artifacts {

/// An HTTP server on a free port of 127.0.0.1, stopped by the destructor.
class LoopbackServer {
 public:
  LoopbackServer() : port_(server.bind_to_any_port("127.0.0.1")) {}
  ~LoopbackServer() { stop(); }

  /// Begins to answer; handlers are set before.
  void start() {
    thread_ = std::thread([this] { server.listen_after_bind(); });
    while (!server.is_running()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  void stop() {
    if (!thread_.joinable()) return;
    server.stop();
    thread_.join();
  }
  std::string url() const { return "http://127.0.0.1:" + std::to_string(port_); }

  httplib::Server server;

 private:
  int port_;
  std::thread thread_;
};

inline std::string sha256_of(const std::string& content) {
  Digest digest = Digest::sha256();
  digest.update(content);
  return digest.hex();
}

inline std::string git_blob_of(const std::string& content) {
  Digest digest = Digest::git_blob(content.size());
  digest.update(content);
  return digest.hex();
}

/// Pseudo-random bytes, so that a shifted or repeated part cannot pass for the right one.
inline std::string noise(std::size_t size, uint32_t seed = 1) {
  std::string out(size, '\0');
  for (char& c : out) {
    seed = seed * 1664525U + 1013904223U;
    c = static_cast<char>(seed >> 24U);
  }
  return out;
}

class FakeHub {
 public:
  struct File {
    std::string content;
    bool is_large = false;  // in large-file storage: hashed with SHA-256, served by the second host
  };
  struct Request {
    std::string path;
    std::string authorization;
    std::string range;
    bool is_second_host = false;
  };

  FakeHub() {
    const auto log = [this](bool is_second_host) {
      return [this, is_second_host](const httplib::Request& request, httplib::Response&) {
        const std::lock_guard lock(mutex_);
        requests_.push_back({request.path, request.get_header_value("Authorization"),
                             request.get_header_value("Range"), is_second_host});
        return httplib::Server::HandlerResponse::Unhandled;
      };
    };
    hub_.server.set_pre_routing_handler(log(false));
    storage_.server.set_pre_routing_handler(log(true));
    hub_.server.Get(R"(/api/models/org/name/revision/(.+))",
                    [this](const auto& request, auto& response) { answer_listing(request, response); });
    hub_.server.Get(R"(/org/name/resolve/([^/]+)/(.+))", [this](const auto& request, auto& response) {
      answer_file(request.matches[1], request.matches[2], response);
    });
    storage_.server.Get(R"(/blob/(.+))",
                        [this](const auto& request, auto& response) { serve(request.matches[1], response); });
    hub_.start();
    storage_.start();
  }
  ~FakeHub() { is_stalling = false; }

  std::string url() const { return hub_.url(); }
  std::string second_url() const { return storage_.url(); }

  std::vector<Request> requests() const {
    const std::lock_guard lock(mutex_);
    return requests_;
  }
  /// Requests whose path contains `part`.
  std::vector<Request> requests(const std::string& part) const {
    std::vector<Request> found;
    for (const Request& request : requests()) {
      if (request.path.find(part) != std::string::npos) found.push_back(request);
    }
    return found;
  }

  // What a test sets, before the pull that it is meant for.
  std::string commit = std::string(40, 'a');
  std::map<std::string, File> files;
  std::string token;                         // when set, requests to the hub need it
  std::map<std::string, std::string> lie;    // file -> content served instead of the listed one
  std::string missing;                       // a file that is listed and answered 404
  std::atomic<int> cuts = 0;                 // so many transfers end in the middle of the file
  std::atomic<int> busy = 0;                 // so many requests for files are answered 503
  std::atomic<bool> is_stalling = false;     // transfers stop in the middle and keep the connection
  std::atomic<bool> ignores_ranges = false;  // and states no length
  std::string listing_override;              // served as it is instead of the listing

 private:
  void answer_listing(const httplib::Request& request, httplib::Response& response) {
    const std::string revision = request.matches[1];
    if (!token.empty() && request.get_header_value("Authorization") != "Bearer " + token) {
      response.status = 401;
      response.set_header("X-Error-Message", "Access to model org/name is restricted.");
      return;
    }
    if (revision != "main" && revision != "refs/pr/1" && revision != commit) {
      response.status = 404;
      return;
    }
    if (!listing_override.empty()) {
      response.set_content(listing_override, "application/json");
      return;
    }
    nlohmann::json siblings = nlohmann::json::array();
    for (const auto& [name, file] : files) {
      nlohmann::json entry = {{"rfilename", name}, {"size", file.content.size()}};
      entry["blobId"] = git_blob_of(file.is_large ? "pointer to " + name : file.content);
      if (file.is_large) {
        entry["lfs"] = {{"sha256", sha256_of(file.content)}, {"size", file.content.size()}};
      }
      siblings.push_back(entry);
    }
    response.set_content(nlohmann::json{{"sha", commit}, {"siblings", siblings}}.dump(), "application/json");
  }

  void answer_file(const std::string& revision, const std::string& name, httplib::Response& response) {
    if (busy > 0) {
      --busy;
      response.status = 503;
    } else if (revision != commit || name == missing || files.count(name) == 0) {
      response.status = 404;
    } else if (files[name].is_large) {
      response.set_redirect(storage_.url() + "/blob/" + name, 302);
    } else {
      serve(name, response);
    }
  }

  void serve(const std::string& name, httplib::Response& response) {
    const std::string content = lie.count(name) != 0 ? lie[name] : files[name].content;
    if (ignores_ranges) {
      response.status = 200;
      response.set_chunked_content_provider("application/octet-stream",
                                            [content](std::size_t, httplib::DataSink& sink) {
                                              sink.write(content.data(), content.size());
                                              sink.done();
                                              return true;
                                            });
      return;
    }
    response.set_content_provider(
        content.size(), "application/octet-stream",
        [this, content](std::size_t offset, std::size_t length, httplib::DataSink& sink) {
          const std::size_t middle = content.size() / 2;
          const bool is_cut = cuts > 0;
          if (!is_cut && !is_stalling) return sink.write(content.data() + offset, length);
          if (offset < middle) sink.write(content.data() + offset, std::min(length, middle - offset));
          if (is_cut) --cuts;
          while (is_stalling) std::this_thread::sleep_for(std::chrono::milliseconds(5));
          return false;  // closes the connection
        });
  }

  mutable std::mutex mutex_;
  std::vector<Request> requests_;
  LoopbackServer storage_;
  LoopbackServer hub_;
};

}  // namespace tessera::artifacts
