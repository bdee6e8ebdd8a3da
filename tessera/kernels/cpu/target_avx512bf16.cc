// The loops for the target "avx512bf16": AVX-512 with dot products of bfloat16 and int8. The instructions
// come from CMake's options for this file.
#define TESSERA_TARGET avx512bf16
#include "tessera/kernels/cpu/target-inl.h"
