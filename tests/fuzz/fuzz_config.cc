// config.json and generation_config.json: the input is split at its first zero byte.
#include "tessera/artifacts/model_config.h"
#include "tests/fuzz/fuzz_target.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, std::size_t size) {
  using namespace tessera;
  const std::string_view text = fuzz::as_text(data, size);
  const std::size_t zero = text.find('\0');
  const std::string_view generation =
      zero == std::string_view::npos ? std::string_view() : text.substr(zero + 1);
  fuzz::run([&] {
    const auto config = artifacts::parse_model_config(text.substr(0, zero), generation, "input");
    config.quantization.spec("model.layers.0.mlp.up_proj");
  });
  return 0;
}
