#include "tessera/artifacts/checkpoint.h"

#include <utility>

namespace tessera::artifacts {

std::shared_ptr<const Checkpoint> Checkpoint::open(const ModelFiles& files,
                                                   std::shared_ptr<base::ThreadPool> pool) {
  return files.is_gguf() ? open_gguf(files, std::move(pool)) : open_safetensors(files);
}

}  // namespace tessera::artifacts
