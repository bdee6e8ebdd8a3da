// The families Tessera runs. Adding one adds its two files and one line in registry.cc.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tessera/models/causal_model.h"
#include "tessera/models/weights.h"

namespace tessera::models {

/// One architecture: its `model_type`, what it refuses, how it is built.
struct Family {
  const char* model_type;
  void (*check)(const artifacts::ModelConfig& config);
  std::unique_ptr<CausalModel> (*load)(Weights& weights, const artifacts::ModelConfig& config,
                                       const Composition& composition);
};

/// The family of `model_type`. Throws Unsupported naming it and listing what is supported.
const Family& find_family(const std::string& model_type);

/// Every supported `model_type`.
std::vector<std::string> supported_model_types();

}  // namespace tessera::models
