// GGUF containers: parse, dequantize every tensor and repack those that can be, merge with itself.
#include <vector>

#include "tessera/artifacts/gguf.h"
#include "tessera/artifacts/gguf_blocks.h"
#include "tessera/artifacts/model_config.h"
#include "tessera/artifacts/weight_names.h"
#include "tests/fuzz/fuzz_target.h"

namespace {

using namespace tessera;
using namespace tessera::artifacts;

void use(const GgufTensor& tensor) {
  // Tensors lie in the input without overlap, so that their elements are bounded by it too.
  const auto n = tensor.data.size() / gguf_block_bytes(tensor.type) *
                 static_cast<std::size_t>(gguf_block_elements(tensor.type));
  std::vector<float> values(n);
  dequantize_blocks(tensor.type, tensor.data, values);
  const auto form = affine_form(tensor.type);
  if (!form) return;
  std::vector<uint32_t> codes(n / 32 * static_cast<std::size_t>(form->bits));
  std::vector<std::byte> scales(n / 32 * (form->has_f32_scales ? 4 : 2));
  std::vector<std::byte> biases(scales.size());
  fuzz::run([&] { repack_affine(tensor.type, tensor.data, codes, scales, biases); });
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, std::size_t size) {
  fuzz::run([&] {
    GgufFile file = GgufFile::parse(fuzz::as_bytes(data, size), "input");
    const NormPlacement norms = norm_placement(file);
    for (const auto& [name, tensor] : file.tensors()) {
      use(tensor);
      if (const auto canonical = canonical_name(name, norms);
          canonical && gguf_name(*canonical, norms) != name)
        std::abort();
    }
    fuzz::run([&] { parse_model_config(file); });
    file.merge(file);
    file.check_complete();
  });
  return 0;
}
