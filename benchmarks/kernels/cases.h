// The ladder: every operation, bit width, group size, number of rows and tier that is measured.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "benchmarks/kernels/ceilings.h"
#include "tessera/kernels/packed_layout.h"
#include "tessera/kernels/products.h"

namespace tessera::bench {

/// A case whose operands exist.
struct Work {
  std::function<void()> run;  // each call on other operands, as far as rotation_bytes() asks for it
  int operations = 1;         // of one call
};

struct Case {
  std::string name;        // words between slashes, for --filter
  Ceiling ceiling;         // what its fraction is of
  double bytes = 0;        // of one operation: operands once, results once
  double flop = 0;         // of one operation
  bool is_extra = false;   // only with --all
  double floor = 0;        // --check fails below this fraction; 0 = not part of the check
  bool is_serial = false;  // runs on one thread, however many there are
  std::function<Work(std::shared_ptr<base::ThreadPool>)> prepare;
};

/// All of them, in the order of the table.
std::vector<Case> all_cases();

/// x [m, K] times one of `copies` matrices, in turn: rounding x, and multiplying.
Work product_work(const kernels::PackedLayout& layout, int m, const kernels::Runtime& runtime,
                  std::size_t copies);

/// Causal attention of the newest `length` of `stored` positions, 32 query heads over 8, pages of bfloat16;
/// `rotates`: over as many caches as rotation_bytes() asks for.
Work attention_work(int dim, int length, int stored, std::shared_ptr<base::ThreadPool> pool, bool rotates);

// Their parts, one per file.
void add_products(std::vector<Case>& cases);   // product_cases.cc
void add_attention(std::vector<Case>& cases);  // attention_cases.cc
void add_layers(std::vector<Case>& cases);     // layer_cases.cc

}  // namespace tessera::bench
