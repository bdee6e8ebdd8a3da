#include "tessera/kernels/cpu/targets.h"

#include <atomic>
#include <string_view>

#include "tessera/base/check.h"

namespace tessera::kernels::cpu {

// Defined by target-inl.h, once per instruction set.
#define TESSERA_DECLARE_TARGET(target)                                                      \
  namespace target {                                                                        \
  void packed_matmul(const PackedMatmulTask& task);                                         \
  void attention(const AttentionTask& task);                                                \
  void rms_norm(const float* x, const float* weight, float eps, std::size_t n, float* out); \
  void swiglu(const float* gate, const float* up, std::size_t n, float* out);               \
  }
TESSERA_DECLARE_TARGET(baseline)
#if defined(__x86_64__)
TESSERA_DECLARE_TARGET(avx2)
TESSERA_DECLARE_TARGET(avx512)
#endif
#undef TESSERA_DECLARE_TARGET

namespace {

bool runs_everywhere() { return true; }

#if defined(__x86_64__)
bool has_avx2() { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"); }
bool has_avx512() {
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") && has_avx2();
}
#endif

constexpr Target kTargets[] = {
#if defined(__x86_64__)
    {"avx512", has_avx512, avx512::packed_matmul, avx512::attention, avx512::rms_norm, avx512::swiglu},
    {"avx2", has_avx2, avx2::packed_matmul, avx2::attention, avx2::rms_norm, avx2::swiglu},
#endif
    {"baseline", runs_everywhere, baseline::packed_matmul, baseline::attention, baseline::rms_norm,
     baseline::swiglu},
};

const Target* fastest() {
  const Target* candidate = kTargets;
  while (!candidate->is_supported()) ++candidate;  // ends at the last one
  return candidate;
}

/// The one piece of state that is no argument: what this processor runs.
std::atomic<const Target*>& current() {
  static std::atomic<const Target*> target{fastest()};
  return target;
}

}  // namespace

std::span<const Target> targets() { return kTargets; }

const Target& target() { return *current().load(std::memory_order_relaxed); }

ForcedTarget::ForcedTarget(const char* name) : previous_(&target()) {
  for (const Target& candidate : kTargets) {
    if (std::string_view(candidate.name) != name) continue;
    if (!candidate.is_supported())
      base::fail_argument("[kernels.force] this processor cannot run '", name, "'");
    current().store(&candidate);
    return;
  }
  base::fail_argument("[kernels.force] no target is called '", name, "'");
}

ForcedTarget::~ForcedTarget() { current().store(previous_); }

}  // namespace tessera::kernels::cpu
