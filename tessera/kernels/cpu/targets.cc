#include "tessera/kernels/cpu/targets.h"

#include <atomic>
#include <string>
#include <string_view>

#include "tessera/base/check.h"
#include "tessera/base/env.h"

namespace tessera::kernels::cpu {

// Defined by target-inl.h, once per instruction set.
#define TESSERA_DECLARE_TARGET(target)                                                                    \
  namespace target {                                                                                      \
  void prepare_rows(const PrepareTask& task);                                                             \
  void packed_matmul(const PackedMatmulTask& task);                                                       \
  void attention(const AttentionTask& task);                                                              \
  void merge_attention(const float* partial, const float* stats, int parts, std::size_t part_rows,        \
                       std::size_t dim, float* out);                                                      \
  void rms_norm(const float* x, const float* weight, float eps, std::size_t n, float* out);               \
  void add_rms_norm(const float* x, const float* residual, const float* weight, float eps, std::size_t n, \
                    float* total, float* out);                                                            \
  void layer_norm(const float* x, const float* weight, const float* bias, float eps, std::size_t n,       \
                  float* out);                                                                            \
  void swiglu(const float* gate, const float* up, std::size_t n, float* out);                             \
  void geglu(const float* gate, const float* up, std::size_t n, float* out);                              \
  void geglu_tanh(const float* gate, const float* up, std::size_t n, float* out);                         \
  void rope_angles(float position, const float* frequencies, int half, float* cosines, float* sines);     \
  void rotate(const float* x, const float* cosines, const float* sines, int half, int dim, float* out);   \
  void rotate_pairs(const float* x, const float* cosines, const float* sines, int half, int dim,          \
                    float* out);                                                                          \
  int32_t argmax(const float* x, std::size_t n, bool* is_beyond);                                         \
  std::size_t find_above(const float* x, std::size_t begin, std::size_t n, float threshold);              \
  double sum_exp(const float* x, std::size_t n, float largest);                                           \
  }
TESSERA_DECLARE_TARGET(baseline)
#if defined(__x86_64__)
TESSERA_DECLARE_TARGET(avx2)
TESSERA_DECLARE_TARGET(avx512)
TESSERA_DECLARE_TARGET(avx512bf16)
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
bool has_avx512bf16() {
  return has_avx512() && __builtin_cpu_supports("avx512bf16") && __builtin_cpu_supports("avx512vnni") &&
         __builtin_cpu_supports("avx512vbmi");
}
#endif

#define TESSERA_TARGET_ROW(target, is_supported)                                                             \
  {                                                                                                          \
#target, is_supported, target::prepare_rows, target::packed_matmul, target::attention,                   \
        target::merge_attention, target::rms_norm, target::add_rms_norm, target::layer_norm, target::swiglu, \
        target::geglu, target::geglu_tanh, target::rope_angles, target::rotate, target::rotate_pairs,        \
        target::argmax, target::find_above, target::sum_exp                                                  \
  }
constexpr Target kTargets[] = {
#if defined(__x86_64__)
    TESSERA_TARGET_ROW(avx512bf16, has_avx512bf16),
    TESSERA_TARGET_ROW(avx512, has_avx512),
    TESSERA_TARGET_ROW(avx2, has_avx2),
#endif
    TESSERA_TARGET_ROW(baseline, runs_everywhere),
};
#undef TESSERA_TARGET_ROW

const Target* fastest() {
  const Target* candidate = kTargets;
  while (!candidate->is_supported()) ++candidate;  // ends at the last one
  return candidate;
}

const Target* chosen() {
  const auto name = base::env(kTargetVariable);
  return name ? &find_target(*name, kTargetVariable) : fastest();
}

/// The one piece of state that is no argument: what this processor runs. A wrong choice throws each time.
std::atomic<const Target*>& current() {
  static std::atomic<const Target*> target{chosen()};
  return target;
}

std::string names_that_run() {
  std::string names;
  for (const Target& candidate : kTargets) {
    if (!candidate.is_supported()) continue;
    names += names.empty() ? candidate.name : std::string(", ") + candidate.name;
  }
  return names;
}

}  // namespace

std::span<const Target> targets() { return kTargets; }

const Target& target() { return *current().load(std::memory_order_relaxed); }

const Target& find_target(std::string_view name, std::string_view source) {
  for (const Target& candidate : kTargets) {
    if (candidate.name != name) continue;
    if (candidate.is_supported()) return candidate;
    base::fail_argument("[kernels.target] ", source, " is '", name,
                        "', which this processor does not run; expected one of ", names_that_run());
  }
  base::fail_argument("[kernels.target] ", source, " is '", name, "'; expected one of ", names_that_run());
}

ForcedTarget::ForcedTarget(const char* name) : ForcedTarget(find_target(name, "the forced target")) {}

ForcedTarget::ForcedTarget(const Target& loops) : previous_(&target()) { current().store(&loops); }

ForcedTarget::~ForcedTarget() { current().store(previous_); }

}  // namespace tessera::kernels::cpu
