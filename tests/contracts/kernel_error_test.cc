// How far the kernels are from float64, for docs/numerics.md: every figure there is printed and bounded here.
#include <algorithm>
#include <cmath>
#include <iostream>

#include "tessera/kernels/attention.h"
#include "tessera/kernels/matmul.h"
#include "tests/arrays.h"

namespace tessera {
namespace {

using kernels::Products;
using test::normal;
namespace mx = mlx::core;

/// Errors of many results against float64, relative to the root mean square of the results.
struct Errors {
  double rms = 0;
  double largest = 0;
};

Errors errors(const std::vector<float>& actual, const std::vector<double>& expected) {
  double squares = 0, error_squares = 0, largest = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const double error = std::abs(actual[i] - expected[i]);
    squares += expected[i] * expected[i];
    error_squares += error * error;
    largest = std::max(largest, error);
  }
  const auto n = static_cast<double>(expected.size());
  const double scale = std::sqrt(squares / n);
  return {std::sqrt(error_squares / n) / scale, largest / scale};
}

std::vector<double> product(const mx::array& x, const mx::array& w) {
  const std::vector<float> a = test::values(x), b = test::values(w);
  const auto m = static_cast<std::size_t>(x.shape(0)), n = static_cast<std::size_t>(w.shape(0)),
             k = static_cast<std::size_t>(w.shape(1));
  std::vector<double> y(m * n);
  for (std::size_t row = 0; row < m; ++row) {
    for (std::size_t column = 0; column < n; ++column) {
      double sum = 0;
      for (std::size_t i = 0; i < k; ++i)
        sum += static_cast<double>(a[row * k + i]) * static_cast<double>(b[column * k + i]);
      y[row * n + column] = sum;
    }
  }
  return y;
}

struct Bound {
  Products products;
  const char* name;
  double rms, largest;
};

// A sum of K products whose factors are rounded independently with a relative error of e (root mean square)
// has a relative error of e against the root mean square of such sums. Rounding to bfloat16 errs by up to 2^-9,
// 2^-9 / sqrt 3 = 1.1e-3 on the worst stretch of a binade and 8e-4 over one. An int8 step of a group of 32
// normal numbers is about 2.3 / 127 of their size, and rounding errs by step / sqrt 12 = 5e-3. Largest: five
// times that, of some ten thousand results. Float32: each of K additions rounds a sum of the final size or less by 2^-24, so up to
// sqrt K * 2^-24 = 3.8e-6 for K = 4096.
constexpr Bound kProductBounds[] = {{Products::kFloat32, "float32", 3.8e-6, 1.9e-5},
                                    {Products::kBFloat16, "bfloat16", 2e-3, 1e-2},
                                    {Products::kInt8, "int8", 8e-3, 4e-2}};

TEST(KernelErrors, ProductsAgainstFloat64) {
  const auto pool = std::make_shared<base::ThreadPool>(2);
  for (const int columns : {576, 4096}) {
    const auto parts = mx::quantize(normal({96, columns}, 1), 32, 4);
    const tensor::QuantizedTensor w{parts[0], parts[1], parts[2], 32, 4};
    const mx::array dense = tensor::dequantize(w, mx::float32);
    for (const int m : {1, 64}) {
      const mx::array x = normal({m, columns}, 2);
      const std::vector<double> expected = product(x, dense);
      for (const Bound& bound : kProductBounds) {
        const mx::array y = kernels::packed_matmul(x, kernels::pack(w, {pool, bound.products}));
        const Errors error = errors(test::values(y), expected);
        std::cout << "packed_matmul, K = " << columns << ", m = " << m << ", " << bound.name << ": rms "
                  << error.rms << ", largest " << error.largest << "\n";
        EXPECT_LT(error.rms, bound.rms);
        EXPECT_LT(error.largest, bound.largest);
      }
    }
  }
}

TEST(KernelErrors, AttentionAgainstFloat64) {
  const auto pool = std::make_shared<base::ThreadPool>(2);
  constexpr int kHeads = 4, kStored = 2000, kDim = 64;
  const mx::array q = normal({1, kHeads, 1, kDim}, 3), k = normal({1, 2, kStored, kDim}, 4),
                  v = normal({1, 2, kStored, kDim}, 5);
  const std::vector<float> qs = test::values(q), ks = test::values(k), vs = test::values(v);
  std::vector<double> expected;
  for (int head = 0; head < kHeads; ++head) {
    const std::size_t kv = static_cast<std::size_t>(head / 2) * kStored * kDim;
    std::vector<double> weights;
    double total = 0;
    for (int key = 0; key < kStored; ++key) {
      double dot = 0;
      for (int d = 0; d < kDim; ++d)
        dot += static_cast<double>(qs[static_cast<std::size_t>(head * kDim + d)]) *
               static_cast<double>(ks[kv + static_cast<std::size_t>(key * kDim + d)]);
      weights.push_back(std::exp(dot / 8));
      total += weights.back();
    }
    for (int d = 0; d < kDim; ++d) {
      double sum = 0;
      for (int key = 0; key < kStored; ++key)
        sum += weights[static_cast<std::size_t>(key)] *
               static_cast<double>(vs[kv + static_cast<std::size_t>(key * kDim + d)]);
      expected.push_back(sum / total);
    }
  }
  // In bfloat16 a score of three standard normal errs by 2^-9 of its terms, about 4e-3, and so does each weight;
  // value and weight err by 1e-3 on top.
  for (const Bound& bound : {Bound{Products::kFloat32, "float32", 2e-6, 1e-5},
                             Bound{Products::kBFloat16, "bfloat16", 5e-3, 3e-2}}) {
    const mx::array y = kernels::attention(q, k, v, 0.125F, tensor::Mask::none(), {pool, bound.products});
    const Errors error = errors(test::values(y), expected);
    std::cout << "attention, N = " << kStored << ", " << bound.name << ": rms " << error.rms << ", largest "
              << error.largest << "\n";
    EXPECT_LT(error.rms, bound.rms);
    EXPECT_LT(error.largest, bound.largest);
  }
}

}  // namespace
}  // namespace tessera
