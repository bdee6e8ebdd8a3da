// Pages: what is written is what is gathered, whatever the strides and page borders.
#include <memory>

#include "tessera/error.h"
#include "tessera/kernels/pages.h"
#include "tests/arrays.h"

namespace tessera {
namespace {

using test::normal;
namespace mx = mlx::core;

/// A table over memory of its own.
std::shared_ptr<const kernels::PageTable> make_table(const kernels::PageShape& shape, int n_pages) {
  auto memory =
      std::make_shared<std::vector<std::byte>>(shape.page_bytes() * static_cast<std::size_t>(n_pages));
  auto table = std::make_shared<kernels::PageTable>();
  for (int i = 0; i < n_pages; ++i)
    table->pages.push_back(memory->data() + static_cast<std::size_t>(i) * shape.page_bytes());
  table->owner = memory;
  return table;
}

TEST(Pages, GatherReturnsWhatWasWritten) {
  for (const mx::Dtype dtype : {mx::float32, mx::bfloat16, mx::float16}) {
    const kernels::PageShape shape{
        .page_tokens = 4, .n_kv_heads = 2, .key_dim = 8, .value_dim = 6, .dtype = dtype};
    const auto table = make_table(shape, 4);
    const mx::array k = normal({1, 2, 14, 8}, 1, dtype);
    const mx::array v = normal({1, 2, 14, 6}, 2, dtype);
    mx::array fence = kernels::initial_fence();
    int start = 0;
    for (const int length : {1, 2, 5, 6}) {
      // Slices of a longer array, so strides and storage differ.
      fence =
          kernels::write_pages(shape, table, start, mx::slice(k, {0, 0, start, 0}, {1, 2, start + length, 8}),
                               mx::slice(v, {0, 0, start, 0}, {1, 2, start + length, 6}), fence);
      start += length;
    }
    const auto [keys, values] = kernels::gather_pages(shape, table, 0, 14, fence);
    EXPECT_EQ(test::values(keys), test::values(k));
    EXPECT_EQ(test::values(values), test::values(v));
    const auto [some_keys, some_values] = kernels::gather_pages(shape, table, 3, 7, fence);
    EXPECT_EQ(test::values(some_keys), test::values(mx::slice(k, {0, 0, 3, 0}, {1, 2, 10, 8})));
    EXPECT_EQ(test::values(some_values), test::values(mx::slice(v, {0, 0, 3, 0}, {1, 2, 10, 6})));
  }
}

TEST(Pages, WritesHonourStrides) {
  const kernels::PageShape shape{.page_tokens = 4, .n_kv_heads = 2, .key_dim = 8, .value_dim = 8};
  const auto table = make_table(shape, 2);
  const mx::array k = mx::transpose(normal({1, 5, 2, 8}, 3), {0, 2, 1, 3});  // tokens outermost
  const mx::array v = mx::transpose(normal({1, 8, 5, 2}, 4), {0, 3, 2, 1});  // elements not contiguous
  const auto [keys, values] = kernels::gather_pages(
      shape, table, 0, 5, kernels::write_pages(shape, table, 0, k, v, kernels::initial_fence()));
  EXPECT_EQ(test::values(keys), test::values(k));
  EXPECT_EQ(test::values(values), test::values(v));
}

TEST(Pages, CopyTakesTheFirstTokensOnly) {
  const kernels::PageShape shape{.page_tokens = 4, .n_kv_heads = 1, .key_dim = 2, .value_dim = 2};
  const auto from = make_table(shape, 1);
  const auto to = make_table(shape, 1);
  const mx::array k = normal({1, 1, 4, 2}, 5);
  mx::array fence = kernels::write_pages(shape, from, 0, k, k, kernels::initial_fence());
  fence = kernels::copy_page(shape, from, to, 3, fence);
  const auto copied = test::values(kernels::gather_pages(shape, to, 0, 4, fence).first);
  auto expected = test::values(k);
  expected[6] = expected[7] = 0.0F;
  EXPECT_EQ(copied, expected);
}

TEST(Pages, WriteRefusesShapesAndDtypesThatDoNotFit) {
  const kernels::PageShape shape{.page_tokens = 4, .n_kv_heads = 2, .key_dim = 8, .value_dim = 8};
  const auto table = make_table(shape, 1);
  const auto write = [&](const mx::array& k, const mx::array& v) {
    return kernels::write_pages(shape, table, 0, k, v, kernels::initial_fence());
  };
  EXPECT_THROW(write(normal({1, 1, 2, 8}, 1), normal({1, 2, 2, 8}, 1)), Error);
  EXPECT_THROW(write(normal({1, 2, 2, 8}, 1), normal({1, 2, 2, 6}, 1)), Error);
  EXPECT_THROW(write(normal({2, 2, 2, 8}, 1), normal({2, 2, 2, 8}, 1)), Error);
  EXPECT_THROW(write(normal({1, 2, 2, 8}, 1, mx::bfloat16), normal({1, 2, 2, 8}, 1)), Error);
  EXPECT_THROW(write(normal({1, 2, 5, 8}, 1), normal({1, 2, 5, 8}, 1)), Error);  // longer than the table
}

TEST(Pages, AWriteHasNoGradient) {
  const kernels::PageShape shape{.page_tokens = 4, .n_kv_heads = 1, .key_dim = 2, .value_dim = 2};
  const auto table = make_table(shape, 1);
  const auto stored = [&](const mx::array& k) {
    const mx::array fence = kernels::write_pages(shape, table, 0, k, k, kernels::initial_fence());
    return mx::sum(kernels::gather_pages(shape, table, 0, 1, fence).first);
  };
  EXPECT_ANY_THROW(mx::eval(mx::grad(stored)(normal({1, 1, 1, 2}, 1))));
}

}  // namespace
}  // namespace tessera
