#include "tessera/kernels/weight_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdint>

#include "tessera/base/check.h"

namespace tessera::kernels {
namespace {

constexpr std::size_t kLine = 64;
constexpr std::size_t kHugePage = std::size_t{2} << 20;
// Untouched parts of a block cost nothing but addresses.
constexpr std::size_t kBlockBytes = std::size_t{64} << 20;

std::size_t round_up(std::size_t bytes, std::size_t to) { return (bytes + to - 1) / to * to; }

}  // namespace

class WeightMemory::Block {
 public:
  explicit Block(std::size_t bytes) : capacity_(bytes), mapped_(bytes + kHugePage) {
    void* data = ::mmap(nullptr, mapped_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (data == MAP_FAILED)
      base::fail(ErrorKind::kResourceExhausted, "[kernels.pack] no memory for ", bytes, " bytes of weights");
    mapping_ = static_cast<std::byte*>(data);
    const std::size_t off = reinterpret_cast<std::uintptr_t>(mapping_) % kHugePage;
    data_ = mapping_ + (off == 0 ? 0 : kHugePage - off);
    ::madvise(data_, capacity_, MADV_HUGEPAGE);
  }
  ~Block() { ::munmap(mapping_, mapped_); }
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;

  /// Null when it does not fit any more.
  std::byte* take(std::size_t bytes) {
    if (capacity_ - used_ < bytes) return nullptr;
    std::byte* data = data_ + used_;
    used_ += bytes;
    return data;
  }

 private:
  std::size_t capacity_, mapped_;
  std::size_t used_ = 0;
  std::byte* mapping_ = nullptr;
  std::byte* data_ = nullptr;
};

std::shared_ptr<std::byte> WeightMemory::allocate(std::size_t bytes) {
  const std::size_t needed = round_up(bytes, kLine) + kLine;
  std::byte* data = block_ ? block_->take(needed) : nullptr;
  if (data == nullptr) {
    block_ = std::make_shared<Block>(std::max(kBlockBytes, round_up(needed, kHugePage)));
    data = block_->take(needed);
  }
  return std::shared_ptr<std::byte>(block_, data + kLine);
}

}  // namespace tessera::kernels
