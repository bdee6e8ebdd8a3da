#include "tessera/artifacts/weight_names.h"

#include <gtest/gtest.h>

#include <utility>

#include "tessera/artifacts/gguf.h"
#include "tests/artifacts/file_builders.h"

namespace tessera::artifacts {
namespace {

TEST(WeightNames, TranslateBothWays) {
  using Pair = std::pair<const char*, const char*>;
  const Pair before[] = {
      {"token_embd.weight", "model.embed_tokens.weight"},
      {"output_norm.weight", "model.norm.weight"},
      {"output.weight", "lm_head.weight"},
      {"blk.0.attn_q.weight", "model.layers.0.self_attn.q_proj.weight"},
      {"blk.12.attn_k.bias", "model.layers.12.self_attn.k_proj.bias"},
      {"blk.3.attn_output.weight", "model.layers.3.self_attn.o_proj.weight"},
      {"blk.3.ffn_down.weight", "model.layers.3.mlp.down_proj.weight"},
      {"blk.3.attn_q_norm.weight", "model.layers.3.self_attn.q_norm.weight"},
      {"blk.3.attn_norm.weight", "model.layers.3.input_layernorm.weight"},
      {"blk.3.ffn_norm.weight", "model.layers.3.post_attention_layernorm.weight"},
  };
  for (const auto& [gguf, canonical] : before) {
    EXPECT_EQ(canonical_name(gguf, NormPlacement::kBefore), canonical);
    EXPECT_EQ(gguf_name(canonical, NormPlacement::kBefore), gguf);
  }
  EXPECT_EQ(canonical_name("blk.3.ffn_norm.weight", NormPlacement::kSandwich),
            "model.layers.3.pre_feedforward_layernorm.weight");
  EXPECT_EQ(canonical_name("blk.3.post_attention_norm.weight", NormPlacement::kSandwich),
            "model.layers.3.post_attention_layernorm.weight");
  EXPECT_EQ(canonical_name("blk.3.post_ffw_norm.weight", NormPlacement::kSandwichSelfAttention),
            "model.layers.3.post_mlp_layernorm.weight");
  for (const char* unknown :
       {"", "rope_freqs.weight", "blk.", "blk.x.attn_q.weight", "blk.0.attn_q", "blk..attn_q.weight",
        "blk.-1.attn_q.weight", "blk.0.unknown.weight", "blk.00000000.attn_q.weight"}) {
    EXPECT_EQ(canonical_name(unknown, NormPlacement::kBefore), std::nullopt) << unknown;
  }
}

TEST(WeightNames, NormPlacementIsSeenInTheTensors) {
  const auto placement = [](const char* architecture, std::initializer_list<const char*> norms) {
    testing::GgufBuilder builder;
    builder.string("general.architecture", architecture);
    for (const char* norm : norms) builder.tensor(norm, {4}, 0, testing::Bytes(16));
    const testing::Bytes bytes = builder.build();
    return norm_placement(GgufFile::parse(bytes, "x"));
  };
  EXPECT_EQ(placement("llama", {"blk.0.attn_norm.weight", "blk.0.ffn_norm.weight"}), NormPlacement::kBefore);
  EXPECT_EQ(placement("gemma3", {"blk.0.ffn_norm.weight", "blk.0.post_ffw_norm.weight"}),
            NormPlacement::kSandwich);
  EXPECT_EQ(placement("glm4", {"blk.0.ffn_norm.weight", "blk.0.post_ffw_norm.weight"}),
            NormPlacement::kSandwichSelfAttention);
  EXPECT_EQ(placement("olmo2", {"blk.0.post_ffw_norm.weight"}), NormPlacement::kAfter);
}

TEST(WeightNames, RowOrderUndoesTheConverter) {
  // The converter views rows as [head, 2, D/2] and swaps the last two axes.
  constexpr int64_t kHeads = 3;
  constexpr int64_t kDim = 8;
  std::vector<int> stored(kHeads * kDim);
  for (int64_t head = 0; head < kHeads; ++head) {
    for (int64_t half = 0; half < 2; ++half) {
      for (int64_t i = 0; i < kDim / 2; ++i) {
        stored[head * kDim + i * 2 + half] = static_cast<int>(head * kDim + half * (kDim / 2) + i);
      }
    }
  }
  const std::vector<int32_t> order = rope_row_order(kHeads, kDim);
  ASSERT_EQ(order.size(), stored.size());
  for (std::size_t row = 0; row < order.size(); ++row) EXPECT_EQ(stored[order[row]], static_cast<int>(row));
}

TEST(WeightNames, KnowWhichRowsAreReordered) {
  EXPECT_TRUE(has_interleaved_rope_rows("llama"));
  EXPECT_FALSE(has_interleaved_rope_rows("qwen2"));
  EXPECT_TRUE(is_rope_projection("blk.7.attn_q.weight"));
  EXPECT_TRUE(is_rope_projection("blk.7.attn_k.bias"));
  EXPECT_FALSE(is_rope_projection("blk.7.attn_v.weight"));
  EXPECT_FALSE(is_rope_projection("blk.7.attn_q_norm.weight"));
}

}  // namespace
}  // namespace tessera::artifacts
