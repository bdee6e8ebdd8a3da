// Operands with made-up numbers, directly in the layouts that the kernels read: quantizing real ones would take
// longer than measuring.
#pragma once

#include <random>
#include <vector>

#include "benchmarks/kernels/ceilings.h"
#include "tessera/kernels/packed_matrix.h"
#include "tessera/kernels/pages.h"

namespace tessera::bench {

/// Uniform in [-1, 1], the same every time.
std::vector<float> random_values(std::size_t count);

/// `copies` packed matrices of random codes, in the memory of the runtime. REQUIRES: copies >= 1.
std::vector<kernels::PackedMatrix> random_matrices(const kernels::PackedLayout& layout, std::size_t copies,
                                                   const kernels::Runtime& runtime);

/// Copies of `bytes` bytes that exceed rotation_bytes() together.
std::size_t copies_of(std::size_t bytes);

/// `copies` tables of full pages for `tokens` positions, with random bfloat16 or float32 values.
std::vector<std::shared_ptr<const kernels::PageTable>> random_tables(const kernels::PageShape& shape,
                                                                     int tokens, std::size_t copies);

}  // namespace tessera::bench
