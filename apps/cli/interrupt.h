// Ctrl-C as a stop request: while an Interrupt lives, the first SIGINT triggers its token and the
// second one ends the program. Without one, SIGINT does what the system does.
#pragma once

#include <stop_token>
#include <thread>

namespace tessera::cli {

/// At most one at a time. Restores the former handling of SIGINT when destroyed.
class Interrupt {
 public:
  Interrupt();
  ~Interrupt();
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;

  std::stop_token token() const { return source_.get_token(); }

 private:
  std::stop_source source_;
  std::thread watcher_;  // a signal handler may not call request_stop(): it can run callbacks
};

}  // namespace tessera::cli
