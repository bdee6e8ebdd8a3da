#include "tests/system/subprocess.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <stdexcept>
#include <system_error>

extern char** environ;

namespace tessera::test {
namespace {

using Clock = std::chrono::steady_clock;

void check(int error, const char* what) {
  if (error != 0) throw std::system_error(error, std::generic_category(), what);
}

void open_pipe(int (&ends)[2]) {
  if (pipe2(ends, O_CLOEXEC) != 0) check(errno, "pipe2");
}

void close_end(int& end) {
  if (end >= 0) close(end);
  end = -1;
}

std::vector<std::string> merged_environment(const std::vector<std::string>& changes) {
  std::vector<std::string> merged = changes;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    const std::string name = text.substr(0, text.find('=') + 1);
    const bool is_changed = std::any_of(changes.begin(), changes.end(),
                                        [&](const auto& change) { return change.starts_with(name); });
    if (!is_changed) merged.push_back(text);
  }
  return merged;
}

std::vector<char*> pointers(std::vector<std::string>& strings) {
  std::vector<char*> result;
  for (std::string& text : strings) result.push_back(text.data());
  result.push_back(nullptr);
  return result;
}

}  // namespace

Subprocess::Subprocess(const std::vector<std::string>& argv, const std::vector<std::string>& environment,
                       const std::string& out_path) {
  std::signal(SIGPIPE, SIG_IGN);  // a program that reads no input must not end the test
  int in[2], out[2], err[2];
  open_pipe(in);
  open_pipe(out);
  open_pipe(err);
  posix_spawn_file_actions_t actions;
  check(posix_spawn_file_actions_init(&actions), "file actions");
  posix_spawn_file_actions_adddup2(&actions, in[0], STDIN_FILENO);
  if (out_path.empty()) {
    posix_spawn_file_actions_adddup2(&actions, out[1], STDOUT_FILENO);
  } else {
    posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, out_path.c_str(), O_WRONLY, 0);
  }
  posix_spawn_file_actions_adddup2(&actions, err[1], STDERR_FILENO);

  posix_spawnattr_t attributes;
  check(posix_spawnattr_init(&attributes), "spawn attributes");
  sigset_t defaults;
  sigemptyset(&defaults);
  sigaddset(&defaults, SIGINT);
  sigaddset(&defaults, SIGPIPE);
  posix_spawnattr_setsigdefault(&attributes, &defaults);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF);

  std::vector<std::string> arguments = argv;
  std::vector<std::string> variables = merged_environment(environment);
  const int error = posix_spawn(&pid_, argv.front().c_str(), &actions, &attributes,
                                pointers(arguments).data(), pointers(variables).data());
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  close(in[0]);
  close(out[1]);
  close(err[1]);
  in_ = in[1];
  out_ = out[0];
  err_ = err[0];
  check(error, argv.front().c_str());
}

Subprocess::~Subprocess() {
  close_end(in_);
  close_end(out_);
  close_end(err_);
  if (pid_ > 0) {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
}

bool Subprocess::write_input(const std::string& text) {
  size_t done = 0;
  while (done < text.size()) {
    const ssize_t count = write(in_, text.data() + done, text.size() - done);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    done += static_cast<size_t>(count);
  }
  return true;
}

void Subprocess::close_input() { close_end(in_); }
void Subprocess::close_output() { close_end(out_); }

bool Subprocess::read_some(Clock::time_point deadline) {
  while (out_ >= 0 || err_ >= 0) {
    pollfd waits[2] = {{out_, POLLIN, 0}, {err_, POLLIN, 0}};  // poll skips negative descriptors
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
    if (left <= 0) return false;
    const int ready = poll(waits, 2, static_cast<int>(left));
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0) return false;
    int* ends[2] = {&out_, &err_};
    std::string* texts[2] = {&result_.out, &result_.err};
    for (int i = 0; i < 2; ++i) {
      if (waits[i].revents == 0) continue;
      char buffer[4096];
      const ssize_t count = read(*ends[i], buffer, sizeof buffer);
      if (count > 0) texts[i]->append(buffer, static_cast<size_t>(count));
      if (count == 0 || (count < 0 && errno != EINTR)) close_end(*ends[i]);
    }
    return true;
  }
  return false;
}

bool Subprocess::wait_for_output(size_t bytes, std::chrono::seconds limit) {
  const auto deadline = Clock::now() + limit;
  while (result_.out.size() < bytes) {
    if (out_ < 0 || !read_some(deadline)) return false;
  }
  return true;
}

bool Subprocess::wait_for_message(const std::string& text, std::chrono::seconds limit) {
  const auto deadline = Clock::now() + limit;
  while (result_.err.find(text) == std::string::npos) {
    if (err_ < 0 || !read_some(deadline)) return false;
  }
  return true;
}

void Subprocess::send_signal(int signal) { kill(pid_, signal); }

ProcessResult Subprocess::finish(std::chrono::seconds limit) {
  close_input();
  const auto deadline = Clock::now() + limit;
  while (read_some(deadline)) {
  }
  if (Clock::now() >= deadline) {
    result_.is_timeout = true;
    kill(pid_, SIGKILL);
  }
  int status = 0;
  waitpid(pid_, &status, 0);
  pid_ = -1;
  result_.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return result_;
}

ProcessResult run_process(const std::vector<std::string>& argv, const std::string& input,
                          const std::vector<std::string>& environment, const std::string& out_path) {
  Subprocess process(argv, environment, out_path);
  process.write_input(input);
  return process.finish();
}

}  // namespace tessera::test
