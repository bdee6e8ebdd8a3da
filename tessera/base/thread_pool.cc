#include "tessera/base/thread_pool.h"

#include <sched.h>

#include <chrono>
#include <exception>
#include <fstream>
#include <set>
#include <string>
#include <utility>

#include "tessera/base/check.h"
#include "tessera/options.h"

namespace tessera::base {
namespace {

using Clock = std::chrono::steady_clock;

// Waking a sleeping thread costs 5 to 10 microseconds; measured on decode, spinning 50 of them keeps
// the workers awake between the kernels of a token, and 500 gain nothing more.
constexpr auto kSpin = std::chrono::microseconds(50);

void pause_briefly() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

/// Waits until `value` differs from `seen`: spinning first, then asleep.
void wait_for_change(const std::atomic<uint32_t>& value, uint32_t seen) {
  const auto give_up = Clock::now() + kSpin;
  while (value.load(std::memory_order_acquire) == seen) {
    for (int i = 0; i < 64; ++i) {
      if (value.load(std::memory_order_acquire) != seen) return;
      pause_briefly();
    }
    if (Clock::now() > give_up) {
      value.wait(seen, std::memory_order_acquire);
      return;
    }
  }
}

// A share in one word: 24 bits of the epoch, 20 of the first task, 20 of the end.
constexpr uint32_t kTaskBits = 20;
constexpr uint64_t kTaskMask = (uint64_t{1} << kTaskBits) - 1;

uint64_t share_of(uint32_t epoch, uint64_t first, uint64_t end) {
  return (uint64_t{epoch} << (2 * kTaskBits)) | (first << kTaskBits) | end;
}

}  // namespace

int physical_cores() {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return 1;
  std::set<std::pair<std::string, std::string>> cores;
  int logical = 0;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &allowed)) continue;
    ++logical;
    const std::string topology = concat("/sys/devices/system/cpu/cpu", cpu, "/topology/");
    std::string package, core;
    std::ifstream(topology + "physical_package_id") >> package;
    std::ifstream(topology + "core_id") >> core;
    // A machine that hides its topology counts every processor.
    if (core.empty()) core = concat("cpu", cpu);
    cores.emplace(package, core);
  }
  return std::max(1, std::min(logical, static_cast<int>(cores.size())));
}

ThreadPool::ThreadPool(int threads) {
  if (threads < 0 || threads > kMaxThreads) {
    fail_argument("[thread_pool] ", threads, " threads; expected 1 to ", kMaxThreads,
                  " (0 = physical cores)");
  }
  const int total = threads == 0 ? physical_cores() : threads;
  shares_ = std::make_unique<Share[]>(static_cast<std::size_t>(total));
  workers_.reserve(static_cast<std::size_t>(total - 1));
  try {
    for (int i = 1; i < total; ++i) workers_.emplace_back([this, i] { work(i); });
  } catch (const std::exception& error) {
    const std::size_t started = workers_.size() + 1;
    end_workers();
    fail(ErrorKind::kResourceExhausted, "[thread_pool] the system gave ", started, " of ", total,
         " threads: ", error.what());
  }
}

ThreadPool::~ThreadPool() { end_workers(); }

void ThreadPool::end_workers() {
  is_ending_.store(true, std::memory_order_release);
  epoch_.fetch_add(1, std::memory_order_release);
  epoch_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

bool ThreadPool::take_task(uint32_t epoch, int owner, bool is_own, int& task) {
  std::atomic<uint64_t>& share = shares_[static_cast<std::size_t>(owner)].open;
  uint64_t open = share.load(std::memory_order_acquire);
  for (;;) {
    const uint64_t first = (open >> kTaskBits) & kTaskMask;
    const uint64_t end = open & kTaskMask;
    // The word holds as many bits of the epoch as there is room for.
    if ((open ^ share_of(epoch, first, end)) != 0 || first == end) return false;
    const uint64_t rest = is_own ? share_of(epoch, first + 1, end) : share_of(epoch, first, end - 1);
    if (!share.compare_exchange_weak(open, rest, std::memory_order_acq_rel, std::memory_order_acquire))
      continue;
    task = static_cast<int>(is_own ? first : end - 1);
    return true;
  }
}

void ThreadPool::take_tasks(uint32_t epoch, int thread) {
  uint32_t done = 0;
  for (int i = 0; i < threads(); ++i) {
    int task = 0;
    while (take_task(epoch, (thread + i) % threads(), i == 0, task)) {
      // The run cannot end without us now, so its function is there.
      try {
        (*task_)(task);
      } catch (...) {
        const std::lock_guard lock(failure_mutex_);
        failure_ = std::current_exception();
      }
      ++done;
    }
  }
  if (done > 0 && unfinished_.fetch_sub(done, std::memory_order_acq_rel) == done) unfinished_.notify_one();
}

void ThreadPool::work(int thread) {
  uint32_t seen = 0;
  for (;;) {
    wait_for_change(epoch_, seen);
    seen = epoch_.load(std::memory_order_acquire);
    if (is_ending_.load(std::memory_order_acquire)) return;
    take_tasks(seen, thread);
  }
}

void ThreadPool::run(int n_tasks, const std::function<void(int)>& task) {
  if (n_tasks <= 0) return;
  TESSERA_CHECK(static_cast<uint64_t>(n_tasks) < kTaskMask);
  const std::lock_guard lock(run_mutex_);
  if (n_tasks == 1) return task(0);  // not worth waking anyone
  task_ = &task;
  failure_ = nullptr;
  unfinished_.store(static_cast<uint32_t>(n_tasks), std::memory_order_relaxed);
  const uint32_t epoch = epoch_.load(std::memory_order_relaxed) + 1;
  const auto n = static_cast<uint64_t>(n_tasks);
  const auto n_threads = static_cast<uint64_t>(threads());
  for (uint64_t i = 0; i < n_threads; ++i)
    shares_[i].open.store(share_of(epoch, n * i / n_threads, n * (i + 1) / n_threads),
                          std::memory_order_release);
  epoch_.store(epoch, std::memory_order_release);
  epoch_.notify_all();
  take_tasks(epoch, 0);
  for (uint32_t left = unfinished_.load(std::memory_order_acquire); left != 0;
       left = unfinished_.load(std::memory_order_acquire)) {
    wait_for_change(unfinished_, left);
  }
  if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
}

}  // namespace tessera::base
