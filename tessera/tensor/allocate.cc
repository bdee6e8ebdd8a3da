#include "tessera/tensor/allocate.h"

#include "tessera/base/check.h"

namespace tessera::tensor {

mlx::core::allocator::Data allocate(std::size_t bytes) {
  mlx::core::allocator::Data data = mlx::core::allocator::malloc(bytes);
  if (bytes > 0 && data.buffer().ptr() == nullptr)
    base::fail(ErrorKind::kResourceExhausted, "[tensor.allocate] no memory for an array of ", bytes,
               " bytes");
  return data;
}

}  // namespace tessera::tensor
