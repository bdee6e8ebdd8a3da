// From a model's name to a loaded model.
#pragma once

#include <memory>
#include <string>

#include "tessera/artifacts/model_files.h"
#include "tessera/models/causal_model.h"
#include "tessera/options.h"

namespace tessera::models {

/// The files of `name` (artifacts::find_model), after fetching the default model if it is the one
/// asked for and not there yet.
artifacts::ModelFiles find_or_fetch_model(const std::string& name);

/// Finds, checks, plans and loads. Belongs to the thread that will run the model.
/// Throws InvalidArgument for a name that leads nowhere, InvalidArtifact for damaged files,
/// Unsupported for an architecture or feature that is not implemented, ResourceExhausted when it
/// cannot fit; all of them before any weight is read, except damage inside a tensor.
std::shared_ptr<const CausalModel> load_model(const ModelOptions& options);

}  // namespace tessera::models
