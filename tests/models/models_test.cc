// What loading decides and refuses.
#include <cstring>
#include <filesystem>
#include <fstream>

#include "tessera/artifacts/checkpoint.h"
#include "tessera/error.h"
#include "tessera/model.h"
#include "tessera/models/load.h"
#include "tessera/models/registry.h"
#include "tests/arrays.h"
#include "tests/temporary_folder.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

/// A copy of a fixture model that a test may damage.
class ModelCopy {
 public:
  explicit ModelCopy(const std::string& name) {
    fs::copy(test::fixture(name), folder_.path(), fs::copy_options::recursive);
  }

  std::string path() const { return folder_.path().string(); }
  /// Replaces text in config.json; the text must be there.
  void edit_config(const std::string& from, const std::string& to) const {
    std::ifstream in(folder_.path() / "config.json");
    std::string text((std::istreambuf_iterator<char>(in)), {});
    const std::size_t at = text.find(from);
    ASSERT_NE(at, std::string::npos) << from << " is not in config.json";
    text.replace(at, from.size(), to);
    folder_.write("config.json", text);
  }

 private:
  test::TemporaryFolder folder_;
};

/// The error of loading, as "kind: message"; "" when it loads.
std::string load_error(const ModelOptions& options) {
  try {
    models::load_model(options);
  } catch (const Error& error) {
    return std::string(error_kind_name(error.kind())) + ": " + error.what();
  }
  return "";
}

void expect_error(const std::string& error, const std::string& kind, const std::string& part) {
  EXPECT_EQ(error.substr(0, error.find(':')), kind) << error;
  EXPECT_NE(error.find(part), std::string::npos) << error;
  EXPECT_EQ(error.find('\n'), std::string::npos) << error;
}

TEST(Load, RefusesWhatItDoesNotKnowByName) {
  const ModelCopy model("llama-tiny-tied");
  model.edit_config("\"model_type\": \"llama\"", "\"model_type\": \"warp-drive\"");
  expect_error(load_error({.model = model.path()}), "unsupported", "warp-drive");
  EXPECT_FALSE(inspect_model(model.path()).notes.empty()) << "inspect describes it all the same";
}

TEST(Load, RefusesAnActivationItDoesNotHave) {
  const ModelCopy model("llama-tiny-tied");
  model.edit_config("\"silu\"", "\"gelu\"");
  expect_error(load_error({.model = model.path()}), "unsupported", "gelu");
}

TEST(Load, NamesATensorThatHasAnotherShape) {
  const ModelCopy model("llama-tiny-tied");
  model.edit_config("\"intermediate_size\": 128", "\"intermediate_size\": 96");
  expect_error(load_error({.model = model.path()}), "invalid_artifact", "mlp");
}

TEST(Load, NamesATensorThatIsMissing) {
  const ModelCopy model("llama-tiny-tied");
  model.edit_config("\"num_hidden_layers\": 2", "\"num_hidden_layers\": 3");
  expect_error(load_error({.model = model.path()}), "invalid_artifact", "model.layers.2.");
}

TEST(Load, NamesATensorThatNobodyUses) {
  const ModelCopy model("llama-tiny-tied");
  model.edit_config("\"num_hidden_layers\": 2", "\"num_hidden_layers\": 1");
  expect_error(load_error({.model = model.path()}), "invalid_artifact", "model.layers.1.");
}

TEST(Load, AnUntiedModelNeedsItsHead) {
  const ModelCopy model("llama-tiny-tied");
  model.edit_config("\"tie_word_embeddings\": true", "\"tie_word_embeddings\": false");
  expect_error(load_error({.model = model.path()}), "invalid_artifact", "lm_head.weight");
}

TEST(Load, ATiedModelMayShipItsHead) {
  const ModelCopy model("llama-tiny-untied");
  model.edit_config("\"tie_word_embeddings\": false", "\"tie_word_embeddings\": true");
  EXPECT_EQ(load_error({.model = model.path()}), "");
}

TEST(Load, QuantizationMustFitTheTensors) {
  const ModelCopy model("llama-tiny-3bit");
  model.edit_config("\"group_size\": 32", "\"group_size\": 64");
  expect_error(load_error({.model = model.path()}), "invalid_artifact", "scales");
}

TEST(Load, CountsEveryTensorInItsReport) {
  const auto checkpoint =
      artifacts::Checkpoint::open(artifacts::find_model(test::fixture("llama-tiny-4bit")));
  std::size_t parts = 0;
  for (const auto& report : checkpoint->report(mlx::core::float32)) {
    EXPECT_GT(report.elements, 0U) << report.name;
    EXPECT_GT(report.loaded_bytes, 0U) << report.name;
    parts += checkpoint->contains(report.name + ".scales") ? 3 : 1;
  }
  EXPECT_EQ(parts, checkpoint->names().size());
}

