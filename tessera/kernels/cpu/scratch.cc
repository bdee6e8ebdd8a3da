#include "tessera/kernels/cpu/scratch.h"

#include <array>
#include <bit>
#include <new>
#include <utility>

namespace tessera::kernels::cpu {
namespace {

constexpr std::align_val_t kLine{64};
// What a thread keeps: blocks of up to this size, a few of each power of two.
constexpr std::size_t kLargestKept = std::size_t{32} << 20;
constexpr std::size_t kKeptPerSize = 4;
constexpr std::size_t kSmallest = 256;

class Shelf {
 public:
  ~Shelf() {
    for (auto& size : kept_) {
      for (std::byte* data : size) {
        if (data != nullptr) ::operator delete(data, kLine);
      }
    }
  }

  std::byte* take(std::size_t capacity) {
    for (std::byte*& place : kept_[index_of(capacity)]) {
      if (place != nullptr) return std::exchange(place, nullptr);
    }
    return nullptr;
  }

  bool give_back(std::byte* data, std::size_t capacity) {
    for (std::byte*& place : kept_[index_of(capacity)]) {
      if (place != nullptr) continue;
      place = data;
      return true;
    }
    return false;
  }

 private:
  static std::size_t index_of(std::size_t capacity) {
    return static_cast<std::size_t>(std::countr_zero(capacity / kSmallest));
  }

  // 256 bytes to kLargestKept.
  std::array<std::array<std::byte*, kKeptPerSize>, 18> kept_{};
};

Shelf& shelf() {
  thread_local Shelf shelf;
  return shelf;
}

}  // namespace

Scratch::Scratch(std::size_t bytes) : capacity_(std::bit_ceil(bytes < kSmallest ? kSmallest : bytes)) {
  data_ = capacity_ <= kLargestKept ? shelf().take(capacity_) : nullptr;
  if (data_ == nullptr) data_ = static_cast<std::byte*>(::operator new(capacity_, kLine));
}

Scratch::~Scratch() {
  if (capacity_ <= kLargestKept && shelf().give_back(data_, capacity_)) return;
  ::operator delete(data_, kLine);
}

}  // namespace tessera::kernels::cpu
