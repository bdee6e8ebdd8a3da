#include "tessera/artifacts/model_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tessera/artifacts/gguf.h"
#include "tessera/base/file.h"
#include "tessera/error.h"
#include "tests/artifacts/file_builders.h"

namespace tessera::artifacts {
namespace {

using testing::Bytes;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

const std::string kSizes =
    R"("model_type":"llama","hidden_size":64,"intermediate_size":96,"num_hidden_layers":2,"num_attention_heads":4,)"
    R"("vocab_size":100,"max_position_embeddings":128,"rms_norm_eps":1e-6)";

ModelConfig parsed(const std::string& more, const std::string& generation = "") {
  return parse_model_config("{" + kSizes + (more.empty() ? "" : "," + more) + "}", generation, "m");
}

std::string refusal(const std::string& json, ErrorKind kind = ErrorKind::kInvalidArtifact,
                    const std::string& generation = "") {
  try {
    parse_model_config(json, generation, "m");
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), kind) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "nothing was thrown for " << json;
  return "";
}

std::string refusal_of(const std::string& more, ErrorKind kind = ErrorKind::kInvalidArtifact) {
  return refusal("{" + kSizes + "," + more + "}", kind);
}

TEST(ModelConfig, FillsDefaults) {
  const ModelConfig config = parsed("");
  EXPECT_EQ(config.model_type, "llama");
  EXPECT_EQ(config.n_kv_heads, 4);
  EXPECT_EQ(config.head_dim, 16);
  EXPECT_EQ(config.rope_dims, 16);
  EXPECT_EQ(config.rope_theta, 10000.0);
  EXPECT_EQ(config.rms_norm_eps, 1e-6);
  EXPECT_EQ(config.rope_scaling.kind, "default");
  EXPECT_EQ(config.context_length, 128);
  EXPECT_FALSE(config.is_tie_stated);
  EXPECT_FALSE(config.sliding_window);
  EXPECT_FALSE(config.quantization.spec("model.layers.0.mlp.up_proj"));
  EXPECT_TRUE(config.eos_token_ids.empty());
}

TEST(ModelConfig, ReadsEveryField) {
  const ModelConfig config = parsed(
      R"("num_key_value_heads":2,"head_dim":32,"rope_theta":500000,"partial_rotary_factor":0.5,"sliding_window":8,)"
      R"("hidden_act":"gelu","hidden_activation":"gelu_pytorch_tanh","attention_bias":true,"mlp_bias":true,)"
      R"("tie_word_embeddings":true,"torch_dtype":"torch.bfloat16","bos_token_id":1,"eos_token_id":[2,3])",
      R"({"eos_token_id":[3,7],"bos_token_id":9})");
  EXPECT_EQ(config.n_kv_heads, 2);
  EXPECT_EQ(config.head_dim, 32);
  EXPECT_EQ(config.rope_dims, 16);
  EXPECT_EQ(config.rope_theta, 500000.0);
  EXPECT_EQ(config.sliding_window, 8);
  EXPECT_EQ(config.hidden_activation, "gelu_pytorch_tanh");
  EXPECT_TRUE(config.attention_bias && config.mlp_bias && config.tie_word_embeddings && config.is_tie_stated);
  EXPECT_EQ(config.dtype, "bfloat16");
  EXPECT_THAT(config.eos_token_ids, ElementsAre(2, 3, 7));
  EXPECT_EQ(config.bos_token_id, 1);
  EXPECT_FALSE(parsed(R"("sliding_window":8,"use_sliding_window":false)").sliding_window);
  EXPECT_EQ(
      parsed(R"("head_dim":null,"sliding_window":null,"rope_scaling":null,"eos_token_id":null)").head_dim,
      16);
}

TEST(ModelConfig, ReadsRopeInEverySpelling) {
  const char* llama3 =
      R"("factor":8.0,"low_freq_factor":1.0,"high_freq_factor":4.0,"original_max_position_embeddings":64)";
  for (const char* outer : {R"("rope_scaling":{"type":"llama3",)", R"("rope_scaling":{"rope_type":"llama3",)",
                            R"("rope_parameters":{"rope_theta":10000.0,"rope_type":"llama3",)"}) {
    const ModelConfig config = parsed(std::string(outer) + llama3 + "}");
    EXPECT_EQ(config.rope_scaling.kind, "llama3");
    EXPECT_EQ(config.rope_scaling.factor, 8.0);
    EXPECT_EQ(config.rope_scaling.original_context_length, 64);
    EXPECT_EQ(config.rope_theta, 10000.0);
  }
  const ModelConfig nested =
      parsed(R"("rope_parameters":{"full_attention":{"rope_theta":1e6,"rope_type":"default"},)"
             R"("sliding_attention":{"rope_theta":1e4,"rope_type":"default"}})");
  EXPECT_EQ(nested.rope_theta, 1e6);
  const ModelConfig linear = parsed(R"("rope_scaling":{"type":"linear","factor":4.0},"rope_theta":20000.0)");
  EXPECT_EQ(linear.rope_scaling.kind, "linear");
  EXPECT_EQ(linear.rope_theta, 20000.0);
  EXPECT_EQ(linear.rope_scaling.original_context_length, 128);
  EXPECT_THAT(refusal_of(R"("rope_scaling":{"type":"linear"})"), HasSubstr("rope_scaling.factor is missing"));
  EXPECT_THAT(refusal_of(R"("rope_scaling":{"type":"llama3","factor":8})"),
              HasSubstr("original_max_position_embeddings"));
  EXPECT_THAT(refusal_of(R"("rope_scaling":{"type":"linear","factor":-1})"), HasSubstr("factor"));
  EXPECT_THAT(
      refusal_of(
          std::string(R"("rope_scaling":{"type":"llama3",)") +
          R"("factor":8,"low_freq_factor":4,"high_freq_factor":4,"original_max_position_embeddings":64})"),
      HasSubstr("low_freq_factor"));
}

TEST(ModelConfig, ReadsYarn) {
  const ModelConfig config = parsed(
      R"("rope_scaling":{"type":"yarn","factor":40,"original_max_position_embeddings":64,"beta_fast":16,)"
      R"("beta_slow":2,"mscale":0.5,"mscale_all_dim":0.707,"attention_factor":1.5,"truncate":false})");
  const RopeScaling& rope = config.rope_scaling;
  EXPECT_EQ(rope.kind, "yarn");
  EXPECT_EQ(rope.original_context_length, 64);
  EXPECT_EQ(rope.beta_fast, 16);
  EXPECT_EQ(rope.beta_slow, 2);
  EXPECT_EQ(rope.mscale, 0.5);
  EXPECT_EQ(rope.mscale_all_dim, 0.707);
  EXPECT_EQ(rope.attention_factor, 1.5);
  EXPECT_FALSE(rope.is_ramp_truncated);
  const RopeScaling bare =
      parsed(R"("rope_scaling":{"rope_type":"yarn","original_max_position_embeddings":32})").rope_scaling;
  EXPECT_EQ(bare.factor, 4.0) << "the ratio of the context lengths";
  EXPECT_EQ(bare.beta_fast, 32);
  EXPECT_FALSE(bare.attention_factor);
  const auto refused = [](const std::string& more) {
    return refusal_of(R"("rope_scaling":{"type":"yarn","factor":4,)" + more + "}");
  };
  EXPECT_THAT(refused(R"("beta_fast":1,"beta_slow":32)"), HasSubstr("beta_slow"));
  EXPECT_THAT(refused(R"("beta_fast":-1)"), HasSubstr("beta_fast"));
  EXPECT_THAT(refused(R"("mscale":-1)"), HasSubstr("mscale"));
  EXPECT_THAT(refused(R"("attention_factor":0)"), HasSubstr("attention_factor"));
  EXPECT_THAT(refused(R"("truncate":1)"), HasSubstr("truncate"));
  EXPECT_THAT(refusal_of(R"("rope_theta":1,"rope_scaling":{"type":"yarn","factor":4})"),
              HasSubstr("rope_theta"));
}

TEST(ModelConfig, ReadsLongrope) {
  const std::string factors = R"("short_factor":[1,1,1,1,1,1,1,1.5],"long_factor":[1,2,3,4,5,6,7,8]})";
  for (const char* type : {R"("type":"longrope",)", R"("type":"su",)", R"("rope_type":"longrope",)"}) {
    const ModelConfig config =
        parsed(R"("original_max_position_embeddings":32,"rope_scaling":{)" + std::string(type) + factors);
    EXPECT_EQ(config.rope_scaling.kind, "longrope");
    EXPECT_EQ(config.rope_scaling.original_context_length, 32);
    EXPECT_EQ(config.rope_scaling.factor, 4.0) << "the ratio of the context lengths";
    EXPECT_THAT(config.rope_scaling.long_factors, ElementsAre(1, 2, 3, 4, 5, 6, 7, 8));
    EXPECT_EQ(config.rope_scaling.short_factors.back(), 1.5);
  }
  const auto refused = [](const std::string& more) {
    return refusal_of(R"("rope_scaling":{"type":"longrope",)" + more + "}");
  };
  EXPECT_THAT(refused(R"("short_factor":[1])"), HasSubstr("rope_scaling.long_factor is missing"));
  EXPECT_THAT(refused(R"("short_factor":[1],"long_factor":[1])"), HasSubstr("expected 8"));
  EXPECT_THAT(refused(R"("short_factor":1,"long_factor":[1])"), HasSubstr("expected a list of numbers"));
  EXPECT_THAT(refused(R"("short_factor":["1"],"long_factor":[1])"), HasSubstr("string in it"));
  EXPECT_THAT(refused(R"("short_factor":[1,1,1,1,1,1,1,0],"long_factor":[1,1,1,1,1,1,1,1])"),
              HasSubstr("short_factor"));
}

TEST(ModelConfig, ReadsTheOtherKindsOfRope) {
  const ModelConfig dynamic =
      parsed(R"("rope_scaling":{"type":"dynamic","factor":2,"original_max_position_embeddings":64})");
  EXPECT_EQ(dynamic.rope_scaling.original_context_length, 128) << "dynamic stretches max_position_embeddings";
  const ModelConfig proportional = parsed(
      R"("rope_parameters":{"rope_type":"proportional","rope_theta":1e6,"partial_rotary_factor":0.25})");
  EXPECT_EQ(proportional.rope_dims, 16) << "all of a head";
  EXPECT_EQ(proportional.rope_scaling.proportion, 0.25);
  EXPECT_EQ(proportional.rope_scaling.factor, 1.0);
  EXPECT_EQ(parsed(R"("rope_scaling":{"type":"mrope","mrope_section":[1,2]})").rope_scaling.kind, "mrope")
      << "who builds the model refuses it by this name";
}

TEST(ModelConfig, ReadsNestedTextConfig) {
  const ModelConfig config =
      parse_model_config(R"({"model_type":"outer","text_config":{)" + kSizes +
                             R"(},"tie_word_embeddings":true,"dtype":"float16","eos_token_id":5})",
                         "", "m");
  EXPECT_EQ(config.model_type, "llama");
  EXPECT_EQ(config.hidden_size, 64);
  EXPECT_TRUE(config.tie_word_embeddings);
  EXPECT_EQ(config.dtype, "float16");
  EXPECT_THAT(config.eos_token_ids, ElementsAre(5));
}

TEST(ModelConfig, ReadsQuantization) {
  const std::string body =
      R"({"group_size":32,"bits":4,"a.b":{"group_size":64,"bits":8},"a.c":false,"a.d":true,"a.e":{"bits":6}})";
  for (const std::string key : {"quantization", "quantization_config"}) {
    const QuantizationConfig q = parsed("\"" + key + "\":" + body).quantization;
    EXPECT_EQ(q.spec("other")->bits, 4);
    EXPECT_EQ(q.spec("other")->group_size, 32);
    EXPECT_EQ(q.spec("other")->mode, "affine");
    EXPECT_EQ(q.spec("a.b")->bits, 8);
    EXPECT_EQ(q.spec("a.b")->group_size, 64);
    EXPECT_FALSE(q.spec("a.c"));
    EXPECT_EQ(q.spec("a.d")->bits, 4);
    EXPECT_EQ(q.spec("a.e")->group_size, 32);
  }
  // MLX writes both keys.
  EXPECT_EQ(
      parsed(R"("quantization":{"bits":8},"quantization_config":{"bits":8})").quantization.spec("x")->bits,
      8);
  EXPECT_EQ(parsed(R"("quantization":{"mode":"mxfp4"})").quantization.spec("x")->group_size, 32);
  EXPECT_FALSE(parsed(R"("quantization":{"a":{"bits":4,"group_size":64}})").quantization.spec("b"));
  const auto unsupported = ErrorKind::kUnsupported;
  EXPECT_THAT(refusal_of(R"("quantization_config":{"quant_method":"gptq","bits":4})", unsupported),
              HasSubstr("gptq"));
  EXPECT_THAT(
      refusal_of(R"("quantization":{"bits":8},"quantization_config":{"quant_method":"gptq"})", unsupported),
      HasSubstr("quantization_config.quant_method \"gptq\""));
  EXPECT_THAT(refusal_of(R"("quantization":{"bits":8,"quant_method":"awq"})", unsupported), HasSubstr("awq"));
  for (const std::string value : {"\"junk\"", "4", "[8]"}) {
    EXPECT_THAT(refusal_of(R"("quantization":{"bits":4,"model.embed_tokens":)" + value + "}"),
                HasSubstr("quantization.\"model.embed_tokens\"; expected true, false or an object"));
  }
  EXPECT_THAT(refusal_of(R"("quantization":{"bits":7})", unsupported), HasSubstr("quantization.bits"));
  EXPECT_THAT(refusal_of(R"("quantization":{"bits":4,"group_size":48})", unsupported),
              HasSubstr("group_size"));
  EXPECT_THAT(refusal_of(R"("quantization":{"mode":"nf4"})", unsupported), HasSubstr("nf4"));
  EXPECT_THAT(refusal_of(R"("quantization":{"bits":"4"})"), HasSubstr("expected an integer"));
}

TEST(ModelConfig, NamesTheWrongField) {
  EXPECT_THAT(refusal("{}"), HasSubstr("model_type is missing"));
  EXPECT_THAT(refusal("[]"), HasSubstr("expected an object"));
  EXPECT_THAT(refusal("{"), HasSubstr("not valid JSON"));
  EXPECT_THAT(refusal(R"({"model_type":"llama"})"), HasSubstr("m/config.json: hidden_size is missing"));
  EXPECT_THAT(refusal_of(R"("hidden_size":-64)"), HasSubstr("hidden_size; expected 1 to"));
  EXPECT_THAT(refusal_of(R"("hidden_size":64.5)"), HasSubstr("hidden_size; expected an integer"));
  EXPECT_THAT(refusal_of(R"("vocab_size":18446744073709551615)"), HasSubstr("vocab_size"));
  EXPECT_THAT(refusal_of(R"("vocab_size":1e300)"), HasSubstr("vocab_size"));
  EXPECT_THAT(refusal_of(R"("num_key_value_heads":3)"), HasSubstr("multiple of the 3"));
  EXPECT_THAT(refusal_of(R"("num_attention_heads":5)"), HasSubstr("head_dim is missing"));
  EXPECT_THAT(refusal_of(R"("head_dim":15)"), HasSubstr("rotated dims"));
  EXPECT_THAT(refusal_of(R"("partial_rotary_factor":1.5)"), HasSubstr("partial_rotary_factor"));
  EXPECT_THAT(refusal_of(R"("rms_norm_eps":0)"), HasSubstr("rms_norm_eps"));
  EXPECT_THAT(refusal_of(R"("rms_norm_eps":1e-60)"),
              HasSubstr("rms_norm_eps; expected 1e-30 to 1, got 1e-60"));
  EXPECT_THAT(refusal_of(R"("rms_norm_eps":1.5)"), HasSubstr("rms_norm_eps"));
  EXPECT_THAT(refusal_of(R"("rope_theta":-1.0)"), HasSubstr("rope_theta"));
  EXPECT_THAT(refusal_of(R"("rope_theta":1e39)"), HasSubstr("rope_theta; expected 1 to 1e+30, got 1e+39"));
  EXPECT_THAT(refusal_of(R"("rope_scaling":{"rope_type":"linear","factor":1e300})"), HasSubstr("factor"));
  EXPECT_THAT(refusal_of(R"("eos_token_id":[1,"x"])"), HasSubstr("eos_token_id"));
  EXPECT_THAT(refusal_of(R"("eos_token_id":-1)"), HasSubstr("eos_token_id"));
  EXPECT_THAT(refusal_of(R"("text_config":7)"), HasSubstr("text_config; expected an object"));
  EXPECT_THAT(refusal("{" + kSizes + "}", ErrorKind::kInvalidArtifact, "nonsense"),
              HasSubstr("generation_config.json"));
}

TEST(ModelConfig, ReadsFixtures) {
  const std::string folder = std::string(TESSERA_FIXTURES) + "/";
  const auto read = [&](const std::string& name) {
    return parse_model_config(base::read_file(folder + name + "/config.json"),
                              base::read_file(folder + name + "/generation_config.json"), name);
  };
  EXPECT_TRUE(read("llama-tiny-tied").tie_word_embeddings);
  EXPECT_EQ(read("llama-tiny-untied").head_dim, 32);
  EXPECT_EQ(read("llama-tiny-rope3").rope_scaling.original_context_length, 64);
  EXPECT_EQ(read("llama-tiny-rope-linear").rope_scaling.factor, 4.0);
  EXPECT_EQ(read("mistral-tiny").rope_theta, 50000.0);
  EXPECT_EQ(read("mistral-tiny").dtype, "float16");
  const ModelConfig quantized = read("llama-tiny-4bit");
  EXPECT_EQ(quantized.quantization.spec("model.layers.1.mlp.down_proj")->bits, 8);
  EXPECT_FALSE(quantized.quantization.spec("model.layers.0.self_attn.o_proj"));
  EXPECT_THAT(quantized.eos_token_ids, ElementsAre(2, 0));  // 2 in both files, 0 in the second only
}

ModelConfig from_gguf(const testing::GgufBuilder& builder) {
  const Bytes bytes = builder.build();
  return parse_model_config(GgufFile::parse(bytes, "m.gguf"));
}

TEST(ModelConfig, ReadsGguf) {
  const ModelConfig config = from_gguf(testing::tiny_gguf_model());
  EXPECT_EQ(config.model_type, "llama");
  EXPECT_EQ(config.hidden_size, 64);
  EXPECT_EQ(config.intermediate_size, 96);
  EXPECT_EQ(config.n_heads, 4);
  EXPECT_EQ(config.n_kv_heads, 2);
  EXPECT_EQ(config.head_dim, 16);
  EXPECT_EQ(config.rope_dims, 16);
  EXPECT_EQ(config.vocab_size, 4);
  EXPECT_EQ(config.rope_theta, 100000.0);
  EXPECT_FALSE(config.is_rope_interleaved);
  EXPECT_FALSE(config.attention_bias);
  EXPECT_TRUE(config.tie_word_embeddings);
  EXPECT_THAT(config.eos_token_ids, ElementsAre(3));
  EXPECT_EQ(config.bos_token_id, 0);
}

TEST(ModelConfig, ReadsGgufVariants) {
  auto builder = testing::tiny_gguf_model();
  builder.u32("llama.attention.key_length", 32)
      .u32("llama.attention.value_length", 32)
      .u32("llama.rope.dimension_count", 32);
  builder.string("llama.rope.scaling.type", "linear").f32("llama.rope.scaling.factor", 4.0f);
  builder.u32("llama.attention.sliding_window", 512)
      .u32("tokenizer.ggml.eot_token_id", 2)
      .u32("llama.vocab_size", 4);
  builder.tensor("output.weight", {64, 4}, 0, Bytes(1024)).tensor("blk.0.attn_q.bias", {64}, 0, Bytes(256));
  ModelConfig config = from_gguf(builder);
  EXPECT_EQ(config.head_dim, 32);
  EXPECT_EQ(config.rope_dims, 32);
  EXPECT_EQ(config.rope_scaling.kind, "linear");
  EXPECT_EQ(config.rope_scaling.factor, 4.0);
  EXPECT_EQ(config.sliding_window, 512);
  EXPECT_TRUE(config.attention_bias);
  EXPECT_FALSE(config.tie_word_embeddings);
  EXPECT_THAT(config.eos_token_ids, ElementsAre(3, 2));
  config = from_gguf(testing::tiny_gguf_model().tensor("rope_freqs.weight", {8}, 0, Bytes(32)));
  EXPECT_EQ(config.rope_scaling.kind, "factors");
}

TEST(ModelConfig, ReadsPerLayerSizesOfGguf) {
  const auto with_ffn = [](const std::vector<uint32_t>& sizes) {
    testing::GgufBuilder builder;
    builder.string("general.architecture", "qwen2")
        .u32("qwen2.block_count", 2)
        .u32("qwen2.embedding_length", 64);
    builder.array<uint32_t>("qwen2.feed_forward_length", 4, sizes).u32("qwen2.attention.head_count", 4);
    builder.u32("qwen2.context_length", 64)
        .u32("qwen2.vocab_size", 9)
        .u32("qwen2.rope.dimension_count", 8)
        .f32("qwen2.attention.layer_norm_rms_epsilon", 1e-6f);
    return from_gguf(builder);
  };
  EXPECT_EQ(with_ffn({96, 96}).intermediate_size, 96);
  EXPECT_EQ(with_ffn({96, 96}).model_type, "qwen2");
  EXPECT_EQ(with_ffn({96, 96}).rope_dims, 8);
  EXPECT_THROW(with_ffn({96, 128}), Error);
  EXPECT_THROW(with_ffn({}), Error);
}

/// What a model of these keys is refused with.
std::string unsupported_gguf(const testing::GgufBuilder& builder) {
  try {
    from_gguf(builder);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUnsupported) << error.what();
    return error.what();
  }
  return "no error";
}

