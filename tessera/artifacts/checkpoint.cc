#include "tessera/artifacts/checkpoint.h"

namespace tessera::artifacts {

std::shared_ptr<const Checkpoint> Checkpoint::open(const ModelFiles& files) {
  return files.is_gguf() ? open_gguf(files) : open_safetensors(files);
}

}  // namespace tessera::artifacts
