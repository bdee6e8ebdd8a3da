// From a model's name to a loaded model.
#pragma once

#include <memory>

#include "tessera/models/causal_model.h"
#include "tessera/options.h"

namespace tessera::models {

/// Finds, checks, plans and loads. Belongs to the thread that will run the model.
/// Throws InvalidArgument for a name that leads nowhere, InvalidArtifact for damaged files,
/// Unsupported for an architecture or feature that is not implemented, ResourceExhausted when it
/// cannot fit; all of them before any weight is read, except damage inside a tensor.
std::shared_ptr<const CausalModel> load_model(const ModelOptions& options);

}  // namespace tessera::models
