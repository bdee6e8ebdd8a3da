// The Llama family: Llama 1-3.x, SmolLM2 and Mistral.
#pragma once

#include <memory>

#include "tessera/models/causal_model.h"
#include "tessera/models/weights.h"

namespace tessera::models {

/// Throws Unsupported naming what this family's graph does not cover.
void check_llama(const artifacts::ModelConfig& config);

std::unique_ptr<CausalModel> load_llama(Weights& weights, const artifacts::ModelConfig& config,
                                        const Composition& composition);

}  // namespace tessera::models