TEST(Load, RepackingDoesNotDependOnTheThreads) {
  // The embedding's 24,576 elements are two pieces.
  const auto files = artifacts::find_model(test::fixture("gguf/llama-tiny-q4_1.gguf"));
  const auto serial = artifacts::Checkpoint::open(files);
  const auto parallel = artifacts::Checkpoint::open(files, std::make_shared<base::ThreadPool>(3));
  for (const auto& report : serial->report(mlx::core::float32)) {
    if (!serial->contains(report.name + ".weight")) continue;
    if (report.loaded_as.find("affine") == std::string::npos) continue;
    const auto a = std::get<tensor::QuantizedTensor>(serial->weight(report.name));
    const auto b = std::get<tensor::QuantizedTensor>(parallel->weight(report.name));
    EXPECT_TRUE(mlx::core::array_equal(a.w, b.w).item<bool>()) << report.name;
    EXPECT_TRUE(mlx::core::array_equal(a.scales, b.scales).item<bool>()) << report.name;
    EXPECT_TRUE(mlx::core::array_equal(*a.biases, *b.biases).item<bool>()) << report.name;
  }
}

TEST(Load, AHugeMatrixOfNoBytesIsRefused) {
  const test::TemporaryFolder folder;
  const std::string header = R"({"a.weight":{"dtype":"U32","shape":[0,2147483647],"data_offsets":[0,0]},)"
                             R"("a.scales":{"dtype":"F32","shape":[0,4],"data_offsets":[0,0]},)"
                             R"("a.biases":{"dtype":"F32","shape":[0,4],"data_offsets":[0,0]}})";
  std::string bytes(8, '\0');
  const uint64_t length = header.size();
  std::memcpy(bytes.data(), &length, sizeof length);
  folder.write("model.safetensors", bytes + header);
  std::ifstream config(test::fixture("llama-tiny-4bit/config.json"));
  folder.write("config.json", std::string((std::istreambuf_iterator<char>(config)), {}));
  const auto checkpoint = artifacts::Checkpoint::open(artifacts::find_model(folder.path().string()));
  EXPECT_THROW(checkpoint->weight("a"), Error);
}

artifacts::ModelConfig small_config() {
  artifacts::ModelConfig config;
  config.n_layers = 2;
  config.n_kv_heads = 2;
  config.head_dim = 16;
  config.context_length = 1024;
  return config;
}

TEST(Plan, RefusesWhatCannotFitWithTheEstimate) {
  const uint64_t petabyte = 1ULL << 50;
  try {
    models::plan(small_config(), {}, petabyte);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kResourceExhausted);
    EXPECT_NE(std::string(error.what()).find("1073741825 MiB"), std::string::npos) << error.what();
  }
}

TEST(Plan, ResolvesDefaultsAndOptions) {
  const models::Composition defaults = models::plan(small_config(), {}, 0);
  EXPECT_EQ(defaults.context_length, 1024);
  EXPECT_EQ(defaults.dtype, mlx::core::float32);
  EXPECT_EQ(defaults.products, kernels::Products::kBFloat16);
  EXPECT_EQ(defaults.kv_bytes_per_token, 2U * 2 * 2 * 16 * 2);
  const models::Composition exact = models::plan(small_config(), {.precision = Precision::kFloat32}, 0);
  EXPECT_EQ(exact.products, kernels::Products::kFloat32);
  EXPECT_EQ(exact.kv_bytes_per_token, 2U * 2 * 2 * 16 * 4);
  EXPECT_EQ(models::plan(small_config(), {.precision = Precision::kInt8}, 0).products,
            kernels::Products::kInt8);
  EXPECT_EQ(models::plan(small_config(), {.context_length = 50}, 0).page_tokens, 64);
  const models::Composition chosen =
      models::plan(small_config(),
                   {.precision = Precision::kBFloat16, .context_length = 64, .prefill_chunk_tokens = 5}, 0);
  EXPECT_EQ(chosen.context_length, 64);
  EXPECT_EQ(chosen.page_tokens, 64);
  EXPECT_EQ(chosen.prefill_chunk_tokens, 5);
  EXPECT_EQ(chosen.dtype, mlx::core::bfloat16);
  EXPECT_EQ(chosen.kv_bytes_per_token, 2U * 2 * 2 * 16 * 2);
}

TEST(Plan, RefusesOptionsOutOfRange) {
  EXPECT_THROW(models::plan(small_config(), {.context_length = 1025}, 0), Error);
  EXPECT_THROW(models::plan(small_config(), {.context_length = -1}, 0), Error);
  EXPECT_THROW(models::plan(small_config(), {.prefill_chunk_tokens = -1}, 0), Error);
}

TEST(Registry, ListsWhatItSupports) {
  for (const std::string& type : models::supported_model_types()) {
    EXPECT_EQ(models::find_family(type).model_type, type);
  }
  EXPECT_THROW(models::find_family(""), Error);
}

TEST(Inspect, DescribesAQuantizedModel) {
  const ModelInfo info = inspect_model(test::fixture("llama-tiny-4bit"));
  EXPECT_EQ(info.format, "safetensors");
  EXPECT_EQ(info.n_layers, 2);
  EXPECT_EQ(info.kv_bytes_per_token, 2U * 2 * 2 * 16 * 4);
  bool has_override = false;
  uint64_t stored = 0;
  for (const TensorClassInfo& tensors : info.tensors) {
    has_override = has_override || (tensors.tensor_class == "mlp" && tensors.stored_as == "affine 8-bit g64");
    stored += tensors.stored_bytes;
  }
  EXPECT_TRUE(has_override);
  EXPECT_EQ(stored, info.stored_bytes);
}

}  // namespace
}  // namespace tessera
