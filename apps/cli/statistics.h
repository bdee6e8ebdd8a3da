// What --verbose prints after an answer, and how a verb gets its engine.
#pragma once

#include <string>

#include "tessera/engine.h"

namespace tessera::cli {

/// Prompt and generation speed, time to first token, peak memory, seed: one line each.
std::string statistics_text(const GenerationResult& result);

/// Downloads the model when it is the default one and not there yet, with a line that says so; other
/// names are left to loading.
void fetch_default_model(const std::string& model);

/// Loads the engine. The default model is downloaded, with a line that says so, when it is not
/// there yet.
Engine load_engine(const ModelOptions& options);

}  // namespace tessera::cli
