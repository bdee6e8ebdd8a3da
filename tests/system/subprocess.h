// Runs a program the way a shell does: arguments, standard input, exit status, both outputs.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <string>
#include <vector>

namespace tessera::test {

struct ProcessResult {
  int status = -1;          // exit status, or 128 + the signal that ended it
  bool is_timeout = false;  // it was killed because it took too long
  std::string out;
  std::string err;
};

/// A running program. Its environment is the caller's, with `environment` (NAME=VALUE) on top; SIGINT
/// and SIGPIPE have their default meaning whatever the caller's are.
class Subprocess {
 public:
  /// `out_path` sends standard output to a file or device instead of to the caller.
  explicit Subprocess(const std::vector<std::string>& argv, const std::vector<std::string>& environment = {},
                      const std::string& out_path = "");
  ~Subprocess();
  Subprocess(const Subprocess&) = delete;
  Subprocess& operator=(const Subprocess&) = delete;

  /// Writes to its standard input; false when it reads no more.
  bool write_input(const std::string& text);
  void close_input();
  /// Stops reading its standard output, as `head` does.
  void close_output();
  /// Reads its standard output until `bytes` have arrived in all; false at its end or the time limit.
  bool wait_for_output(size_t bytes, std::chrono::seconds limit = std::chrono::seconds(60));
  /// The same for its standard error and a text that has to appear there.
  bool wait_for_message(const std::string& text, std::chrono::seconds limit = std::chrono::seconds(60));
  void send_signal(int signal);
  /// Closes its input, reads to the end and waits.
  ProcessResult finish(std::chrono::seconds limit = std::chrono::seconds(60));

 private:
  bool read_some(std::chrono::steady_clock::time_point deadline);

  pid_t pid_ = -1;
  int in_ = -1;
  int out_ = -1;
  int err_ = -1;
  ProcessResult result_;
};

/// Runs a program from its start to its end.
ProcessResult run_process(const std::vector<std::string>& argv, const std::string& input = "",
                          const std::vector<std::string>& environment = {}, const std::string& out_path = "");

}  // namespace tessera::test
