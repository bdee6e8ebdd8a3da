// JSON of untrusted files as a document: depth is bounded, duplicate keys are seen, and errors are
// InvalidArtifact. Only .cc files of this folder include it.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace tessera::artifacts {

/// What a repeated key of one object means.
enum class DuplicateKeys {
  kRefuse,    // an error: containers, where a second entry would hide the first
  kKeepLast,  // the last wins, as in Python: hand-edited configuration
};

/// Parses one JSON document that nests at most 64 deep.
/// `where` is the "[area.function]" tag and `origin` the file in messages.
/// Throws InvalidArtifact when the text is not such a document.
nlohmann::json read_json(std::string_view text, const char* where, const std::string& origin,
                         DuplicateKeys duplicates);

}  // namespace tessera::artifacts
