#include "tessera/kernels/cpu/output_memory.h"

#include <bit>
#include <cstring>
#include <map>
#include <mutex>
#include <new>
#include <vector>

#include "tessera/tensor/allocate.h"

namespace tessera::kernels::cpu {
namespace {

namespace mx = mlx::core;

constexpr std::align_val_t kLine{64};
constexpr std::size_t kHeader = 64;  // MLX keeps a buffer's size in the eight bytes before its data
constexpr std::size_t kSmallestKept = std::size_t{32} << 10;
constexpr std::size_t kLargestKept = std::size_t{16} << 20;
constexpr std::size_t kKept = std::size_t{64} << 20;

class KeptBlocks {
 public:
  /// Header and data.
  std::byte* take(std::size_t capacity) {
    {
      const std::lock_guard lock(mutex_);
      auto& blocks = kept_[capacity];
      if (!blocks.empty()) {
        std::byte* block = blocks.back();
        blocks.pop_back();
        bytes_ -= capacity;
        return block;
      }
    }
    return static_cast<std::byte*>(::operator new(kHeader + capacity, kLine));
  }

  void give_back(std::byte* block, std::size_t capacity) {
    {
      const std::lock_guard lock(mutex_);
      if (bytes_ + capacity <= kKept) {
        kept_[capacity].push_back(block);
        bytes_ += capacity;
        return;
      }
    }
    ::operator delete(block, kLine);
  }

 private:
  std::mutex mutex_;
  std::map<std::size_t, std::vector<std::byte*>> kept_;  // by capacity
  std::size_t bytes_ = 0;
};

/// Never destroyed: arrays may outlive static objects.
KeptBlocks& kept_blocks() {
  static auto* blocks = new KeptBlocks;
  return *blocks;
}

}  // namespace

mx::allocator::Data output_memory(std::size_t bytes) {
  if (bytes < kSmallestKept || bytes > kLargestKept) return tensor::allocate(bytes);
  const std::size_t capacity = std::bit_ceil(bytes);
  std::byte* const block = kept_blocks().take(capacity);
  std::byte* const buffer = block + kHeader - sizeof(std::size_t);
  std::memcpy(buffer, &capacity, sizeof capacity);
  return {mx::allocator::Buffer(buffer),
          [block, capacity](mx::allocator::Buffer) { kept_blocks().give_back(block, capacity); }};
}

}  // namespace tessera::kernels::cpu
