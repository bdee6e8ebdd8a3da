// From a model's name to a loaded model.
#pragma once

#include <memory>
#include <string>

#include "tessera/artifacts/checkpoint.h"
#include "tessera/artifacts/model_files.h"
#include "tessera/base/thread_pool.h"
#include "tessera/model.h"
#include "tessera/models/causal_model.h"
#include "tessera/options.h"

namespace tessera::models {

/// A model's files, found, mapped and checked; no weight has been read. Holds no array, so any thread
/// may open it.
struct OpenModel {
  std::string name;  // as the user gave it
  artifacts::ModelFiles files;
  std::shared_ptr<const artifacts::Checkpoint> checkpoint;
  artifacts::ModelConfig config;           // with the tie of head and embedding decided
  std::shared_ptr<base::ThreadPool> pool;  // loads the model and runs our kernels, or absent
};

/// The files of `name` (see ModelOptions::model); the default model is fetched when it is not there yet.
/// Throws InvalidArgument for a name that leads nowhere.
artifacts::ModelFiles find_or_fetch_model(const std::string& name);

/// Finds, maps and checks. `pool` loads and later runs the model; what only looks needs none.
/// Throws InvalidArgument for a name that leads nowhere, InvalidArtifact for damaged files, Unsupported
/// for a tensor format.
OpenModel open_model(const std::string& name, std::shared_ptr<base::ThreadPool> pool = nullptr);

/// What the model is, loaded with `precision`. An architecture that loading would refuse is described
/// with a note.
ModelInfo describe(const OpenModel& model, Precision precision);

/// Checks, plans and loads. Belongs to the thread that will run the model.
/// Throws Unsupported for an architecture or feature that is not implemented and ResourceExhausted when
/// it cannot fit, before a weight is read; InvalidArtifact naming a tensor that is missing, unused, of
/// another shape or damaged.
std::shared_ptr<const CausalModel> load_model(const OpenModel& model, const ModelOptions& options);

/// Opens and loads.
std::shared_ptr<const CausalModel> load_model(const ModelOptions& options);

}  // namespace tessera::models
