// The Llama graph: pre-normalized blocks of rotary grouped-query attention and a gated MLP.
// Source: Touvron et al. 2023; HF transformers `LlamaForCausalLM`, `MistralForCausalLM`.
#include "tessera/models/llama.h"

#include <mlx/ops.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tessera/base/check.h"
#include "tessera/models/blocks/attention.h"
#include "tessera/models/blocks/gated_mlp.h"
#include "tessera/models/blocks/rope.h"
#include "tessera/state/plain_kv.h"

namespace tessera::models {
namespace {

namespace mx = mlx::core;

struct Block {
  Attention attention;
  GatedMlp mlp;
};

class Llama final : public CausalModel {
 public:
  Llama(Weights& weights, const artifacts::ModelConfig& config, const Composition& composition)
      : config_(config),
        composition_(composition),
        runtime_(weights.runtime()),
        embedding_(weights.embedding("model.embed_tokens", config.vocab_size, config.hidden_size)),
        norm_(weights.rms_norm("model.norm", config.hidden_size, config.rms_norm_eps)) {
    const layers::Rope rope = make_rope(weights);
    for (int64_t i = 0; i < config.n_layers; ++i) {
      const std::string path = "model.layers." + std::to_string(i);
      const auto norm = [&](const char* name) {
        return weights.rms_norm(path + "." + name, config.hidden_size, config.rms_norm_eps);
      };
      blocks_.push_back(Block{
          Attention(weights, path + ".self_attn", config, norm("input_layernorm"), rope),
          GatedMlp(weights, path + ".mlp", config, norm("post_attention_layernorm")),
      });
      // Old checkpoints repeat the rotation's frequencies in every layer.
      weights.ignore(path + ".self_attn.rotary_emb.inv_freq");
    }
    if (config.tie_word_embeddings) {
      // Some tied checkpoints ship the head as well.
      for (const char* part : {"lm_head.weight", "lm_head.scales", "lm_head.biases"}) weights.ignore(part);
    } else {
      head_ = weights.head("lm_head", config.hidden_size, config.vocab_size);
    }
    weights.check_all_used();
    const kernels::PageShape shape{.page_tokens = composition.page_tokens,
                                   .n_kv_heads = static_cast<int>(config.n_kv_heads),
                                   .key_dim = static_cast<int>(config.head_dim),
                                   .value_dim = static_cast<int>(config.head_dim),
                                   .dtype = composition.kv_dtype};
    pool_ = state::PagePool::create(std::vector(blocks_.size(), shape));
  }

  mx::array forward_hidden(const mx::array& ids, state::SequenceState& state,
                           const ForwardContext& context) const override {
    mx::array hidden = embedding_.encode(ids);
    for (std::size_t i = 0; i < blocks_.size(); ++i) {
      const Block& block = blocks_[i];
      context.between_layers(hidden);
      hidden = block.attention.add_to(hidden, state.layer(static_cast<int>(i)), context);
      hidden = block.mlp.add_to(hidden, context);
    }
    return norm_.forward(hidden);
  }

  mx::array logits(const mx::array& hidden) const override {
    return head_ ? head_->forward(hidden) : embedding_.as_linear(hidden);
  }

  state::SequenceState new_state() const override {
    auto row = std::make_shared<state::PageRow>(pool_);
    std::vector<std::unique_ptr<state::AttentionState>> layers;
    for (std::size_t i = 0; i < blocks_.size(); ++i) {
      layers.push_back(std::make_unique<state::PlainKvState>(row, static_cast<int>(i), runtime_));
    }
    return state::SequenceState(std::move(row), std::move(layers));
  }

  const artifacts::ModelConfig& config() const override { return config_; }
  const Composition& composition() const override { return composition_; }

 private:
  layers::Rope make_rope(Weights& weights) const {
    layers::RopeConfig rope = rope_config(config_, composition_.context_length);
    // GGUF files carry the Llama 3 scaling as one factor per frequency.
    rope.frequency_factors = weights.optional_vector("rope_freqs.weight", config_.rope_dims / 2);
    return layers::Rope(rope, runtime_);
  }

  artifacts::ModelConfig config_;
  Composition composition_;
  kernels::Runtime runtime_;
  layers::Embedding embedding_;
  std::vector<Block> blocks_;
  layers::RmsNorm norm_;
  std::optional<layers::Linear> head_;
  std::shared_ptr<state::PagePool> pool_;  // of all sequences of the model
};

}  // namespace

void check_llama(const artifacts::ModelConfig& config) {
  const auto refuse = [&](const std::string& what) {
    base::fail_unsupported("[models.load] ", config.model_type, " with ", what, " is not supported");
  };
  if (config.is_rope_interleaved) refuse("interleaved rotary pairs");
  if (!layers::is_supported_rope_scaling(config.rope_scaling.kind)) {
    refuse("rope scaling '" + config.rope_scaling.kind + "'");
  }
  if (config.hidden_activation != "silu") refuse("the activation '" + config.hidden_activation + "'");
  if (config.sliding_window && *config.sliding_window < config.context_length) {
    refuse("a sliding window of " + std::to_string(*config.sliding_window));
  }
}

std::unique_ptr<CausalModel> load_llama(Weights& weights, const artifacts::ModelConfig& config,
                                        const Composition& composition) {
  return std::make_unique<Llama>(weights, config, composition);
}

}  // namespace tessera::models
