// Working memory of kernels.
#pragma once

#include <cstddef>

namespace tessera::kernels::cpu {

/// Memory without initial values, aligned to a cache line. Each thread keeps some of what it gives back
/// for the next one: a decode step asks a thousand times for the same few sizes, and going through the
/// allocator costs several percent of it.
class Scratch {
 public:
  explicit Scratch(std::size_t bytes);
  ~Scratch();
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  std::byte* data() const { return data_; }
  float* floats() const { return reinterpret_cast<float*>(data_); }

 private:
  std::byte* data_;
  std::size_t capacity_;
};

}  // namespace tessera::kernels::cpu
