// Threads that wait for short pieces of work.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace tessera::base {

/// Physical cores this process may use: hardware threads of one core count once, and the affinity
/// mask is respected. At least 1.
int physical_cores();

/// A fixed set of threads that run numbered tasks together with the caller. Workers spin for some
/// tens of microseconds after their work, so that a chain of short runs does not pay for waking them,
/// and then sleep. Which thread runs a task is not fixed; results must not depend on it.
/// run() may be called from any thread, one call at a time proceeds; a task must not call it.
class ThreadPool {
 public:
  /// `threads` counts the caller: threads - 1 workers are started. 0 means physical_cores().
  /// Throws InvalidArgument for a negative number or one above kMaxThreads (tessera/options.h),
  /// ResourceExhausted when the system refuses a thread; then none is left behind.
  explicit ThreadPool(int threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int threads() const { return static_cast<int>(workers_.size()) + 1; }

  /// Calls task(i) once for every i in [0, n_tasks), the highest first, and returns when all are done. If tasks throw, the
  /// others still run and one of the exceptions is rethrown at the end.
  void run(int n_tasks, const std::function<void(int)>& task);

 private:
  void work();
  void take_tasks(uint32_t epoch);
  void end_workers();

  std::vector<std::thread> workers_;
  std::mutex run_mutex_;

  // One run at a time. `open_` holds its epoch in the upper half and the tasks nobody has taken in the
  // lower one: a worker takes a task only while the epoch is the one it woke up for, so a run need not
  // wait for workers that never came. `epoch_` is what sleeping workers watch, `unfinished_` what the
  // caller does.
  const std::function<void(int)>* task_ = nullptr;
  std::exception_ptr failure_;
  std::mutex failure_mutex_;
  alignas(64) std::atomic<uint32_t> epoch_{0};
  alignas(64) std::atomic<uint64_t> open_{0};
  alignas(64) std::atomic<uint32_t> unfinished_{0};
  std::atomic<bool> is_ending_{false};
};

}  // namespace tessera::base
