// The boundary of the text-level API: only Error leaves it.
#pragma once

#include <exception>
#include <new>
#include <string_view>

#include "tessera/base/check.h"

namespace tessera::base {

/// Runs `job` and returns its result; whatever MLX or the system throws becomes an Error that begins
/// with `where`, for example "[execution.engine]".
template <typename Job>
auto with_errors(std::string_view where, Job job) {
  try {
    return job();
  } catch (const Error&) {
    throw;
  } catch (const std::bad_alloc&) {
    fail(ErrorKind::kResourceExhausted, where, " out of memory");
  } catch (const std::exception& error) {
    fail(ErrorKind::kInternal, where, ' ', error.what());
  }
}

}  // namespace tessera::base
