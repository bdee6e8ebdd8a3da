// The environment variables that change what the library does.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace tessera {

/// Name and meaning of every environment variable the library reads.
std::vector<std::pair<std::string, std::string>> environment_variables();

}  // namespace tessera
