#include "benchmarks/kernels/measure.h"

#include <algorithm>
#include <chrono>
#include <cmath>

namespace tessera::bench {
namespace {

using Clock = std::chrono::steady_clock;

// A sample is long against the clock's resolution and the cost of reading it.
constexpr double kSampleSeconds = 100e-6;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

/// Seconds of one operation, one entry per sample.
std::vector<double> samples_of(const Work& work, int calls, double seconds) {
  std::vector<double> samples;
  const auto start = Clock::now();
  do {
    const auto begin = Clock::now();
    for (int i = 0; i < calls; ++i) work.run();
    samples.push_back(seconds_since(begin) / (static_cast<double>(calls) * work.operations));
  } while (seconds_since(start) < seconds);
  return samples;
}

struct Round {
  double seconds, best_seconds;  // of an operation
  double bandwidth, peak;
  bool is_steady;
  double fraction_of(double bytes, double flop, Ceiling ceiling, double time) const {
    if (ceiling == Ceiling::kBandwidth) return bytes / time / bandwidth;
    return peak > 0 ? flop / time / peak : 0;
  }
};

Round run_round(const Case& bench_case, const Work& work, const Ceilings& ceilings, int calls,
                double seconds) {
  const bool has_peak = bench_case.ceiling != Ceiling::kBandwidth;
  const auto peak = [&] { return has_peak ? ceilings.measure(bench_case.ceiling) : 0; };
  const double bandwidth_before = ceilings.measure(Ceiling::kBandwidth);
  const double peak_before = peak();
  const std::vector<double> samples = samples_of(work, calls, seconds);
  const double peak_after = peak();
  const double bandwidth_after = ceilings.measure(Ceiling::kBandwidth);
  const double bandwidth = std::max(bandwidth_before, bandwidth_after);
  return {median(samples), *std::min_element(samples.begin(), samples.end()), bandwidth,
          std::max(peak_before, peak_after),
          std::abs(bandwidth_before - bandwidth_after) <= kSteady * bandwidth};
}

}  // namespace

Result measure(const Case& bench_case, const Ceilings& ceilings, std::shared_ptr<base::ThreadPool> pool,
               int rounds, double seconds) {
  Result result{.name = bench_case.name,
                .threads = pool->threads(),
                .ceiling = bench_case.ceiling,
                .bytes = bench_case.bytes,
                .flop = bench_case.flop,
                .rounds = rounds};
  const Work work = bench_case.prepare(std::move(pool));
  work.run();  // touches every page of scratch memory
  const auto start = Clock::now();
  work.run();
  const double once = seconds_since(start);
  const int calls = std::max(1, static_cast<int>(std::ceil(kSampleSeconds / once)));

  std::vector<Round> all;
  for (int i = 0; i < rounds; ++i) all.push_back(run_round(bench_case, work, ceilings, calls, seconds));
  const auto is_steady = [](const Round& round) { return round.is_steady; };
  result.unsteady_rounds = rounds - static_cast<int>(std::count_if(all.begin(), all.end(), is_steady));
  std::vector<double> times, fractions, bandwidths, peaks;
  result.best_us = all.front().best_seconds * 1e6;
  for (const Round& round : all) {
    const auto fraction = [&](double time) {
      return round.fraction_of(bench_case.bytes, bench_case.flop, bench_case.ceiling, time);
    };
    result.best_us = std::min(result.best_us, round.best_seconds * 1e6);
    result.best_fraction = std::max(result.best_fraction, fraction(round.best_seconds));
    if (!round.is_steady && result.unsteady_rounds < rounds) continue;
    times.push_back(round.seconds * 1e6);
    fractions.push_back(fraction(round.seconds));
    bandwidths.push_back(round.bandwidth);
    peaks.push_back(round.peak);
  }
  result.median_us = median(times);
  result.fraction = median(fractions);
  result.bandwidth = median(bandwidths);
  result.peak = median(peaks);
  return result;
}

}  // namespace tessera::bench
