// A tiny model under rope scalings that scale attention too, against HF transformers (fixtures/rope-models).
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tessera/execution/sequence.h"
#include "tessera/models/load.h"
#include "tests/arrays.h"
#include "tests/temporary_folder.h"

namespace tessera {
namespace {

using nlohmann::json;
using test::close;
namespace mx = mlx::core;

constexpr double kLogits = 1e-4;  // as for every tiny model

json read(const std::string& path) {
  std::ifstream file(path);
  return json::parse(file);
}

TEST(RopeModels, LogitsEqualTheGoldens) {
  const auto goldens = test::load_fixture("rope-models/golden.safetensors");
  const auto base = test::load_fixture("llama-tiny-tied/golden.safetensors");
  const std::vector<int32_t> tokens = test::ids(base.at("input_ids"));
  const json cases = read(test::fixture("rope-models/cases.json"));
  ASSERT_GE(cases.size(), 3U);
  for (const auto& [name, changes] : cases.items()) {
    SCOPED_TRACE(name);
    const test::TemporaryFolder folder;
    std::filesystem::copy(test::fixture("llama-tiny-tied"), folder.path(),
                          std::filesystem::copy_options::recursive);
    json config = read(folder.path() / "config.json");
    config.update(changes);
    folder.write("config.json", config.dump());
    const auto model =
        models::load_model({.model = folder.path().string(), .precision = Precision::kFloat32});
    const mx::array& expected = goldens.at(name);
    const int rows = expected.shape(0), length = static_cast<int>(tokens.size());

    state::SequenceState state = model->new_state();
    const mx::array hidden = model->forward_hidden(mx::array(tokens.data(), {1, length}, mx::int32), state,
                                                   {.phase = state::Phase::kWindow});
    const mx::array window = mx::squeeze(model->logits(hidden), 0);
    EXPECT_TRUE(close(mx::slice(window, {length - rows, 0}, {length, 384}), expected, kLogits));

    execution::Sequence sequence(model);
    std::span<const float> logits = sequence.prefill(std::span(tokens).first(5), {});
    for (const int32_t token : std::span(tokens).subspan(5)) logits = sequence.decode(token);
    EXPECT_TRUE(close(mx::array(logits.data(), {1, 384}, mx::float32),
                      mx::slice(expected, {rows - 1, 0}, {rows, 384}), kLogits));
  }
}

}  // namespace
}  // namespace tessera
