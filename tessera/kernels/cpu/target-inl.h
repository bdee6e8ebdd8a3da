// All loops of one instruction set. Each target_<name>.cc defines TESSERA_TARGET, includes this file and
// is compiled with the set's instructions. Nothing here may have code that the linker could share with
// another file: no MLX, no standard containers or algorithms (docs/adr/007).

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "tessera/kernels/cpu/attention_task.h"
#include "tessera/kernels/cpu/packed_matmul_task.h"

namespace tessera::kernels::cpu::TESSERA_TARGET {

#include "tessera/kernels/cpu/attention-inl.h"
#include "tessera/kernels/cpu/elementwise-inl.h"
#include "tessera/kernels/cpu/norm-inl.h"
#include "tessera/kernels/cpu/packed_matmul-inl.h"
#include "tessera/kernels/cpu/vectors-inl.h"
#include "tessera/kernels/cpu/vocabulary-inl.h"

}  // namespace tessera::kernels::cpu::TESSERA_TARGET
