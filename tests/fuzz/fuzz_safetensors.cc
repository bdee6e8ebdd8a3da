// safetensors containers, and their index.
#include "tessera/artifacts/safetensors.h"
#include "tests/fuzz/fuzz_target.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, std::size_t size) {
  using namespace tessera;
  fuzz::run([&] {
    unsigned sum = 0;
    for (const auto& [name, entry] :
         artifacts::parse_safetensors(fuzz::as_bytes(data, size), "input").tensors) {
      for (const std::byte b : entry.data) sum += std::to_integer<unsigned>(b);
    }
    volatile unsigned keep = sum;  // so that the reads are not removed
    (void)keep;
  });
  fuzz::run([&] { artifacts::parse_safetensors_index(fuzz::as_text(data, size), "input"); });
  return 0;
}
