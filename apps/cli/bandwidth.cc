#include "apps/cli/bandwidth.h"

#include <algorithm>
#include <atomic>
#include <barrier>
#include <chrono>
#include <thread>

namespace tessera::cli {

uint64_t sum_words(const uint64_t* words, size_t count) {
  uint64_t sum = 0;
  for (size_t i = 0; i < count; ++i) sum += words[i];
  return sum;
}

double measure_read_bandwidth(int threads, size_t buffer_bytes, int rounds) {
  const size_t n_threads = static_cast<size_t>(std::max(threads, 1));
  const size_t words_per_thread = buffer_bytes / sizeof(uint64_t) / n_threads;
  std::vector<uint64_t> buffer(words_per_thread * n_threads, 1);  // written, so that every page exists
  std::atomic<uint64_t> total{0};
  std::barrier gate(static_cast<std::ptrdiff_t>(n_threads) + 1);
  std::vector<std::thread> workers;
  for (size_t t = 0; t < n_threads; ++t) {
    workers.emplace_back([&, t] {
      for (int round = 0; round < rounds; ++round) {
        gate.arrive_and_wait();
        total += sum_words(buffer.data() + t * words_per_thread, words_per_thread);
        gate.arrive_and_wait();
      }
    });
  }
  double best_s = 0;
  for (int round = 0; round < rounds; ++round) {
    gate.arrive_and_wait();
    const auto start = std::chrono::steady_clock::now();
    gate.arrive_and_wait();
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    if (round == 0 || seconds < best_s) best_s = seconds;
  }
  for (std::thread& worker : workers) worker.join();
  // Uses the sums, so that no compiler may leave the reads out.
  const bool is_complete = total == static_cast<uint64_t>(rounds) * buffer.size();
  return is_complete && best_s > 0 ? static_cast<double>(buffer.size() * sizeof(uint64_t)) / best_s : 0;
}

}  // namespace tessera::cli
