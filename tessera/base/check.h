// Raising errors and checking invariants. `fail` is for what users and files do wrong;
// TESSERA_CHECK and TESSERA_DCHECK are for our own mistakes.
#pragma once

#include <concepts>
#include <string>
#include <string_view>
#include <type_traits>

#include "tessera/error.h"

namespace tessera::base {

namespace detail {
inline void append(std::string& out, std::string_view text) { out.append(text); }
inline void append(std::string& out, char c) { out.push_back(c); }
// A template, or a string literal would prefer the conversion to bool.
template <std::same_as<bool> T>
void append(std::string& out, T value) {
  out.append(value ? "true" : "false");
}
template <typename T>
  requires(std::is_arithmetic_v<T> && !std::is_same_v<T, bool> && !std::is_same_v<T, char>)
void append(std::string& out, T value) { out.append(std::to_string(value)); }
}  // namespace detail

/// Joins strings, characters and numbers into one string.
template <typename... Parts>
std::string concat(const Parts&... parts) {
  std::string out;
  (detail::append(out, parts), ...);
  return out;
}

/// Throws Error(kind) with the parts joined as its message.
template <typename... Parts>
[[noreturn]] void fail(ErrorKind kind, const Parts&... parts) {
  throw Error(kind, concat(parts...));
}

template <typename... Parts>
[[noreturn]] void fail_argument(const Parts&... parts) {
  fail(ErrorKind::kInvalidArgument, parts...);
}
template <typename... Parts>
[[noreturn]] void fail_artifact(const Parts&... parts) {
  fail(ErrorKind::kInvalidArtifact, parts...);
}
template <typename... Parts>
[[noreturn]] void fail_unsupported(const Parts&... parts) {
  fail(ErrorKind::kUnsupported, parts...);
}

/// Throws Error(kInternal) naming the condition and its place; what TESSERA_CHECK calls.
[[noreturn]] void check_failed(const char* condition, const char* file, int line);

}  // namespace tessera::base

/// An invariant of our own that must hold in every build; a failure is Error(kInternal).
#define TESSERA_CHECK(condition) \
  ((condition) ? static_cast<void>(0) : ::tessera::base::check_failed(#condition, __FILE__, __LINE__))

/// The same, checked only in the dev and sanitizer presets (hot paths).
#ifdef TESSERA_DCHECK_ENABLED
#define TESSERA_DCHECK(condition) TESSERA_CHECK(condition)
#else
#define TESSERA_DCHECK(condition) static_cast<void>(sizeof(condition))
#endif
