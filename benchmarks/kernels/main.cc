// tessera_kernels_bench: what each kernel reaches of what the machine can do (benchmarks/README.md).
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>

#include "benchmarks/kernels/measure.h"
#include "tessera/error.h"
#include "tessera/kernels/cpu/targets.h"

namespace tessera::bench {
namespace {

using Json = nlohmann::ordered_json;

struct Options {
  std::vector<std::string> filters;
  std::vector<int> threads;
  int rounds = 7;
  double seconds = 0.03;  // of samples in a round
  std::string json_path;
  bool takes_all = false;
  bool lists = false;
  bool checks = false;
};

bool is_chosen(const Case& bench_case, const Options& options) {
  if (options.checks && bench_case.floor == 0) return false;
  bool is_named = !options.filters.empty();
  for (const std::string& filter : options.filters)
    is_named = is_named && bench_case.name.find(filter) != std::string::npos;
  if (!options.filters.empty() && !is_named) return false;
  return options.takes_all || options.checks || !bench_case.is_extra;
}

double gb_per_s(const Result& result) { return result.bytes / result.median_us / 1e3; }
double gflop_per_s(const Result& result) { return result.flop / result.median_us / 1e3; }

void print_header() {
  fmt::print("{:<42} {:>3} {:>11} {:>9} {:>7} {:>8} {:>9} {:>6}  {}\n", "case", "thr", "median us", "MB",
             "GB/s", "GFLOP/s", "read GB/s", "of", "ceiling");
}

void print(const Result& result) {
  const std::string fraction = result.fraction > 0 ? fmt::format("{:.0f} %", 100 * result.fraction) : "-";
  std::string ceiling = name_of(result.ceiling);
  if (result.ceiling != Ceiling::kBandwidth)
    ceiling = result.peak > 0 ? fmt::format("{} peak {:.0f}", ceiling, result.peak / 1e9)
                              : fmt::format("no {} products here", ceiling);
  if (result.unsteady_rounds > 0)
    ceiling += fmt::format(", bandwidth moved in {} of {} rounds", result.unsteady_rounds, result.rounds);
  fmt::print("{:<42} {:>3} {:>11.2f} {:>9.3f} {:>7.1f} {:>8.1f} {:>9.1f} {:>6}  {}\n", result.name,
             result.threads, result.median_us, result.bytes / 1e6, gb_per_s(result), gflop_per_s(result),
             result.bandwidth / 1e9, fraction, ceiling);
  std::fflush(stdout);
}

Json json_of(const Result& result) {
  Json json = {{"case", result.name},
               {"threads", result.threads},
               {"median_us", result.median_us},
               {"best_us", result.best_us},
               {"bytes", result.bytes},
               {"flop", result.flop},
               {"gb_per_s", gb_per_s(result)},
               {"gflop_per_s", gflop_per_s(result)},
               {"ceiling", name_of(result.ceiling)},
               {"read_gb_per_s", result.bandwidth / 1e9},
               {"peak_gflop_per_s", result.peak / 1e9},
               {"fraction", result.fraction},
               {"best_fraction", result.best_fraction},
               {"rounds", result.rounds},
               {"unsteady_rounds", result.unsteady_rounds}};
  return json;
}

/// The threads that a case runs with: a serial one only with one.
std::vector<int> threads_of(const Case& bench_case, const Options& options) {
  if (bench_case.is_serial) return {1};
  return options.threads;
}

int measure_all(const std::vector<Case>& cases, const Options& options) {
  Json all = Json::array();
  fmt::print("kernels for {}, last-level cache {} MiB, {} rounds\n", kernels::cpu::target().name,
             last_level_cache_bytes() >> 20, options.rounds);
  print_header();
  std::map<int, std::pair<std::shared_ptr<base::ThreadPool>, std::unique_ptr<Ceilings>>> machines;
  for (const Case& bench_case : cases) {
    for (const int threads : threads_of(bench_case, options)) {
      auto& [pool, ceilings] = machines[threads];
      if (!pool) {
        pool = std::make_shared<base::ThreadPool>(threads);
        ceilings = std::make_unique<Ceilings>(pool);
      }
      const Result result = measure(bench_case, *ceilings, pool, options.rounds, options.seconds);
      print(result);
      all.push_back(json_of(result));
    }
  }
  if (!options.json_path.empty()) {
    const Json document = {{"target", kernels::cpu::target().name},
                           {"last_level_cache_bytes", last_level_cache_bytes()},
                           {"cases", all}};
    std::ofstream file(options.json_path);
    file << document.dump(2) << '\n';
    if (!file) throw std::runtime_error("cannot write " + options.json_path);
  }
  return 0;
}

/// Each case must reach its floor in its best sample, on one thread unless others are asked for: on a machine
/// with other work the median, and how long the slowest of several threads takes, say more about the others.
/// A case that does not reach it gets a second, longer try.
int check(const std::vector<Case>& cases, const Options& options) {
  constexpr int kRounds = 3;
  constexpr int kPatience = 5;
  constexpr std::string_view kTarget = "avx512bf16";
  if (kernels::cpu::target().name != kTarget) {
    fmt::print("skipped: the floors are for {}; in use is {}\n", kTarget, kernels::cpu::target().name);
    return 0;
  }
  const auto pool = std::make_shared<base::ThreadPool>(options.threads.empty() ? 1 : options.threads.back());
  const Ceilings ceilings(pool);
  int failed = 0;
  print_header();
  for (const Case& bench_case : cases) {
    Result result = measure(bench_case, ceilings, pool, kRounds, options.seconds);
    if (result.best_fraction < bench_case.floor)
      result = measure(bench_case, ceilings, pool, kRounds * kPatience, options.seconds);
    print(result);
    const bool has_failed = result.best_fraction < bench_case.floor;
    if (has_failed) ++failed;
    fmt::print("  {}: {:.0f} % at best, expected at least {:.0f} %\n", has_failed ? "FAILED" : "passed",
               100 * result.best_fraction, 100 * bench_case.floor);
  }
  fmt::print("{} passed, {} failed\n", static_cast<int>(cases.size()) - failed, failed);
  return failed > 0 ? 1 : 0;
}

int run(const Options& options) {
  std::vector<Case> cases;
  for (Case& bench_case : all_cases()) {
    if (is_chosen(bench_case, options)) cases.push_back(std::move(bench_case));
  }
  if (cases.empty()) throw std::runtime_error("no case matches; --all --list shows them");
  if (options.lists) {
    for (const Case& bench_case : cases) fmt::print("{}\n", bench_case.name);
    return 0;
  }
  if (options.checks) return check(cases, options);
  Options filled = options;
  if (filled.threads.empty()) {
    filled.threads = {1};
    if (base::physical_cores() > 1) filled.threads.push_back(base::physical_cores());
  }
  return measure_all(cases, filled);
}

}  // namespace

std::vector<Case> all_cases() {
  std::vector<Case> cases;
  add_products(cases);
  add_attention(cases);
  add_layers(cases);
  return cases;
}

}  // namespace tessera::bench

int main(int argc, char** argv) {
  tessera::bench::Options options;
  CLI::App app{"What each kernel reaches of the machine's bandwidth or peak, measured beside it."};
  app.add_option("--filter", options.filters, "Only cases whose name has this text; several: all of them");
  app.add_option("--threads", options.threads,
                 "Numbers of threads, default 1 and the physical cores; of --check 1")
      ->delimiter(',')
      ->check(CLI::Range(1, 1024));
  app.add_option("--rounds", options.rounds, "Rounds per case")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  app.add_option("--seconds", options.seconds, "Time of samples in a round")->check(CLI::Range(0.001, 60.0));
  app.add_option("--json", options.json_path, "Write the figures to this file too");
  app.add_flag("--all", options.takes_all, "Every combination of bits, groups, rows and tiers");
  app.add_flag("--list", options.lists, "Print the names of the cases");
  app.add_flag("--check", options.checks, "Only cases with a floor, and fail when one is below it");
  CLI11_PARSE(app, argc, argv);
  try {
    return tessera::bench::run(options);
  } catch (const std::exception& error) {
    fmt::print(stderr, "tessera_kernels_bench: {}\n", error.what());
    return 1;
  }
}
