#include "tessera/execution/worker.h"

namespace tessera::execution {

Worker::~Worker() {
  {
    const std::lock_guard lock(mutex_);
    is_ending_ = true;
  }
  has_work_.notify_one();
  thread_.join();
}

void Worker::post(std::function<void()> job) {
  {
    const std::lock_guard lock(mutex_);
    jobs_.push_back(std::move(job));
  }
  has_work_.notify_one();
}

void Worker::run() {
  for (;;) {
    std::unique_lock lock(mutex_);
    has_work_.wait(lock, [this] { return is_ending_ || !jobs_.empty(); });
    if (jobs_.empty()) return;
    auto job = std::move(jobs_.front());
    jobs_.pop_front();
    lock.unlock();
    job();
  }
}

}  // namespace tessera::execution
