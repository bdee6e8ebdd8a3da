// The CPU primitives behind kernels/pages.h; arguments are validated there.
#pragma once

#include "tessera/kernels/pages.h"

namespace tessera::kernels::cpu {

mlx::core::array write_pages(const PageShape& shape, std::shared_ptr<const PageTable> table, int start,
                             const mlx::core::array& k, const mlx::core::array& v,
                             const mlx::core::array& fence);
mlx::core::array copy_page(const PageShape& shape, std::shared_ptr<const PageTable> from,
                           std::shared_ptr<const PageTable> to, int tokens, const mlx::core::array& fence);
std::pair<mlx::core::array, mlx::core::array> gather_pages(const PageShape& shape,
                                                           std::shared_ptr<const PageTable> table, int start,
                                                           int length, const mlx::core::array& fence);

/// What write_pages does, at once and from float32: for kernels that write pages themselves. Strides count
/// floats. REQUIRES: pages in float32 or bfloat16 that cover the positions.
void write_positions(const PageShape& shape, const PageTable& table, int start, int length, const float* k,
                     std::size_t k_head_stride, std::size_t k_token_stride, const float* v,
                     std::size_t v_head_stride, std::size_t v_token_stride);

/// Brings the memory of one position into the cache, for a write_positions() to come: its keys lie in as many
/// lines as a head has words.
void prefetch_position(const PageShape& shape, const PageTable& table, int position);

}  // namespace tessera::kernels::cpu
