// A queue from the engine's thread to the thread that waits for a generation.
#pragma once

#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <utility>

namespace tessera::execution {

/// Unbounded: a generation never waits for its reader. One writer, one reader.
template <typename T>
class Channel {
 public:
  // Both notify with the lock held: the reader may destroy the channel as soon as it can see the close.
  void send(T value) {
    const std::lock_guard lock(mutex_);
    values_.push_back(std::move(value));
    has_value_.notify_one();
  }

  /// Nothing more will be sent.
  void close() {
    const std::lock_guard lock(mutex_);
    is_closed_ = true;
    has_value_.notify_one();
  }

  /// Waits for the next value; absent once the channel is closed and empty.
  std::optional<T> receive() {
    std::unique_lock lock(mutex_);
    has_value_.wait(lock, [this] { return is_closed_ || !values_.empty(); });
    if (values_.empty()) return std::nullopt;
    T value = std::move(values_.front());
    values_.pop_front();
    return value;
  }

 private:
  std::mutex mutex_;
  std::condition_variable has_value_;
  std::deque<T> values_;
  bool is_closed_ = false;
};

}  // namespace tessera::execution
