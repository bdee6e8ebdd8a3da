// The rotation that a configuration asks for.
#pragma once

#include <cstdint>

#include "tessera/artifacts/model_config.h"
#include "tessera/layers/rope.h"

namespace tessera::models {

/// `context_length` counts the positions that a sequence may hold, Composition::context_length.
layers::RopeConfig rope_config(const artifacts::ModelConfig& config, int64_t context_length);

}  // namespace tessera::models
