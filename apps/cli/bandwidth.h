// How fast this machine reads memory: the bound that decode speed is measured against.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace tessera::cli {

/// Bytes per second at which `threads` threads together read a buffer of `buffer_bytes`, far larger
/// than the caches; the best of `rounds` rounds, because other programs only ever slow one down.
double measure_read_bandwidth(int threads, size_t buffer_bytes, int rounds);

/// The sum of the words; a loop that the compiler can turn into wide loads, limited by memory alone.
uint64_t sum_words(const uint64_t* words, size_t count);

}  // namespace tessera::cli