TEST(ModelConfig, RefusesGgufKeysThatChangeTheResults) {
  const auto with_number = [](const std::string& name, float value) {
    return testing::tiny_gguf_model().f32("llama." + name, value);
  };
  for (const std::string name : {"logit_scale", "embedding_scale", "residual_scale",
                                 "rope.scaling.attn_factor", "rope.scaling.yarn_attn_factor"}) {
    EXPECT_THAT(unsupported_gguf(with_number(name, 0.5f)), HasSubstr("llama." + name));
    from_gguf(with_number(name, 1));
    from_gguf(with_number(name, 0));
  }
  for (const std::string name : {"attn_logit_softcapping", "final_logit_softcapping", "attention.clamp_kqv",
                                 "attention.max_alibi_bias", "rope.scaling.yarn_log_multiplier"}) {
    EXPECT_THAT(unsupported_gguf(with_number(name, 30)), HasSubstr("llama." + name));
    from_gguf(with_number(name, 0));
  }
  EXPECT_THAT(unsupported_gguf(with_number("attention.scale", 0.125f)), HasSubstr("llama.attention.scale"));
  EXPECT_THAT(unsupported_gguf(with_number("attention.scale", NAN)), HasSubstr("llama.attention.scale"));
  from_gguf(with_number("attention.scale", 0.25f));  // 1 / sqrt(16)
  const auto with_flag = [](const std::string& name, bool value) {
    return testing::tiny_gguf_model().boolean("llama." + name, value);
  };
  EXPECT_THAT(unsupported_gguf(with_flag("attention.causal", false)), HasSubstr("llama.attention.causal"));
  EXPECT_THAT(unsupported_gguf(with_flag("use_parallel_residual", true)), HasSubstr("use_parallel_residual"));
  from_gguf(with_flag("attention.causal", true));
}

