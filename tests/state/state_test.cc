// Pages, masks and sequences.
#include "tessera/state/sequence_state.h"

#include "tessera/error.h"
#include "tessera/kernels/attention.h"
#include "tessera/state/plain_kv.h"
#include "tests/arrays.h"

namespace tessera {
namespace {

using test::normal;
namespace mx = mlx::core;

constexpr kernels::PageShape kShape{.page_tokens = 4, .n_kv_heads = 2, .key_dim = 8, .value_dim = 8};

TEST(PagePool, HandsOutPagesAgain) {
  const auto pool = state::PagePool::create({kShape, kShape});
  int first = 0;
  {
    const auto page = pool->take();
    first = page->id;
    EXPECT_EQ(pool->pages_in_use(), 1);
    EXPECT_NE(pool->memory(0, page->id), pool->memory(1, page->id));
  }
  EXPECT_EQ(pool->pages_in_use(), 0);
  EXPECT_EQ(pool->take()->id, first);
}

TEST(PagePool, MemoryStaysWhereItIsWhileThePoolGrows) {
  const auto pool = state::PagePool::create({kShape});
  std::vector<std::shared_ptr<state::Page>> pages{pool->take()};
  const std::byte* first = pool->memory(0, pages[0]->id);
  const std::size_t before = pool->reserved_bytes();
  while (pool->reserved_bytes() == before) pages.push_back(pool->take());
  EXPECT_EQ(pool->memory(0, pages[0]->id), first);
}

TEST(PlainKv, AnAppendNeitherMovesNorCopiesWhatIsStored) {
  const auto pool = state::PagePool::create({kShape});
  const auto row = std::make_shared<state::PageRow>(pool);
  state::PlainKvState kv(row, 0);
  const auto append = [&](int length, uint64_t seed) {
    const mx::array k = normal({1, 2, length, 8}, seed);
    const auto read = kv.append_window(k, k);
    mx::eval(kv.pending());
  };
  append(6, 1);
  std::vector<std::byte*> addresses;
  std::vector<std::vector<std::byte>> contents;
  for (const auto& page : row->pages()) {
    addresses.push_back(pool->memory(0, page->id));
    contents.emplace_back(addresses.back(), addresses.back() + kShape.page_bytes());
  }
  const int in_use = pool->pages_in_use();
  append(1, 2);
  append(9, 3);
  ASSERT_GE(row->pages().size(), addresses.size());
  EXPECT_EQ(pool->pages_in_use(), in_use + 2) << "only the new positions took pages";
  for (std::size_t i = 0; i < addresses.size(); ++i) {
    EXPECT_EQ(pool->memory(0, row->pages()[i]->id), addresses[i]) << "page " << i << " moved";
  }
  // The full page is untouched; of the partly filled one, the two positions that were there.
  EXPECT_TRUE(std::equal(contents[0].begin(), contents[0].end(), addresses[0]));
  const std::size_t row_bytes = 8 * sizeof(float);
  for (int head = 0; head < 2; ++head) {
    const std::size_t at = static_cast<std::size_t>(head) * 4 * row_bytes;
    EXPECT_TRUE(std::equal(contents[1].begin() + static_cast<std::ptrdiff_t>(at),
                           contents[1].begin() + static_cast<std::ptrdiff_t>(at + 2 * row_bytes),
                           addresses[1] + at));
  }
}

TEST(PlainKv, ClonesShareFullPages) {
  const auto pool = state::PagePool::create({kShape});
  const auto row = std::make_shared<state::PageRow>(pool);
  state::PlainKvState kv(row, 0);
  const mx::array k = normal({1, 2, 10, 8}, 1);
  kv.append_window(k, k);
  mx::eval(kv.pending());
  EXPECT_EQ(pool->pages_in_use(), 3);
  const auto other_row = row->clone();
  const auto other = kv.clone(other_row);
  EXPECT_EQ(pool->pages_in_use(), 3) << "a clone takes no page before it writes";
  const mx::array one = normal({1, 2, 1, 8}, 2);
  other->append_decode(one, one);
  mx::eval(other->pending());
  EXPECT_EQ(pool->pages_in_use(), 4) << "only the partly filled page was copied";
  EXPECT_EQ(row->pages()[0], other_row->pages()[0]);
  EXPECT_NE(row->pages()[2], other_row->pages()[2]);
}

TEST(SequenceState, RollsBackLayersThatCameToDifferentLengths) {
  const auto pool = state::PagePool::create({kShape, kShape});
  auto row = std::make_shared<state::PageRow>(pool);
  std::vector<std::unique_ptr<state::AttentionState>> layers;
  for (int i = 0; i < 2; ++i) layers.push_back(std::make_unique<state::PlainKvState>(row, i));
  state::SequenceState sequence(row, std::move(layers));
  const mx::array k = normal({1, 2, 5, 8}, 1);
  for (int i = 0; i < 2; ++i) sequence.layer(i).append_window(k, k);
  sequence.layer(0).append_window(k, k);  // a forward that was interrupted after the first layer
  EXPECT_EQ(sequence.offset(), 5);
  sequence.rollback(5);
  EXPECT_EQ(sequence.layer(0).offset(), 5);
  EXPECT_EQ(sequence.layer(1).offset(), 5);
  const mx::array q = normal({1, 2, 1, 8}, 2);
  const mx::array one = normal({1, 2, 1, 8}, 3);
  const mx::array first = sequence.layer(0).append_decode(one, one)->attend(q, 0.5F);
  const mx::array second = sequence.layer(1).append_decode(one, one)->attend(q, 0.5F);
  EXPECT_EQ(test::values(first), test::values(second));
  EXPECT_THROW(sequence.rollback(7), Error);
}

TEST(SequenceState, ClonesAndTrimsOfSeveralLayersStayApart) {
  const auto pool = state::PagePool::create({kShape, kShape, kShape});
  auto row = std::make_shared<state::PageRow>(pool);
  std::vector<std::unique_ptr<state::AttentionState>> layers;
  for (int i = 0; i < 3; ++i) layers.push_back(std::make_unique<state::PlainKvState>(row, i));
  state::SequenceState source(row, std::move(layers));
  // Per layer, everything a sequence holds.
  std::vector<mx::array> held(3, mx::zeros({1, 2, 0, 8}));
  uint64_t seed = 0;
  const auto append = [&](state::SequenceState& sequence, std::vector<mx::array>& all, int length) {
    for (int i = 0; i < 3; ++i) {
      const mx::array k = normal({1, 2, length, 8}, ++seed);
      const mx::array q = normal({1, 2, length, 8}, ++seed);
      const mx::array attended = sequence.layer(i).append_window(k, k)->attend(q, 0.5F);
      auto& layer = all[static_cast<std::size_t>(i)];
      layer = mx::concatenate({layer, k}, 2);
      const mx::array expected = kernels::attention(q, layer, layer, 0.5F, tensor::Mask::causal());
      EXPECT_TRUE(test::close(attended, expected, 1e-6)) << "layer " << i;
    }
  };
  const auto trim = [&](state::SequenceState& sequence, std::vector<mx::array>& all, int length) {
    sequence.rollback(length);
    for (auto& layer : all) layer = mx::slice(layer, {0, 0, 0, 0}, {1, 2, length, 8});
  };
  append(source, held, 6);
  state::SequenceState copy = source.clone();
  std::vector<mx::array> copied = held;
  append(copy, copied, 3);
  append(source, held, 1);
  trim(source, held, 5);
  append(source, held, 4);
  trim(copy, copied, 2);
  append(copy, copied, 7);
  append(source, held, 2);
}

TEST(CausalMask, SeesThePastWithinTheWindow) {
  const auto row = [](const mx::array& mask, int i) {
    std::string text;
    for (int j = 0; j < mask.shape(1); ++j) {
      text += mx::slice(mask, {i, j}, {i + 1, j + 1}).item<bool>() ? '1' : '0';
    }
    return text;
  };
  const mx::array full = state::causal_mask(2, 3);
  EXPECT_EQ(row(full, 0), "11110");
  EXPECT_EQ(row(full, 1), "11111");
  const mx::array window = state::causal_mask(3, 2, 2);
  EXPECT_EQ(row(window, 0), "01100");
  EXPECT_EQ(row(window, 1), "00110");
  EXPECT_EQ(row(window, 2), "00011");
}

TEST(MaskMemo, BuildsOncePerKeyAndKeepsLeasesAlive) {
  state::MaskMemo memo;
  const auto lease = [&](const std::string& family, int n) {
    return memo.lease(family, std::to_string(n), [n] { return tensor::Mask::of(state::causal_mask(n, 0)); });
  };
  const auto first = lease("causal", 3);
  EXPECT_EQ(lease("causal", 3), first);
  EXPECT_EQ(memo.builds(), 1);
  const auto second = lease("causal", 4);
  EXPECT_EQ(memo.builds(), 2);
  EXPECT_EQ(first->array->shape(0), 3) << "a lease outlives its replacement";
  lease("rotating:8", 4);
  EXPECT_EQ(lease("causal", 4), second) << "families do not replace each other";
  memo.clear();
  EXPECT_EQ(second->array->shape(0), 4) << "and clear()";
  const auto failing = [&] {
    memo.lease("causal", "x", []() -> tensor::Mask { throw std::runtime_error("no"); });
  };
  EXPECT_THROW(failing(), std::runtime_error);
  EXPECT_EQ(memo.builds(), 3);
}

}  // namespace
}  // namespace tessera
