// The loops for the target "avx512"; the instructions come from CMake's options for this file.
#define TESSERA_TARGET avx512
#include "tessera/kernels/cpu/target-inl.h"
