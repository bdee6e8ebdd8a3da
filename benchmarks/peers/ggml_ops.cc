// Times single operations of ggml, the library under llama.cpp: a product of a quantized matrix with M
// rows of activations, and flash attention over a float16 cache. Prints one JSON line per case.
// benchmarks/peers/setup.sh ggml-ops builds it, benchmarks/peers/ggml_ops.py runs it.
//
//   ggml_ops matmul TYPE ROWS COLUMNS M[,M...] [--threads N] [--rotate-mb N] [--seconds S]
//   ggml_ops attention HEAD_DIM HEADS KV_HEADS QUERIES POSITIONS  (the same options)
//
// One graph holds the operation over as many matrices (or caches) as exceed --rotate-mb, so that no
// operand is in a cache when its turn comes; the time of an operation is the graph's over their number.
// Where there are many rows of activations, arithmetic decides and three copies are enough.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "ggml-alloc.h"
#include "ggml-backend.h"
#include "ggml-cpp.h"
#include "ggml-cpu.h"
#include "ggml.h"

namespace {

struct Options {
  std::vector<std::string> words;  // the arguments that are no options
  int threads = 2;
  double rotate_bytes = 256e6;
  double seconds = 0.5;  // measured time of one case, at least
};

struct Times {
  double median_us = 0;
  double best_us = 0;
  int runs = 0;
};

constexpr int kFewestRuns = 3;
constexpr int64_t kManyRows = 64;
constexpr size_t kFewCopies = 3;
constexpr uint32_t kSeed = 20240607;

/// The CPU backend with the thread pool that llama-bench gives it.
class Cpu {
 public:
  explicit Cpu(int threads) : backend_(ggml_backend_cpu_init()) {
    ggml_threadpool_params parameters = ggml_threadpool_params_default(threads);
    pool_ = ggml_threadpool_new(&parameters);
    ggml_backend_cpu_set_n_threads(backend_.get(), threads);
    ggml_backend_cpu_set_threadpool(backend_.get(), pool_);
  }
  ~Cpu() {
    backend_.reset();
    ggml_threadpool_free(pool_);
  }
  Cpu(const Cpu&) = delete;
  Cpu& operator=(const Cpu&) = delete;

  ggml_backend_t backend() const { return backend_.get(); }
  ggml_backend_dev_t device() const { return ggml_backend_get_device(backend_.get()); }

  /// The plain buffer type, then those with a layout of their own (repacked, AMX).
  std::vector<ggml_backend_buffer_type_t> buffer_types() const {
    std::vector<ggml_backend_buffer_type_t> types = {ggml_backend_get_default_buffer_type(backend_.get())};
    auto extra = reinterpret_cast<ggml_backend_dev_get_extra_bufts_t>(ggml_backend_reg_get_proc_address(
        ggml_backend_dev_backend_reg(device()), "ggml_backend_dev_get_extra_bufts"));
    if (extra == nullptr) return types;
    for (ggml_backend_buffer_type_t* type = extra(device()); type != nullptr && *type != nullptr; ++type) {
      types.push_back(*type);
    }
    return types;
  }

