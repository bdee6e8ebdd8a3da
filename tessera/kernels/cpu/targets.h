// The instruction sets that kernels are compiled for, and which of them this processor has.
#pragma once

#include <cstddef>

namespace tessera::kernels::cpu {

/// Every processor of the architecture.
inline bool has_baseline() { return true; }

#if defined(__x86_64__)
inline bool has_avx2() { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"); }
inline bool has_avx512() {
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") && has_avx2();
}
#endif

/// The first of several implementations, fastest first, that this processor runs; the last one of
/// every list runs everywhere.
template <typename Implementation, std::size_t kCount>
const Implementation& supported(const Implementation (&implementations)[kCount]) {
  for (const Implementation& implementation : implementations) {
    if (implementation.is_supported()) return implementation;
  }
  return implementations[kCount - 1];
}

}  // namespace tessera::kernels::cpu
