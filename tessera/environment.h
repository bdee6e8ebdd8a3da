// What the library finds where it runs: the environment variables that change what it does, and the kernels
// that the processor has.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace tessera {

/// Name and meaning of every environment variable the library reads.
std::vector<std::pair<std::string, std::string>> environment_variables();

/// One implementation of an operation of the kernels.
struct KernelInfo {
  std::string operation;            // the function's name in tessera/kernels/
  std::string target;               // instruction set, for example "avx2"; or "reference": MLX's operations
  bool is_supported = false;        // this processor runs it
  bool is_in_use = false;           // it is what runs here, for operands as below
  std::vector<std::string> inputs;  // types of activations
  std::vector<std::string> stored;  // types of weights, scales, keys and values; empty when there are none
  std::vector<int> bits;            // of quantized weights; empty when it takes none
  std::vector<int> group_sizes;     // weights per scale
  std::string shapes;               // what it asks of shapes; empty when any will do
};

/// Every operation's implementations, the fastest first; a CPU is the device.
/// Throws InvalidArgument when TESSERA_KERNEL_TARGET names none that this processor runs.
std::vector<KernelInfo> kernel_implementations();

}  // namespace tessera
