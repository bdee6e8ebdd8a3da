#include "tessera/kernels/registry.h"

#include <cstring>

#include "tessera/base/check.h"
#include "tessera/environment.h"

namespace tessera::kernels {
namespace {

using cpu::Target;

// Activations and their products are prepared in the format of one target: both are its own.
void take_matmul(Target& to, const Target& from) {
  to.prepare_rows = from.prepare_rows;
  to.packed_matmul = from.packed_matmul;
}
void take_attention(Target& to, const Target& from) {
  to.attention = from.attention;
  to.merge_attention = from.merge_attention;
}
void take_rms_norm(Target& to, const Target& from) { to.rms_norm = from.rms_norm; }
void take_add_rms_norm(Target& to, const Target& from) { to.add_rms_norm = from.add_rms_norm; }
void take_layer_norm(Target& to, const Target& from) { to.layer_norm = from.layer_norm; }
void take_swiglu(Target& to, const Target& from) { to.swiglu = from.swiglu; }
void take_geglu(Target& to, const Target& from) {
  to.geglu = from.geglu;
  to.geglu_tanh = from.geglu_tanh;
}
void take_rope(Target& to, const Target& from) {
  to.rope_angles = from.rope_angles;
  to.rotate = from.rotate;
  to.rotate_pairs = from.rotate_pairs;
}
void take_argmax(Target& to, const Target& from) { to.argmax = from.argmax; }
void take_top_k(Target& to, const Target& from) { to.find_above = from.find_above; }
void take_log_sum_exp(Target& to, const Target& from) {
  take_argmax(to, from);
  to.sum_exp = from.sum_exp;
}
void take_attention_half(Target& to, const Target& from) {
  take_matmul(to, from);
  take_attention(to, from);
  take_rms_norm(to, from);
  take_rope(to, from);
}
void take_mlp_half(Target& to, const Target& from) {
  take_matmul(to, from);
  take_rms_norm(to, from);
  take_swiglu(to, from);
}

constexpr const char* kAnyFloat[] = {"float32", "float16", "bfloat16"};
constexpr const char* kFloat32[] = {"float32"};
constexpr const char* kPageTypes[] = {"float32", "bfloat16"};
constexpr const char* kIds[] = {"int32"};
constexpr int kBits[] = {2, 3, 4, 5, 6, 8};
constexpr int kPackedGroups[] = {32, 64, 128};
constexpr int kMlxGroups[] = {32, 64, 128};

constexpr Operands kPacked = {kAnyFloat, kAnyFloat, kBits, kPackedGroups, "K % 32 == 0"};
constexpr Operands kHalf = {kFloat32, kAnyFloat, kBits, kPackedGroups, "K % 32 == 0"};
constexpr Operands kQuantized = {kAnyFloat, kAnyFloat, kBits, kMlxGroups, "K % group == 0"};
constexpr Operands kDense = {kAnyFloat, kAnyFloat};
constexpr Operands kNone = {};

constexpr Operation kOperations[] = {
    {"packed_matmul", take_matmul, kPacked, kQuantized},
    {"quantized_matmul", nullptr, kNone, kQuantized},
    {"matmul_transposed", nullptr, kNone, kDense},
    {"attention", take_attention, {kFloat32, kFloat32, {}, {}, "Dv % 16 == 0"}, kDense},
    {"paged_attention",
     take_attention,
     {kFloat32, kPageTypes, {}, {}, "Dv % 16 == 0, page % 16 == 0, D even in bfloat16"},
     kDense},
    {"rms_norm", take_rms_norm, {kFloat32, kAnyFloat}, kDense},
    {"add_rms_norm", take_add_rms_norm, {kFloat32, kAnyFloat}, kDense},
    {"layer_norm", take_layer_norm, {kFloat32, kAnyFloat}, kDense},
    {"swiglu", take_swiglu, {kFloat32}, {kAnyFloat}},
    {"geglu", take_geglu, {kFloat32}, {kAnyFloat}},
    {"rope", take_rope, {kFloat32, kFloat32}, {kAnyFloat, kFloat32}},
    {"embedding_rows",
     nullptr,
     {kIds, kAnyFloat, kBits, kPackedGroups, "E % 32 == 0"},
     {kIds, kAnyFloat, kBits, kMlxGroups}},
    {"write_pages", nullptr, {kAnyFloat, kAnyFloat}, kNone},
    {"copy_page", nullptr, {kAnyFloat, kAnyFloat}, kNone},
    {"gather_pages", nullptr, {kAnyFloat, kAnyFloat}, kNone},
    {"argmax", take_argmax, {kFloat32}, kNone},
    {"top_k", take_top_k, {kFloat32}, kNone},
    {"log_sum_exp", take_log_sum_exp, {kFloat32}, kNone},
    {"attention_half", take_attention_half, kHalf, kQuantized},
    {"mlp_half", take_mlp_half, kHalf, kQuantized},
};

const Operation& find_operation(std::string_view name) {
  for (const Operation& operation : kOperations) {
    if (operation.name == name && operation.take_loops != nullptr) return operation;
  }
  base::fail_argument("[kernels.force] no operation with loops is called '", name, "'");
}

/// Whether an operation runs the loops of `candidate`: taking them changes nothing.
bool runs_loops_of(const Operation& operation, const Target& candidate) {
  Target changed = cpu::target();
  operation.take_loops(changed, candidate);
  return std::memcmp(&changed, &cpu::target(), sizeof changed) == 0;
}

KernelInfo info_of(const Operation& operation, const char* target, const Operands& operands) {
  return {.operation = operation.name,
          .target = target,
          .inputs = {operands.inputs.begin(), operands.inputs.end()},
          .stored = {operands.stored.begin(), operands.stored.end()},
          .bits = {operands.bits.begin(), operands.bits.end()},
          .group_sizes = {operands.group_sizes.begin(), operands.group_sizes.end()},
          .shapes = operands.shapes};
}

Target mixed(std::string_view operation, const char* target) {
  Target loops = cpu::target();
  find_operation(operation).take_loops(loops, cpu::find_target(target, "the forced target"));
  return loops;
}

}  // namespace

std::span<const Operation> operations() { return kOperations; }

ForcedOperation::ForcedOperation(std::string_view operation, const char* target)
    : mixed_(mixed(operation, target)), forced_(mixed_) {}

void check_target() { cpu::target(); }

}  // namespace tessera::kernels

std::vector<tessera::KernelInfo> tessera::kernel_implementations() {
  std::vector<KernelInfo> result;
  for (const kernels::Operation& operation : kernels::operations()) {
    const bool has_loops = !operation.loops.inputs.empty();
    for (const kernels::cpu::Target& target : kernels::cpu::targets()) {
      const bool is_baseline = &target == &kernels::cpu::targets().back();
      if (!has_loops || (operation.take_loops == nullptr && !is_baseline)) continue;
      KernelInfo info = kernels::info_of(operation, target.name, operation.loops);
      info.is_supported = target.is_supported();
      info.is_in_use = operation.take_loops == nullptr || kernels::runs_loops_of(operation, target);
      result.push_back(std::move(info));
    }
    if (operation.reference.inputs.empty()) continue;
    KernelInfo info = kernels::info_of(operation, "reference", operation.reference);
    info.is_supported = true;
    info.is_in_use = !has_loops;
    result.push_back(std::move(info));
  }
  return result;
}
