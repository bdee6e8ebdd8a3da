#include "tessera/tensor/external_array.h"

#include <mlx/allocator.h>

#include <cstdint>
#include <utility>

#include "tessera/base/check.h"

namespace tessera::tensor {

namespace mx = mlx::core;

mx::array external_array(const void* data, mx::Shape shape, mx::Dtype dtype,
                         std::shared_ptr<const void> owner) {
  TESSERA_CHECK(reinterpret_cast<std::uintptr_t>(data) % dtype.size() == 0);
  // MLX never writes through a buffer that it does not own, so the cast does not open the file for writing.
  auto* bytes = static_cast<std::byte*>(const_cast<void*>(data));
  mx::allocator::Buffer buffer(bytes - sizeof(std::size_t));
  if (buffer.raw_ptr() != bytes) {
    base::fail_unsupported("[tensor.external_array] this MLX backend cannot use memory it did not allocate");
  }
  return mx::array(mx::allocator::Data(buffer, [owner = std::move(owner)](mx::allocator::Buffer) {}),
                   std::move(shape), dtype);
}

}  // namespace tessera::tensor
