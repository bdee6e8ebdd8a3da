#include "tests/contracts/state_contract.h"

#include "tessera/state/plain_kv.h"

namespace tessera {
namespace {

namespace mx = mlx::core;

test::StateCase plain(int kv_heads, int n_heads, int key_dim, int value_dim, mx::Dtype dtype = mx::float32,
                      std::shared_ptr<base::ThreadPool> pool = nullptr) {
  return {.shape = {.page_tokens = 8,
                    .n_kv_heads = kv_heads,
                    .key_dim = key_dim,
                    .value_dim = value_dim,
                    .dtype = dtype},
          .n_heads = n_heads,
          .make = [pool](std::shared_ptr<state::PageRow> row) {
            return std::make_unique<state::PlainKvState>(std::move(row), 0, kernels::Runtime{pool});
          }};
}

// Reference and state run the same attention over the same values: only the gather lies between.
TEST(StateContract, PlainFullCache) { test::check_state_contract(plain(2, 4, 16, 16), 1e-6); }
TEST(StateContract, PlainFullCacheWithOneKvHead) { test::check_state_contract(plain(1, 3, 8, 8), 1e-6); }
// Our kernel sums in another order than the reference.
TEST(StateContract, PlainFullCacheWithOurKernel) {
  test::check_state_contract(plain(2, 4, 16, 16, mx::float32, std::make_shared<base::ThreadPool>(2)), 1e-5);
}
TEST(StateContract, PlainFullCacheInBfloat16) {
  test::check_state_contract(plain(2, 2, 8, 8, mx::bfloat16), 1e-6);
}

}  // namespace
}  // namespace tessera
