// JSON as the verbs print it.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace tessera::cli {

/// Keys in the order in which they are written, so that output reads the same everywhere.
using Json = nlohmann::ordered_json;

/// One line. Text that came from the command line may hold invalid UTF-8, which becomes U+FFFD.
std::string dump_line(const Json& json);
/// Several indented lines, for one object that people read too.
std::string dump_pretty(const Json& json);

}  // namespace tessera::cli
