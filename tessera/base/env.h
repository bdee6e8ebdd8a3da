// Environment variables. This is the only file of the library that reads them; the table below is
// all there is, and `tessera inspect --env` prints it.
#pragma once

#include <optional>
#include <span>
#include <string>

namespace tessera::base {

/// One documented environment variable.
struct EnvVariable {
  const char* name;
  const char* meaning;
};

/// Every environment variable the library reads.
std::span<const EnvVariable> env_variables();

/// The value of a variable, absent when it is unset or empty.
/// REQUIRES: `name` stands in env_variables().
std::optional<std::string> env(const char* name);

}  // namespace tessera::base
