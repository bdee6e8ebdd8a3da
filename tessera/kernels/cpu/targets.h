// The instruction sets that the inner loops are compiled for, and which of them runs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace tessera::kernels::cpu {

struct PackedMatmulTask;
struct PrepareTask;
struct AttentionTask;

/// The loops of one instruction set.
struct Target {
  const char* name;        // "avx512bf16", "avx512", "avx2", "baseline"
  bool (*is_supported)();  // by this processor
  void (*prepare_rows)(const PrepareTask& task);
  void (*packed_matmul)(const PackedMatmulTask& task);
  void (*attention)(const AttentionTask& task);
  /// One query's result from those of pieces of its keys: part i at partial + i * part_rows * dim, its maximum
  /// and sum of exponentials at stats + i * part_rows * 2.
  void (*merge_attention)(const float* partial, const float* stats, int parts, std::size_t part_rows,
                          std::size_t dim, float* out);
  // Norms take one row of n elements; weight and bias may be absent.
  void (*rms_norm)(const float* x, const float* weight, float eps, std::size_t n, float* out);
  void (*add_rms_norm)(const float* x, const float* residual, const float* weight, float eps, std::size_t n,
                       float* total, float* out);
  void (*layer_norm)(const float* x, const float* weight, const float* bias, float eps, std::size_t n,
                     float* out);
  // Gates: out may be an input.
  void (*swiglu)(const float* gate, const float* up, std::size_t n, float* out);
  void (*geglu)(const float* gate, const float* up, std::size_t n, float* out);  // by the error function
  void (*geglu_tanh)(const float* gate, const float* up, std::size_t n, float* out);
  /// Cosines and sines of position * frequencies[0 .. half).
  void (*rope_angles)(float position, const float* frequencies, int half, float* cosines, float* sines);
  /// Rotates elements i and half + i of a head of `dim` elements; out may be x.
  void (*rotate)(const float* x, const float* cosines, const float* sines, int half, int dim, float* out);
  /// The same for elements 2 i and 2 i + 1.
  void (*rotate_pairs)(const float* x, const float* cosines, const float* sines, int half, int dim,
                       float* out);
  /// As kernels::argmax().
  int32_t (*argmax)(const float* x, std::size_t n, bool* is_beyond);
  /// The first index from `begin` on whose value exceeds the threshold, n if there is none.
  std::size_t (*find_above)(const float* x, std::size_t begin, std::size_t n, float threshold);
  /// Sum of e^(x - largest), in double; no value is larger than `largest`.
  double (*sum_exp)(const float* x, std::size_t n, float largest);
};

/// All of them, the fastest first; the last one runs everywhere.
std::span<const Target> targets();

/// Overrides the choice of a target; read once, when the first loop or load needs one.
inline constexpr const char* kTargetVariable = "TESSERA_KERNEL_TARGET";

/// The one in use: the fastest this processor runs, unless the environment or a test chose another.
/// Throws as find_target() for a wrong value of kTargetVariable. Loading a model asks first, so that no
/// kernel is the one to find out.
const Target& target();

/// The target of a name. Throws InvalidArgument, naming `source`, where the name came from, when it is
/// unknown or not supported by this processor.
const Target& find_target(std::string_view name, std::string_view source);

/// Forces a target until the object goes away. For tests and benchmarks; not while kernels run.
/// Throws InvalidArgument for a name that is unknown or not supported by this processor.
class ForcedTarget {
 public:
  explicit ForcedTarget(const char* name);
  explicit ForcedTarget(const Target& loops);  // lives as long as this object
  ~ForcedTarget();
  ForcedTarget(const ForcedTarget&) = delete;
  ForcedTarget& operator=(const ForcedTarget&) = delete;

 private:
  const Target* previous_;
};

}  // namespace tessera::kernels::cpu
