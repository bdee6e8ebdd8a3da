// What is parsed of tokenizer files here: tokenizer_config.json's template, or a GGUF vocabulary.
#include "tessera/artifacts/gguf.h"
#include "tessera/artifacts/tokenizer_files.h"
#include "tests/fuzz/fuzz_target.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, std::size_t size) {
  using namespace tessera;
  fuzz::run([&] { artifacts::chat_template_in(fuzz::as_text(data, size), "input"); });
  fuzz::run([&] {
    const auto file = artifacts::GgufFile::parse(fuzz::as_bytes(data, size), "input");
    const auto vocabulary = artifacts::read_gguf_vocabulary(file);
    if (vocabulary.eos_id && static_cast<std::size_t>(*vocabulary.eos_id) >= vocabulary.tokens.size())
      std::abort();
  });
  return 0;
}
