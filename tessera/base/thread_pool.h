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

  /// Calls task(i) once for every i in [0, n_tasks) and returns when all are done. Each thread begins with a
  /// run of neighbours in ascending order, so that tasks over consecutive memory read it as one stream, and
  /// then helps the others from their far end. If tasks throw, the others still run and one of the exceptions
  /// is rethrown at the end. REQUIRES: n_tasks < 2^20.
  void run(int n_tasks, const std::function<void(int)>& task);

 private:
  /// The tasks of one thread that nobody has taken: the epoch of their run, the first and the end, in one word.
  struct alignas(64) Share {
    std::atomic<uint64_t> open{0};
  };

  void work(int thread);
  void take_tasks(uint32_t epoch, int thread);
  bool take_task(uint32_t epoch, int owner, bool is_own, int& task);
  void end_workers();

  std::vector<std::thread> workers_;
  std::unique_ptr<Share[]> shares_;  // one per thread, the caller's first
  std::mutex run_mutex_;

  // One run at a time. A worker takes a task only while a share's epoch is the one it woke up for, so a run
  // need not wait for workers that never came. `epoch_` is what sleeping workers watch, `unfinished_` what
  // the caller does.
  const std::function<void(int)>* task_ = nullptr;
  std::exception_ptr failure_;
  std::mutex failure_mutex_;
  alignas(64) std::atomic<uint32_t> epoch_{0};
  alignas(64) std::atomic<uint32_t> unfinished_{0};
  std::atomic<bool> is_ending_{false};
};

}  // namespace tessera::base
