// Memory for the results of primitives.
#pragma once

#include <mlx/allocator.h>

namespace tessera::kernels::cpu {

/// Memory for an array of `bytes`. Large results are taken from, and go back to, blocks that are kept: the
/// system allocator hands those back to the kernel after every step, which then clears new pages for the
/// next one (50 page faults for a token's logits). What is kept is bounded. Any thread.
mlx::core::allocator::Data output_memory(std::size_t bytes);

}  // namespace tessera::kernels::cpu
