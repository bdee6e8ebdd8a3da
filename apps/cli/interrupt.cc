#include "apps/cli/interrupt.h"

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <system_error>

#include "apps/cli/output.h"

namespace tessera::cli {
namespace {

constexpr char kSignalled = 's';
constexpr char kClosing = 'c';

// A handler reaches its state through globals only; they are valid while the one Interrupt lives.
int g_pipe[2] = {-1, -1};
std::atomic<int> g_signals{0};
struct sigaction g_former;

void send(char byte) {
  // The pipe cannot be full: at most two bytes are ever sent.
  [[maybe_unused]] const ssize_t sent = write(g_pipe[1], &byte, 1);
}

extern "C" void on_interrupt(int) {
  const int saved = errno;
  if (g_signals.fetch_add(1) > 0) _exit(kInterruptedStatus);
  send(kSignalled);
  errno = saved;
}

}  // namespace

Interrupt::Interrupt() {
  if (pipe2(g_pipe, O_CLOEXEC) != 0) throw std::system_error(errno, std::generic_category(), "pipe");
  g_signals = 0;
  watcher_ = std::thread([this] {
    char byte = 0;
    while (true) {
      const ssize_t count = read(g_pipe[0], &byte, 1);
      if (count < 0 && errno == EINTR) continue;
      if (count <= 0 || byte == kClosing) return;
      source_.request_stop();
    }
  });
  struct sigaction action = {};
  action.sa_handler = on_interrupt;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, &g_former);
  // A shell that starts a job in the background has it ignore Ctrl-C; that choice stays.
  if (g_former.sa_handler == SIG_IGN) sigaction(SIGINT, &g_former, nullptr);
}

Interrupt::~Interrupt() {
  sigaction(SIGINT, &g_former, nullptr);
  send(kClosing);
  watcher_.join();
  close(g_pipe[0]);
  close(g_pipe[1]);
}

}  // namespace tessera::cli
