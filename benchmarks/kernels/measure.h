// Rounds of a case with its ceilings around it.
//
// Google Benchmark has no place for this: it runs one benchmark's iterations to the end and then the next, and
// a ceiling measured minutes away says nothing on a machine whose bandwidth moves. So the loop is our own.
#pragma once

#include "benchmarks/kernels/cases.h"

namespace tessera::bench {

struct Result {
  std::string name;
  int threads = 1;
  Ceiling ceiling = Ceiling::kBandwidth;
  double median_us = 0;  // of an operation, over the rounds
  double best_us = 0;    // the fastest sample of all
  double bytes = 0, flop = 0;
  double bandwidth = 0;      // bytes per second beside it, median of the rounds
  double peak = 0;           // of `ceiling`, the same; 0 when the processor lacks the instruction
  double fraction = 0;       // of the ceiling: median of the rounds' fractions; 0 without a ceiling
  double best_fraction = 0;  // the fastest sample of a round against the same round's ceiling, best round
  int rounds = 0;
  int unsteady_rounds = 0;  // in which the bandwidth moved by more than kSteady; left out of the medians when
                            // others remain
};

/// How much the bandwidth before and after a round may differ.
inline constexpr double kSteady = 0.15;

/// Prepares the case, warms up, and measures `rounds` rounds: ceilings, samples for `seconds`, ceilings.
Result measure(const Case& bench_case, const Ceilings& ceilings, std::shared_ptr<base::ThreadPool> pool,
               int rounds, double seconds);

}  // namespace tessera::bench
