// The one thread that owns MLX.
#pragma once

#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <thread>
#include <type_traits>
#include <utility>

namespace tessera::execution {

/// Runs jobs one after the other on its own thread: MLX's streams belong to the thread that made
/// them, so a model is loaded, evaluated and dropped here. Thread-safe.
class Worker {
 public:
  Worker() : thread_([this] { run(); }) {}
  /// Finishes the jobs that were posted.
  ~Worker();
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  /// Queues a job that must not throw.
  void post(std::function<void()> job);

  /// Runs `job` on the thread, waits, and returns its result or rethrows its exception here.
  template <typename Job>
  auto call(Job job) -> std::invoke_result_t<Job> {
    // Shared: the caller may be gone while the worker still returns from the task.
    auto task = std::make_shared<std::packaged_task<std::invoke_result_t<Job>()>>(std::move(job));
    auto result = task->get_future();
    post([task] { (*task)(); });
    return result.get();
  }

 private:
  void run();

  std::mutex mutex_;
  std::condition_variable has_work_;
  std::deque<std::function<void()>> jobs_;
  bool is_ending_ = false;
  std::thread thread_;
};

}  // namespace tessera::execution
