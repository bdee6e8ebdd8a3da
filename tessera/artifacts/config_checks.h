// Bounds that every configuration is held to, whichever file it came from.
#pragma once

#include <cstdint>
#include <string>

#include "tessera/artifacts/model_config.h"

namespace tessera::artifacts {

// Far above anything real, and small enough that products of any two fit in 64 bits and products of
// heads and head_dim in 32.
constexpr int64_t kMostHidden = 1 << 20;
constexpr int64_t kMostIntermediate = 1 << 24;
constexpr int64_t kMostLayers = 4096;
constexpr int64_t kMostHeads = 1 << 14;
constexpr int64_t kMostHeadDim = 1 << 14;
constexpr int64_t kMostVocabulary = 1 << 24;
constexpr int64_t kMostPositions = INT32_MAX;

/// The relations between fields that both readers need: n_heads % n_kv_heads == 0, even rope_dims
/// within head_dim, positive finite numbers, sensible rope scaling. `at` begins the messages.
/// Throws InvalidArtifact.
void check_model_config(const ModelConfig& config, const std::string& at);

}  // namespace tessera::artifacts
