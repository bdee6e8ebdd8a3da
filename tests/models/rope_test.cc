// From a published configuration to a frequency table, against the functions of HF transformers
// (fixtures/operations/rope_scalings; tools/fixture_generators/rope_scalings.py).
#include <fstream>
#include <nlohmann/json.hpp>

#include "tessera/error.h"
#include "tessera/models/blocks/rope.h"
#include "tests/arrays.h"

namespace tessera {
namespace {

using nlohmann::json;
namespace mx = mlx::core;

const test::Tensors& goldens() {
  static const auto tensors = test::load_fixture("operations/rope_scalings.safetensors");
  return tensors;
}

layers::Rope rope_of(const json& entry) {
  const auto config =
      artifacts::parse_model_config(entry.at("config").dump(), "", entry.at("name").get<std::string>());
  return layers::Rope(models::rope_config(config, entry.at("length").get<int64_t>()));
}

TEST(RopeScalings, TablesEqualThoseOfTransformers) {
  std::ifstream file(test::fixture("operations/rope_scalings.json"));
  const json cases = json::parse(file);
  ASSERT_GE(cases.size(), 15U);
  for (const json& entry : cases) {
    const auto name = entry.at("name").get<std::string>();
    SCOPED_TRACE(name);
    const layers::Rope rope = rope_of(entry);
    const auto actual = test::values(rope.frequencies());
    const auto expected = test::values(goldens().at(name + ".frequencies"));
    ASSERT_EQ(actual.size(), expected.size());
    for (std::size_t i = 0; i < actual.size(); ++i) {
      // Powers of theta by two libraries, a few units in the last place apart, each frequency by itself.
      EXPECT_NEAR(actual[i], expected[i], 1e-6 * expected[i]) << i;
    }
    EXPECT_FLOAT_EQ(rope.rotation().scale, goldens().at(name + ".scale").item<float>());
    if (!goldens().contains(name + ".x")) continue;
    const int first = goldens().at(name + ".first").item<int>();
    // Angles reach 700 radians; half a unit in the last place of one is 3e-5 there.
    EXPECT_TRUE(test::close(rope.forward(goldens().at(name + ".x"), first), goldens().at(name + ".y"), 6e-5));
  }
}

}  // namespace
}  // namespace tessera