 private:
  ggml_backend_ptr backend_;
  ggml_threadpool_t pool_ = nullptr;
};

ggml_context_ptr new_context(size_t tensors) {
  const ggml_init_params parameters = {
      tensors * ggml_tensor_overhead() + ggml_graph_overhead_custom(tensors, false), nullptr,
      /*no_alloc=*/true};
  return ggml_context_ptr(ggml_init(parameters));
}

ggml_backend_buffer_ptr allocate(const ggml_context_ptr& context, ggml_backend_buffer_type_t type) {
  ggml_backend_buffer_ptr buffer(ggml_backend_alloc_ctx_tensors_from_buft(context.get(), type));
  if (buffer == nullptr) throw std::runtime_error("no memory for the operands");
  return buffer;
}

std::vector<float> random_values(size_t count) {
  std::mt19937 generator(kSeed);
  std::uniform_real_distribution<float> uniform(-1.0F, 1.0F);
  std::vector<float> values(count);
  for (float& value : values) value = uniform(generator);
  return values;
}

/// Random values in the tensor's type.
std::vector<uint8_t> encoded(const ggml_tensor* tensor) {
  const std::vector<float> values = random_values(static_cast<size_t>(ggml_nelements(tensor)));
  std::vector<uint8_t> bytes(ggml_nbytes(tensor));
  const int64_t columns = tensor->ne[0];
  const int64_t rows = ggml_nelements(tensor) / columns;
  if (tensor->type == GGML_TYPE_F32) {
    std::memcpy(bytes.data(), values.data(), bytes.size());
  } else {
    ggml_quantize_chunk(tensor->type, values.data(), bytes.data(), 0, rows, columns, nullptr);
  }
  return bytes;
}

void fill(ggml_tensor* tensor, const std::vector<uint8_t>& bytes) {
  ggml_backend_tensor_set(tensor, bytes.data(), 0, bytes.size());
}

Times measure(const Cpu& cpu, ggml_cgraph* graph, size_t operations, double seconds) {
  using Clock = std::chrono::steady_clock;
  const auto run = [&] {
    const auto start = Clock::now();
    if (ggml_backend_graph_compute(cpu.backend(), graph) != GGML_STATUS_SUCCESS) {
      throw std::runtime_error("the graph failed");
    }
    return std::chrono::duration<double>(Clock::now() - start).count();
  };
  run();  // warm-up
  std::vector<double> times;
  for (double total = 0; total < seconds || times.size() < kFewestRuns; total += times.back()) {
    times.push_back(run());
  }
  std::sort(times.begin(), times.end());
  const double scale = 1e6 / static_cast<double>(operations);
  return {times[times.size() / 2] * scale, times.front() * scale, static_cast<int>(times.size())};
}

/// Allocates what the nodes of a graph compute; their operands have their memory already.
ggml_gallocr_ptr allocate_results(const Cpu& cpu, ggml_cgraph* graph) {
  ggml_gallocr_ptr allocator(ggml_gallocr_new(ggml_backend_get_default_buffer_type(cpu.backend())));
  if (!ggml_gallocr_alloc_graph(allocator.get(), graph))
    throw std::runtime_error("no memory for the results");
  return allocator;
}

size_t copies_for(double rotate_bytes, size_t bytes) {
  return static_cast<size_t>(std::ceil(rotate_bytes / static_cast<double>(bytes))) + 1;
}

size_t used_copies(size_t copies, int64_t rows) {
  return rows < kManyRows ? copies : std::min(copies, kFewCopies);
}

void print_times(const Times& times, const Options& options, size_t copies, double bytes, double flop) {
  std::printf(
      "\"microseconds\": %.2f, \"best_microseconds\": %.2f, \"runs\": %d, \"threads\": %d, \"rotated\": %zu, "
      "\"gb_per_s\": %.2f, \"gflop_per_s\": %.1f}\n",
      times.median_us, times.best_us, times.runs, options.threads, copies, bytes / times.median_us / 1e3,
      flop / times.median_us / 1e3);
  std::fflush(stdout);
}

ggml_type type_named(const std::string& name) {
  for (int type = 0; type < GGML_TYPE_COUNT; ++type) {
    const char* known = ggml_type_name(static_cast<ggml_type>(type));
    if (known != nullptr && name == known) return static_cast<ggml_type>(type);
  }
  throw std::runtime_error("unknown type '" + name + "'");
}

int64_t number(const std::string& text) {
  char* end = nullptr;
  const long long value = std::strtoll(text.c_str(), &end, 10);
  if (text.empty() || *end != '\0' || value < 1)
    throw std::runtime_error("'" + text + "' is not a positive number");
  return value;
}

/// x [M, columns] times the transpose of each of several matrices [rows, columns].
void run_matmul(const Cpu& cpu, const Options& options) {
  const ggml_type type = type_named(options.words[1]);
  const int64_t rows = number(options.words[2]);
  const int64_t columns = number(options.words[3]);
  const size_t matrix_bytes = ggml_row_size(type, columns) * static_cast<size_t>(rows);
  const size_t copies = copies_for(options.rotate_bytes, matrix_bytes);

  std::vector<uint8_t> bytes;
  for (ggml_backend_buffer_type_t buffer_type : cpu.buffer_types()) {
    const ggml_context_ptr weights = new_context(copies);
    std::vector<ggml_tensor*> matrices;
    for (size_t i = 0; i < copies; ++i) {
      matrices.push_back(ggml_new_tensor_2d(weights.get(), type, columns, rows));
    }
    const ggml_backend_buffer_ptr buffer = allocate(weights, buffer_type);
    ggml_backend_buffer_set_usage(buffer.get(), GGML_BACKEND_BUFFER_USAGE_WEIGHTS);
    bool is_filled = false;

    std::stringstream list(options.words[4]);
    for (std::string word; std::getline(list, word, ',');) {
      const int64_t m = number(word);
      const ggml_context_ptr inputs = new_context(1);
      ggml_tensor* x = ggml_new_tensor_2d(inputs.get(), GGML_TYPE_F32, columns, m);
      const ggml_backend_buffer_ptr input_buffer =
          allocate(inputs, ggml_backend_get_default_buffer_type(cpu.backend()));
      fill(x, encoded(x));

      const ggml_context_ptr nodes = new_context(2 * copies + 1);  // leaves and nodes
      ggml_cgraph* graph = ggml_new_graph_custom(nodes.get(), 2 * copies + 1, false);
      const size_t used = used_copies(copies, m);
      for (size_t i = 0; i < used; ++i) {
        ggml_build_forward_expand(graph, ggml_mul_mat(nodes.get(), matrices[i], x));
      }
      if (!ggml_backend_dev_supports_op(cpu.device(), ggml_graph_node(graph, 0))) break;
      if (!is_filled) {
        if (bytes.empty()) bytes = encoded(matrices[0]);
        for (ggml_tensor* matrix : matrices) fill(matrix, bytes);
        is_filled = true;
      }
      const ggml_gallocr_ptr results = allocate_results(cpu, graph);
      const Times times = measure(cpu, graph, used, options.seconds);
      std::printf(
          "{\"op\": \"matmul\", \"type\": \"%s\", \"rows\": %lld, \"columns\": %lld, \"m\": %lld, "
          "\"buffer\": \"%s\", ",
          ggml_type_name(type), static_cast<long long>(rows), static_cast<long long>(columns),
          static_cast<long long>(m), ggml_backend_buft_name(buffer_type));
      print_times(times, options, used, static_cast<double>(matrix_bytes),
                  2.0 * static_cast<double>(rows * columns * m));
    }
  }
}

/// The last `queries` of `positions` attend causally. The cache is [positions, kv_heads, head_dim], as
/// llama.cpp lays it out, or else [kv_heads, positions, head_dim], as ggml's own tests do.
void run_attention(const Cpu& cpu, const Options& options, bool is_by_position) {
  const int64_t head_dim = number(options.words[1]);
  const int64_t heads = number(options.words[2]);
  const int64_t kv_heads = number(options.words[3]);
  const int64_t queries = number(options.words[4]);
  const int64_t positions = number(options.words[5]);
  if (heads % kv_heads != 0) throw std::runtime_error("HEADS must be a multiple of KV_HEADS");
  if (queries > positions) throw std::runtime_error("QUERIES must be at most POSITIONS");
  const size_t cache_bytes = 2 * ggml_row_size(GGML_TYPE_F16, head_dim * kv_heads * positions);
  const size_t copies = used_copies(copies_for(options.rotate_bytes, cache_bytes), queries);

  const ggml_context_ptr inputs = new_context(2 * copies + 2);
  std::vector<ggml_tensor*> keys, values;
  for (size_t i = 0; i < copies; ++i) {
    for (std::vector<ggml_tensor*>* tensors : {&keys, &values}) {
      tensors->push_back(ggml_new_tensor_3d(inputs.get(), GGML_TYPE_F16, head_dim,
                                            is_by_position ? kv_heads : positions,
                                            is_by_position ? positions : kv_heads));
    }
  }
  ggml_tensor* q = ggml_new_tensor_3d(inputs.get(), GGML_TYPE_F32, head_dim, heads, queries);
  ggml_tensor* mask = ggml_new_tensor_2d(inputs.get(), GGML_TYPE_F16, positions, queries);
  const ggml_backend_buffer_ptr buffer =
      allocate(inputs, ggml_backend_get_default_buffer_type(cpu.backend()));
  const std::vector<uint8_t> bytes = encoded(keys[0]);
  for (size_t i = 0; i < copies; ++i) {
    fill(keys[i], bytes);
    fill(values[i], bytes);
  }
  fill(q, encoded(q));
  std::vector<ggml_fp16_t> allowed(static_cast<size_t>(positions * queries));
  double pairs = 0;
  for (int64_t i = 0; i < queries; ++i) {
    for (int64_t j = 0; j < positions; ++j) {
      const bool is_seen = j <= positions - queries + i;
      allowed[static_cast<size_t>(i * positions + j)] = ggml_fp32_to_fp16(is_seen ? 0.0F : -INFINITY);
      pairs += is_seen ? 1 : 0;
    }
  }
  ggml_backend_tensor_set(mask, allowed.data(), 0, ggml_nbytes(mask));

  const ggml_context_ptr nodes = new_context(5 * copies + 2);  // leaves and nodes
  ggml_cgraph* graph = ggml_new_graph_custom(nodes.get(), 5 * copies + 2, false);
  ggml_tensor* by_head = ggml_permute(nodes.get(), q, 0, 2, 1, 3);
  for (size_t i = 0; i < copies; ++i) {
    ggml_tensor* k = keys[i];
    ggml_tensor* v = values[i];
    if (is_by_position) {
      k = ggml_permute(nodes.get(), k, 0, 2, 1, 3);
      v = ggml_permute(nodes.get(), v, 0, 2, 1, 3);
    }
    const float scale = 1.0F / std::sqrt(static_cast<float>(head_dim));
    ggml_tensor* attended = ggml_flash_attn_ext(nodes.get(), by_head, k, v, mask, scale, 0.0F, 0.0F);
    ggml_prec_set_acc(attended, GGML_PREC_F32);
    ggml_build_forward_expand(graph, attended);
  }
  const ggml_gallocr_ptr results = allocate_results(cpu, graph);
  const Times times = measure(cpu, graph, copies, options.seconds);
  std::printf(
      "{\"op\": \"attention\", \"type\": \"f16\", \"head_dim\": %lld, \"heads\": %lld, \"kv_heads\": %lld, "
      "\"queries\": %lld, \"positions\": %lld, \"layout\": \"%s\", ",
      static_cast<long long>(head_dim), static_cast<long long>(heads), static_cast<long long>(kv_heads),
      static_cast<long long>(queries), static_cast<long long>(positions),
      is_by_position ? "by position" : "by head");
  print_times(times, options, copies, static_cast<double>(cache_bytes),
              4.0 * static_cast<double>(head_dim * heads) * pairs);
}

/// Loading tells of every repacked tensor; warnings and errors are enough.
void print_problems(ggml_log_level level, const char* text, void* /*user_data*/) {
  if (level == GGML_LOG_LEVEL_WARN || level == GGML_LOG_LEVEL_ERROR) std::fputs(text, stderr);
}

Options parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word.rfind("--", 0) != 0) {
      options.words.push_back(word);
      continue;
    }
    const char* value = i + 1 < argc ? argv[++i] : "";
    if (word == "--threads") {
      options.threads = static_cast<int>(number(value));
    } else if (word == "--rotate-mb") {
      options.rotate_bytes = static_cast<double>(number(value)) * 1e6;
    } else if (word == "--seconds") {
      options.seconds = std::atof(value);
    } else {
      throw std::runtime_error("unknown option '" + word + "'");
    }
  }
  return options;
}

}  // namespace

int main(int argc, char** argv) {
  ggml_log_set(print_problems, nullptr);
  try {
    const Options options = parse(argc, argv);
    const std::string op = options.words.empty() ? "" : options.words[0];
    const Cpu cpu(options.threads);
    if (op == "matmul" && options.words.size() == 5) {
      run_matmul(cpu, options);
    } else if (op == "attention" && options.words.size() == 6) {
      for (const bool is_by_position : {true, false}) run_attention(cpu, options, is_by_position);
    } else {
      throw std::runtime_error(
          "expected matmul TYPE ROWS COLUMNS M[,M...] or attention HEAD_DIM HEADS KV_HEADS QUERIES "
          "POSITIONS");
    }
  } catch (const std::exception& error) {
    std::fprintf(stderr, "ggml_ops: %s\n", error.what());
    return 1;
  }
  return 0;
}
