// tessera_kernels_counted NAME: runs one small fixed piece of work on one thread, for counting its instructions
// (instructions.py). Without a name it lists them; --compiler prints what it was compiled with.
#include <fmt/format.h>

#include <cmath>
#include <cstdio>

#include "benchmarks/kernels/cases.h"
#include "benchmarks/kernels/operands.h"
#include "tessera/kernels/cpu/targets.h"
#include "tessera/kernels/vocabulary.h"

namespace {

using tessera::bench::Work;
using tessera::kernels::PackedLayout;
using tessera::kernels::PackedType;
using tessera::kernels::Products;

std::shared_ptr<tessera::base::ThreadPool> one_thread() {
  return std::make_shared<tessera::base::ThreadPool>(1);
}

Work product(int bits, int m, Products products) {
  const PackedLayout layout{.rows = 96,
                            .columns = 1024,
                            .bits = bits,
                            .group_size = bits > 0 ? 64 : 0,
                            .type = bits > 0 ? PackedType::kFloat16 : PackedType::kBFloat16};
  return tessera::bench::product_work(layout, m, {one_thread(), products}, 1);
}

/// `n` floats in, `n` floats out.
Work rowwise(std::function<void(const float* x, std::size_t n, float* out)> run) {
  auto x = std::make_shared<std::vector<float>>(tessera::bench::random_values(8192));
  auto out = std::make_shared<std::vector<float>>(x->size());
  return {[x, out, run = std::move(run)] { run(x->data(), x->size(), out->data()); }};
}

Work rms_norm() {
  return rowwise([](const float* x, std::size_t n, float* out) {
    tessera::kernels::cpu::target().rms_norm(x, x, 1e-5F, n, out);
  });
}
Work layer_norm() {
  return rowwise([](const float* x, std::size_t n, float* out) {
    tessera::kernels::cpu::target().layer_norm(x, x, x, 1e-5F, n, out);
  });
}
Work log_sum_exp() {
  return rowwise([](const float* x, std::size_t n, float* out) {
    *out = static_cast<float>(tessera::kernels::log_sum_exp({x, n}));
  });
}
Work swiglu() {
  return rowwise([](const float* x, std::size_t n, float* out) {
    tessera::kernels::cpu::target().swiglu(x, x, n, out);
  });
}
Work rope() {
  return rowwise([](const float* x, std::size_t n, float* out) {
    constexpr int kDim = 128, kHalf = kDim / 2;
    float cosines[kHalf], sines[kHalf];
    tessera::kernels::cpu::target().rope_angles(17, x, kHalf, cosines, sines);
    for (std::size_t at = 0; at + kDim <= n; at += kDim)
      tessera::kernels::cpu::target().rotate(x + at, cosines, sines, kHalf, kDim, out + at);
  });
}

struct Counted {
  const char* name;
  Work (*prepare)();
};

constexpr Counted kCounted[] = {
    {"gemv_4bit_float32", [] { return product(4, 1, Products::kFloat32); }},
    {"gemv_4bit_bfloat16", [] { return product(4, 1, Products::kBFloat16); }},
    {"gemv_4bit_int8", [] { return product(4, 1, Products::kInt8); }},
    {"gemv_3bit_bfloat16", [] { return product(3, 1, Products::kBFloat16); }},
    {"gemv_8bit_bfloat16", [] { return product(8, 1, Products::kBFloat16); }},
    {"gemv_dense_bfloat16", [] { return product(0, 1, Products::kBFloat16); }},
    {"rows4_4bit_bfloat16", [] { return product(4, 4, Products::kBFloat16); }},
    {"gemm_4bit_float32", [] { return product(4, 48, Products::kFloat32); }},
    {"gemm_4bit_bfloat16", [] { return product(4, 48, Products::kBFloat16); }},
    {"gemm_4bit_int8", [] { return product(4, 48, Products::kInt8); }},
    {"gemm_dense_bfloat16", [] { return product(0, 48, Products::kBFloat16); }},
    {"attention_decode", [] { return tessera::bench::attention_work(64, 1, 512, one_thread(), false); }},
    {"attention_window", [] { return tessera::bench::attention_work(64, 32, 128, one_thread(), false); }},
    {"rms_norm", rms_norm},
    {"layer_norm", layer_norm},
    {"swiglu", swiglu},
    {"rope", rope},
    {"log_sum_exp", log_sum_exp},
};

}  // namespace

/// What is counted: callgrind is told this name. Not inlined, not merged with another function.
extern "C" [[gnu::noinline]] void tessera_counted_run(const Work& work) {
  work.run();
  asm volatile("");
}

int main(int argc, char** argv) {
  const std::string name = argc > 1 ? argv[1] : "";
  if (name == "--compiler") {
    fmt::print("{}\n", __VERSION__);
    return 0;
  }
  try {
    for (const Counted& counted : kCounted) {
      if (name.empty()) fmt::print("{}\n", counted.name);
      if (name != counted.name) continue;
      const Work work = counted.prepare();
      work.run();  // scratch memory exists
      tessera_counted_run(work);
      return 0;
    }
  } catch (const std::exception& error) {
    fmt::print(stderr, "tessera_kernels_counted: {}\n", error.what());
    return 1;
  }
  if (!name.empty()) fmt::print(stderr, "tessera_kernels_counted: no kernel is called '{}'\n", name);
  return name.empty() ? 0 : 1;
}
