// Splitting work over memory among a pool's threads.
#pragma once

#include <algorithm>
#include <cstddef>

#include "tessera/base/thread_pool.h"

namespace tessera::kernels::cpu {

/// Values that are worth a task of their own: about what is read while a thread wakes up.
inline constexpr std::size_t kValuesPerTask = 1 << 14;

/// work(first, last) for pieces of [0, n) that make up all of it; an item stands for `values` of memory.
/// Without a pool, and where there is little to do, on the calling thread. What an item gives must not depend
/// on its piece.
template <typename Work>
void run_pieces(base::ThreadPool* pool, std::size_t n, std::size_t values, const Work& work) {
  const std::size_t threads = pool == nullptr ? 1 : static_cast<std::size_t>(pool->threads());
  const std::size_t least = std::max<std::size_t>(1, kValuesPerTask / std::max<std::size_t>(1, values));
  // Some tasks per thread, so that a late one does not keep the others waiting.
  const std::size_t items = std::max(least, (n + 4 * threads - 1) / (4 * threads));
  if (threads == 1 || n <= items) return work(std::size_t{0}, n);
  pool->run(static_cast<int>((n + items - 1) / items), [&](int task) {
    const std::size_t first = static_cast<std::size_t>(task) * items;
    work(first, std::min(n, first + items));
  });
}

}  // namespace tessera::kernels::cpu
