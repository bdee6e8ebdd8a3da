// Memory for packed weights in huge pages.
#pragma once

#include <cstddef>
#include <memory>

namespace tessera::kernels {

/// Hands out memory from large blocks that are aligned to huge pages. A decode step walks through all
/// weights; most matrices are smaller than a huge page, and each on its own would cost a TLB miss per 4 KiB.
/// Memory is given back when the object and everything allocated from it are gone. Not thread-safe.
class WeightMemory {
 public:
  /// `bytes` of zeroed memory, aligned to a cache line, behind a line that belongs to it (MLX reads a
  /// buffer's size from the eight bytes before it). The pointer keeps the block alive.
  /// Throws ResourceExhausted when the system has no memory.
  std::shared_ptr<std::byte> allocate(std::size_t bytes);

 private:
  class Block;
  std::shared_ptr<Block> block_;  // the one being filled
};

}  // namespace tessera::kernels
