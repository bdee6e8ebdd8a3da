#include "tessera/kernels/pages.h"

#include <mlx/ops.h>

#include "tessera/base/check.h"
#include "tessera/kernels/cpu/pages.h"
#include "tessera/tensor/shape.h"

namespace tessera::kernels {

namespace mx = mlx::core;

mx::array initial_fence() { return mx::array(0, mx::int32); }

mx::array write_pages(const PageShape& shape, std::shared_ptr<const PageTable> table, int start,
                      const mx::array& k, const mx::array& v, const mx::array& fence) {
  const int length = k.ndim() == 4 ? k.shape(2) : 0;
  const mx::Shape k_shape{1, shape.n_kv_heads, length, shape.key_dim};
  const mx::Shape v_shape{1, shape.n_kv_heads, length, shape.value_dim};
  const auto is_storable = [&](mx::Dtype dtype) {
    return dtype == shape.dtype || (dtype == mx::float32 && shape.dtype == mx::bfloat16);
  };
  if (length < 1 || k.shape() != k_shape || v.shape() != v_shape || !is_storable(k.dtype()) ||
      v.dtype() != k.dtype()) {
    base::fail_argument("[kernels.write_pages] k ", tensor::to_string(k.shape()), " ",
                        tensor::to_string(k.dtype()), ", v ", tensor::to_string(v.shape()), " ",
                        tensor::to_string(v.dtype()), "; expected ", tensor::to_string(k_shape), " and ",
                        tensor::to_string(v_shape), " in ", tensor::to_string(shape.dtype));
  }
  TESSERA_CHECK(start >= 0 && table->pages.size() * static_cast<std::size_t>(shape.page_tokens) >=
                                  static_cast<std::size_t>(start) + static_cast<std::size_t>(length));
  return cpu::write_pages(shape, std::move(table), start, k, v, fence);
}

mx::array copy_page(const PageShape& shape, std::shared_ptr<const PageTable> from,
                    std::shared_ptr<const PageTable> to, int tokens, const mx::array& fence) {
  TESSERA_CHECK(!from->pages.empty() && !to->pages.empty() && tokens >= 0 && tokens <= shape.page_tokens);
  return cpu::copy_page(shape, std::move(from), std::move(to), tokens, fence);
}

std::pair<mx::array, mx::array> gather_pages(const PageShape& shape, std::shared_ptr<const PageTable> table,
                                             int start, int length, const mx::array& fence) {
  TESSERA_CHECK(start >= 0 && length > 0 &&
                table->pages.size() * static_cast<std::size_t>(shape.page_tokens) >=
                    static_cast<std::size_t>(start) + static_cast<std::size_t>(length));
  return cpu::gather_pages(shape, std::move(table), start, length, fence);
}

}  // namespace tessera::kernels
