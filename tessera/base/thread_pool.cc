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
  workers_.reserve(static_cast<std::size_t>(total - 1));
  try {
    for (int i = 1; i < total; ++i) workers_.emplace_back([this] { work(); });
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

void ThreadPool::take_tasks() {
  for (;;) {
    const int i = next_task_.fetch_add(1, std::memory_order_relaxed);
    if (i >= n_tasks_) return;
    try {
      (*task_)(i);
    } catch (...) {
      const std::lock_guard lock(failure_mutex_);
      failure_ = std::current_exception();
    }
  }
}

void ThreadPool::work() {
  uint32_t seen = 0;
  for (;;) {
    wait_for_change(epoch_, seen);
    seen = epoch_.load(std::memory_order_acquire);
    if (is_ending_.load(std::memory_order_acquire)) return;
    take_tasks();
    if (idle_.fetch_add(1, std::memory_order_acq_rel) + 1 == workers_.size()) idle_.notify_one();
  }
}

void ThreadPool::run(int n_tasks, const std::function<void(int)>& task) {
  if (n_tasks <= 0) return;
  const std::lock_guard lock(run_mutex_);
  task_ = &task;
  n_tasks_ = n_tasks;
  failure_ = nullptr;
  next_task_.store(0, std::memory_order_relaxed);
  // One task is not worth waking anyone for.
  const auto n_workers = n_tasks == 1 ? 0U : static_cast<uint32_t>(workers_.size());
  if (n_workers > 0) {
    idle_.store(0, std::memory_order_relaxed);
    epoch_.fetch_add(1, std::memory_order_release);
    epoch_.notify_all();
  }
  take_tasks();
  // Every worker passes through a run, so that none can meet the next one's numbers halfway.
  for (uint32_t idle = idle_.load(std::memory_order_acquire); n_workers > 0 && idle != n_workers;
       idle = idle_.load(std::memory_order_acquire)) {
    wait_for_change(idle_, idle);
  }
  if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
}

}  // namespace tessera::base
