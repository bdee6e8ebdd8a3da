// The loops for the target "baseline"; the instructions come from CMake's options for this file.
#define TESSERA_TARGET baseline
#include "tessera/kernels/cpu/target-inl.h"
