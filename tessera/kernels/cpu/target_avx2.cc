// The loops for the target "avx2"; the instructions come from CMake's options for this file.
#define TESSERA_TARGET avx2
#include "tessera/kernels/cpu/target-inl.h"
