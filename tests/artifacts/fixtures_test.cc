// Every model of fixtures/ goes through its parsers from the name to the tensors.
#include <gtest/gtest.h>

#include <filesystem>
#include <memory>

#include "tessera/artifacts/gguf.h"
#include "tessera/artifacts/model_config.h"
#include "tessera/artifacts/model_files.h"
#include "tessera/artifacts/safetensors.h"
#include "tessera/artifacts/tokenizer_files.h"
#include "tessera/artifacts/weight_names.h"
#include "tessera/base/file.h"

namespace tessera::artifacts {
namespace {

namespace fs = std::filesystem;

const fs::path kFixtures = TESSERA_FIXTURES;

TEST(Fixtures, EverySafetensorsModelParses) {
  int n_models = 0;
  for (const auto& entry : fs::directory_iterator(kFixtures)) {
    if (!fs::exists(entry.path() / "config.json")) continue;
    SCOPED_TRACE(entry.path().filename());
    ++n_models;
    const ModelFiles files = find_model(entry.path().string());
    const ModelConfig config =
        parse_model_config(base::read_file(files.folder / "config.json"),
                           base::read_file(files.folder / "generation_config.json"), "m");
    EXPECT_EQ(config.vocab_size, 384);
    std::size_t n_tensors = 0;
    for (const fs::path& shard : files.safetensors) {
      const auto mapped = base::MappedFile::open(shard);
      n_tensors += parse_safetensors(mapped->bytes(), shard.string()).tensors.size();
    }
    EXPECT_GE(n_tensors, 20u);
    EXPECT_FALSE(read_tokenizer_source(files).tokenizer_json.empty());
  }
  EXPECT_GE(n_models, 12);
}

TEST(Fixtures, EveryGgufModelParses) {
  int n_files = 0;
  for (const auto& entry : fs::directory_iterator(kFixtures / "gguf")) {
    if (entry.path().extension() != ".gguf") continue;
    SCOPED_TRACE(entry.path().filename());
    ++n_files;
    const ModelFiles files = find_model(entry.path().string());
    std::vector<std::shared_ptr<const base::MappedFile>> maps;
    for (const fs::path& part : files.gguf) maps.push_back(base::MappedFile::open(part));
    GgufFile file = GgufFile::parse(maps.front()->bytes(), files.gguf.front().string());
    for (std::size_t i = 1; i < maps.size(); ++i) {
      file.merge(GgufFile::parse(maps[i]->bytes(), files.gguf[i].string()));
    }
    file.check_complete();
    const ModelConfig config = parse_model_config(file);
    EXPECT_EQ(config.vocab_size, 384);
    EXPECT_EQ(config.tie_word_embeddings, file.tensors().count("output.weight") == 0);
    for (const auto& [name, tensor] : file.tensors()) {
      if (name == "rope_freqs.weight") continue;
      EXPECT_TRUE(canonical_name(name, norm_placement(file))) << name;
    }
    const TokenizerSource tokenizer = read_tokenizer_source(files);
    ASSERT_TRUE(tokenizer.gguf);
    EXPECT_EQ(tokenizer.gguf->tokens.size(), 384u);
    EXPECT_EQ(tokenizer.gguf->bos_id, 1);
  }
  EXPECT_GE(n_files, 14);
}

}  // namespace
}  // namespace tessera::artifacts
