// The loops of elementwise.cc that are compiled for several targets.
#pragma once

#include <cstddef>

namespace tessera::kernels::cpu {

struct ElementwiseLoops {
  const char* name;
  bool (*is_supported)();
  /// One row of n (a multiple of 16) elements; weight may be absent.
  void (*rms_norm)(const float* x, const float* weight, float eps, std::size_t n, float* out);
  void (*swiglu)(const float* gate, const float* up, std::size_t n, float* out);
};

/// What this processor runs.
const ElementwiseLoops& elementwise_loops();

}  // namespace tessera::kernels::cpu
