#include "benchmarks/kernels/ceilings.h"

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <fstream>
#include <new>
#include <string>

namespace tessera::bench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kLine = 64;
constexpr int kPasses = 4;
// Pieces per thread, so that a thread that was interrupted does not hold up the others; whole pages.
constexpr std::size_t kPieces = 8;
constexpr std::size_t kPieceUnit = 4096;
constexpr int64_t kSteps = 100'000;  // of a peak: about half a millisecond

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

}  // namespace

const char* name_of(Ceiling ceiling) {
  switch (ceiling) {
    case Ceiling::kBandwidth: return "bandwidth";
    case Ceiling::kFloat32: return "float32";
    case Ceiling::kBFloat16: return "bfloat16";
    case Ceiling::kInt8: return "int8";
  }
  return "";
}

std::size_t last_level_cache_bytes() {
  // Not sysconf(): on some processors glibc gives the sum over all of the package's caches.
  std::size_t largest = 0;
  for (int index = 0; index < 8; ++index) {
    std::ifstream file("/sys/devices/system/cpu/cpu0/cache/index" + std::to_string(index) + "/size");
    std::size_t kibibytes = 0;
    if (file >> kibibytes) largest = std::max(largest, kibibytes << 10);
  }
  return largest > 0 ? largest : std::size_t{32} << 20;
}

Memory::Memory(std::size_t bytes) : bytes_(bytes + kLine) {
  mapping_ = ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapping_ == MAP_FAILED) throw std::bad_alloc();
  ::madvise(mapping_, bytes_, MADV_HUGEPAGE);
}

Memory::~Memory() { ::munmap(mapping_, bytes_); }

std::byte* Memory::data() const { return static_cast<std::byte*>(mapping_) + kLine; }

Ceilings::Ceilings(std::shared_ptr<base::ThreadPool> pool)
    : pool_(std::move(pool)),
      bytes_(rotation_bytes() / (kPieceUnit * kPieces) * kPieceUnit * kPieces),
      memory_(bytes_) {
  std::memset(memory_.data(), 1, bytes_);  // real pages, not the zero page
}

double Ceilings::measure(Ceiling ceiling) const {
  return ceiling == Ceiling::kBandwidth ? read_bandwidth() : peak(ceiling);
}

double Ceilings::read_bandwidth() const {
  const CeilingLoops loops = loops_of(Ceiling::kBandwidth);
  const auto pieces = kPieces * static_cast<std::size_t>(pool_->threads());
  const std::size_t piece = bytes_ / pieces / kPieceUnit * kPieceUnit;
  std::atomic<uint64_t> sum{0};  // uses what was read
  double best = 0;
  for (int pass = 0; pass < kPasses; ++pass) {
    const auto start = Clock::now();
    pool_->run(static_cast<int>(pieces), [&](int index) {
      sum += loops.read(memory_.data() + static_cast<std::size_t>(index) * piece, piece);
    });
    best = std::max(best, static_cast<double>(piece * pieces) / seconds_since(start));
  }
  return best;
}

double Ceilings::peak(Ceiling ceiling) const {
  const CeilingLoops loops = loops_of(ceiling);
  if (loops.run == nullptr) return 0;
  double best = 0;
  for (int pass = 0; pass < kPasses; ++pass) {
    const auto start = Clock::now();
    pool_->run(pool_->threads(), [&](int) { loops.run(kSteps); });
    const auto operations = static_cast<double>(loops.operations_per_step * kSteps * pool_->threads());
    best = std::max(best, operations / seconds_since(start));
  }
  return best;
}

}  // namespace tessera::bench
