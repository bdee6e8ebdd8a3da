// The `quantization` object of an MLX checkpoint's config.json. Only .cc files include it.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "tessera/artifacts/model_config.h"

namespace tessera::artifacts {

/// Reads `quantization`, or `quantization_config` where that is MLX's copy of it, of `config`.
/// A value of false leaves a module dense, true or an object overrides the default.
/// Throws InvalidArtifact on a wrong form, Unsupported for other toolkits, modes and bits.
QuantizationConfig read_quantization(const nlohmann::json& config, const char* where,
                                     const std::string& origin);

}  // namespace tessera::artifacts
