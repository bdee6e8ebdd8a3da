// The loops behind ceilings.h. Each function names its instruction set in an attribute, and is only called
// where the processor has it.
#include <cstring>
#include <iterator>

#include "benchmarks/kernels/ceilings.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace tessera::bench {
namespace {

constexpr std::size_t kBlock = 1024;  // bytes per turn of a reading loop

uint64_t read_words(const std::byte* data, std::size_t bytes) {
  uint64_t sums[kBlock / 128] = {};
  for (std::size_t at = 0; at < bytes; at += sizeof sums) {
    uint64_t words[kBlock / 128];
    std::memcpy(words, data + at, sizeof words);
    for (std::size_t i = 0; i < std::size(sums); ++i) sums[i] ^= words[i];
  }
  uint64_t sum = 0;
  for (const uint64_t word : sums) sum ^= word;
  return sum;
}

#if defined(__x86_64__)

// GCC's own AVX-512 headers leave a vector unset on purpose (GCC bug 105593).
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#endif

// Two streams without prefetch instructions were the fastest of one to eight streams with and without them.
__attribute__((target("avx2"))) uint64_t read_avx2(const std::byte* data, std::size_t bytes) {
  __m256i sums[8];
  for (auto& sum : sums) sum = _mm256_setzero_si256();
  for (std::size_t at = 0; at < bytes / 2; at += 128) {
    const auto* first = reinterpret_cast<const __m256i*>(data + at);
    const auto* second = reinterpret_cast<const __m256i*>(data + bytes / 2 + at);
    for (int i = 0; i < 4; ++i) {
      sums[i] = _mm256_xor_si256(sums[i], _mm256_load_si256(first + i));
      sums[4 + i] = _mm256_xor_si256(sums[4 + i], _mm256_load_si256(second + i));
    }
  }
  for (int i = 1; i < 8; ++i) sums[0] = _mm256_xor_si256(sums[0], sums[i]);
  return static_cast<uint64_t>(_mm256_extract_epi64(sums[0], 0) ^ _mm256_extract_epi64(sums[0], 3));
}

__attribute__((target("avx512f"))) uint64_t read_avx512(const std::byte* data, std::size_t bytes) {
  __m512i sums[4];
  for (auto& sum : sums) sum = _mm512_setzero_si512();
  for (std::size_t at = 0; at < bytes / 2; at += 128) {
    for (int i = 0; i < 2; ++i) {
      sums[i] = _mm512_xor_si512(sums[i], _mm512_load_si512(data + at + 64 * i));
      sums[2 + i] = _mm512_xor_si512(sums[2 + i], _mm512_load_si512(data + bytes / 2 + at + 64 * i));
    }
  }
  const __m512i all =
      _mm512_xor_si512(_mm512_xor_si512(sums[0], sums[1]), _mm512_xor_si512(sums[2], sums[3]));
  return static_cast<uint64_t>(_mm512_reduce_add_epi64(all));
}

// As many chains as hide the latency of every instruction here (at most 6 cycles, two a cycle) and fit into 16
// registers. `asm` marks the results as used, so that no loop is optimized away.
constexpr int kChains = 12;

__attribute__((target("avx2,fma"))) void multiply_avx2(int64_t steps) {
  __m256 sums[kChains];
  for (auto& sum : sums) sum = _mm256_setzero_ps();
  const __m256 a = _mm256_set1_ps(0.5F);
  for (int64_t step = 0; step < steps; ++step) {
    for (int i = 0; i < kChains; ++i) sums[i] = _mm256_fmadd_ps(sums[i], a, a);
  }
  for (auto& sum : sums) asm volatile("" : : "x"(sum));
}

__attribute__((target("avx512f"))) void multiply_avx512(int64_t steps) {
  __m512 sums[kChains];
  for (auto& sum : sums) sum = _mm512_setzero_ps();
  const __m512 a = _mm512_set1_ps(0.5F);
  for (int64_t step = 0; step < steps; ++step) {
    for (int i = 0; i < kChains; ++i) sums[i] = _mm512_fmadd_ps(sums[i], a, a);
  }
  for (auto& sum : sums) asm volatile("" : : "v"(sum));
}

__attribute__((target("avx512f,avx512bf16"))) void dot_bfloat16(int64_t steps) {
  __m512 sums[kChains];
  for (auto& sum : sums) sum = _mm512_setzero_ps();
  const __m512i half = _mm512_set1_epi16(0x3f00);
  for (int64_t step = 0; step < steps; ++step) {
    for (int i = 0; i < kChains; ++i) sums[i] = _mm512_dpbf16_ps(sums[i], (__m512bh)half, (__m512bh)half);
  }
  for (auto& sum : sums) asm volatile("" : : "v"(sum));
}

__attribute__((target("avx512f,avx512vnni"))) void dot_int8(int64_t steps) {
  __m512i sums[kChains];
  for (auto& sum : sums) sum = _mm512_setzero_si512();
  const __m512i a = _mm512_set1_epi8(1);
  for (int64_t step = 0; step < steps; ++step) {
    for (int i = 0; i < kChains; ++i) sums[i] = _mm512_dpbusd_epi32(sums[i], a, a);
  }
  for (auto& sum : sums) asm volatile("" : : "v"(sum));
}

CeilingLoops loops_here(Ceiling ceiling) {
  const bool has_avx512 = __builtin_cpu_supports("avx512f");
  const bool has_avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  switch (ceiling) {
    case Ceiling::kBandwidth:
      return {has_avx512 ? read_avx512 : has_avx2 ? read_avx2 : read_words, nullptr, 0};
    case Ceiling::kFloat32:
      if (has_avx512) return {nullptr, multiply_avx512, kChains * 16 * 2};
      if (has_avx2) return {nullptr, multiply_avx2, kChains * 8 * 2};
      break;
    case Ceiling::kBFloat16:
      if (__builtin_cpu_supports("avx512bf16")) return {nullptr, dot_bfloat16, kChains * 32 * 2};
      break;
    case Ceiling::kInt8:
      if (__builtin_cpu_supports("avx512vnni")) return {nullptr, dot_int8, kChains * 64 * 2};
      break;
  }
  return {};
}

#else

CeilingLoops loops_here(Ceiling ceiling) {
  if (ceiling == Ceiling::kBandwidth) return {read_words, nullptr, 0};
  return {};
}

#endif

}  // namespace

CeilingLoops loops_of(Ceiling ceiling) { return loops_here(ceiling); }

}  // namespace tessera::bench
