// What implements each operation of this folder: the one table behind kernel_implementations()
// (tessera/environment.h), and the way for tests to force an implementation of a single operation.
//
// An operation is a function of the headers beside this one. Its loops exist once per instruction set
// (cpu/targets.h); one instruction set is in use for all of them. Where operands do not fit, and for
// gradients, the reference runs: MLX's own operations.
#pragma once

#include <span>
#include <string_view>

#include "tessera/kernels/cpu/targets.h"

namespace tessera::kernels {

/// What an implementation takes, each item a word; `bits` and `group_sizes` of quantized weights.
struct Operands {
  std::span<const char*const> inputs, stored;
  std::span<const int> bits, group_sizes;
  const char* shapes = "";
};

struct Operation {
  const char* name;
  /// Copies the operation's loops from one target to another. Absent: they are not compiled per target.
  void (*take_loops)(cpu::Target& to, const cpu::Target& from);
  Operands loops;  // what our own loops take; no inputs: there are none
  Operands reference;
};

/// All of them, in the order of the headers.
std::span<const Operation> operations();

/// Forces the loops of one operation, and leaves the others. For tests; not while kernels run.
/// Throws InvalidArgument for an operation without loops and for a target as cpu::find_target().
class ForcedOperation {
 public:
  ForcedOperation(std::string_view operation, const char* target);

 private:
  cpu::Target mixed_;
  cpu::ForcedTarget forced_;
};

/// Throws InvalidArgument when the environment names a target that does not exist or does not run here.
void check_target();

}  // namespace tessera::kernels