TEST(ModelConfig, ReadsYarnOfGgufAndRefusesItsLongrope) {
  auto builder = testing::tiny_gguf_model();
  builder.string("llama.rope.scaling.type", "yarn").f32("llama.rope.scaling.factor", 4);
  builder.u32("llama.rope.scaling.original_context_length", 32)
      .f32("llama.rope.scaling.yarn_beta_fast", 16)
      .f32("llama.rope.scaling.yarn_beta_slow", 2);
  const RopeScaling rope = from_gguf(builder).rope_scaling;
  EXPECT_EQ(rope.kind, "yarn");
  EXPECT_EQ(rope.factor, 4);
  EXPECT_EQ(rope.original_context_length, 32);
  EXPECT_EQ(rope.beta_fast, 16);
  EXPECT_EQ(rope.beta_slow, 2);
  for (const float share : {-1.0F, 1.0F}) {
    auto whole = builder;
    from_gguf(whole.f32("llama.rope.scaling.yarn_ext_factor", share));
  }
  EXPECT_THAT(unsupported_gguf(builder.f32("llama.rope.scaling.yarn_ext_factor", 0)),
              HasSubstr("yarn_ext_factor"));
  EXPECT_THAT(unsupported_gguf(testing::tiny_gguf_model().f32("llama.rope.scaling.yarn_ext_factor", 1)),
              HasSubstr("yarn_ext_factor"));
  EXPECT_THAT(unsupported_gguf(testing::tiny_gguf_model().string("llama.rope.scaling.type", "longrope")),
              HasSubstr("longrope"));
}

TEST(ModelConfig, RefusesPartsOfAHeadInInterleavedRows) {
  EXPECT_THAT(unsupported_gguf(testing::tiny_gguf_model().u32("llama.rope.dimension_count", 8)),
              HasSubstr("llama.rope.dimension_count"));
}

}  // namespace
}  // namespace tessera::artifacts
