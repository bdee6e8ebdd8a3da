// The one exception class of Tessera. Everything a caller, a file or a machine can do wrong ends in
// one of six kinds with a one-line message; expected outcomes (a cache miss, a stop) are values.
#pragma once

#include <stdexcept>
#include <string>

namespace tessera {

enum class ErrorKind {
  kInvalidArgument,    // the caller passed something that cannot be right
  kInvalidArtifact,    // a file is damaged, incomplete or not what it claims to be
  kUnsupported,        // valid, but not implemented for this model, device or combination
  kResourceExhausted,  // memory, disk or context does not suffice
  kCancelled,          // the caller asked to stop
  kInternal,           // a bug in Tessera
};

/// The name of a kind as it appears in JSON and logs, for example "invalid_argument".
const char* error_kind_name(ErrorKind kind);

/// Thrown by every function of Tessera that fails. The message is one line of the form
/// "[area.function] what; expected ..., got ..." and names the file, field, tensor or flag.
class Error : public std::runtime_error {
 public:
  Error(ErrorKind kind, const std::string& message) : std::runtime_error(message), kind_(kind) {}
  ErrorKind kind() const noexcept { return kind_; }

 private:
  ErrorKind kind_;
};

}  // namespace tessera
