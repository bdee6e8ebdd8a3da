// The gradient of every differentiable kernel against central differences of its formula in float64.
#include <functional>
#include <limits>

#include "tessera/kernels/activation.h"
#include "tessera/kernels/attention.h"
#include "tessera/kernels/matmul.h"
#include "tessera/kernels/norm.h"
#include "tessera/kernels/rope.h"
#include "tests/arrays.h"
#include "tests/contracts/each_target.h"

namespace tessera {
namespace {

using test::for_each_target;
using test::normal;
namespace mx = mlx::core;

using Values = std::vector<double>;
using Arrays = std::vector<mx::array>;

// Differences with steps of 1e-5 are right to 1e-9; what is left is float32: sums of up to some hundred terms,
// against the largest element of a gradient.
constexpr double kGradient = 1e-5;

Values wide(const mx::array& x) {
  const std::vector<float> values = test::values(x);
  return Values(values.begin(), values.end());
}

kernels::Runtime runtime() { return {std::make_shared<base::ThreadPool>(2)}; }

/// Compares the gradients of `kernel` with those of `formula`, which computes the same outputs, flattened and
/// joined, in double. Every output counts with random weights.
void expect_gradients(const std::function<Arrays(const Arrays&)>& kernel,
                      const std::function<Values(const std::vector<Values>&)>& formula,
                      const Arrays& inputs) {
  const Arrays outputs = kernel(inputs);
  Arrays cotangents;
  Values weights;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    cotangents.push_back(normal(outputs[i].shape(), 900 + i));
    for (const double weight : wide(cotangents.back())) weights.push_back(weight);
  }
  std::vector<Values> at;
  for (const mx::array& input : inputs) at.push_back(wide(input));
  const auto loss = [&] {
    const Values y = formula(at);
    EXPECT_EQ(y.size(), weights.size());
    double sum = 0;
    for (std::size_t i = 0; i < y.size(); ++i) sum += y[i] * weights[i];
    return sum;
  };
  Values joined;
  for (const mx::array& output : outputs) {
    for (const double value : wide(output)) joined.push_back(value);
  }
  const Values expected_outputs = formula(at);
  double largest_output = 0;
  for (const double value : expected_outputs) largest_output = std::max(largest_output, std::abs(value));
  for (std::size_t i = 0; i < joined.size(); ++i)
    ASSERT_NEAR(joined[i], expected_outputs[i], kGradient * largest_output) << "the formula itself, " << i;

  const Arrays gradients = mx::vjp(kernel, inputs, cotangents).second;
  ASSERT_EQ(gradients.size(), inputs.size());
  for (std::size_t input = 0; input < inputs.size(); ++input) {
    SCOPED_TRACE(::testing::Message() << "input " << input);
    ASSERT_EQ(gradients[input].shape(), inputs[input].shape());
    const Values actual = wide(gradients[input]);
    Values expected;
    double largest = 0;
    for (double& x : at[input]) {
      const double before = x;
      constexpr double kStep = 1e-5;
      x = before + kStep;
      const double above = loss();
      x = before - kStep;
      const double below = loss();
      x = before;
      expected.push_back((above - below) / (2 * kStep));
      largest = std::max(largest, std::abs(expected.back()));
    }
    for (std::size_t i = 0; i < actual.size(); ++i)
      EXPECT_NEAR(actual[i], expected[i], kGradient * largest) << "element " << i;
  }
}

/// x [.., K] times w^T of w [N, K].
Values product(const Values& x, const Values& w, std::size_t columns) {
  const std::size_t rows = x.size() / columns, outputs = w.size() / columns;
  Values y;
  for (std::size_t i = 0; i < rows; ++i) {
    for (std::size_t j = 0; j < outputs; ++j) {
      double sum = 0;
      for (std::size_t k = 0; k < columns; ++k) sum += x[i * columns + k] * w[j * columns + k];
      y.push_back(sum);
    }
  }
  return y;
}

Values transposed(const Values& w, std::size_t columns) {
  const std::size_t rows = w.size() / columns;
  Values result(w.size());
  for (std::size_t i = 0; i < rows; ++i) {
    for (std::size_t j = 0; j < columns; ++j) result[j * rows + i] = w[i * columns + j];
  }
  return result;
}

tensor::QuantizedTensor quantized(int rows, int columns, int bits, uint64_t seed) {
  const auto parts = mx::quantize(normal({rows, columns}, seed), 32, bits);
  return {parts[0], parts[1], parts[2], 32, bits};
}

TEST(Gradients, DenseProductsInBothOperands) {
  expect_gradients([](const Arrays& in) { return Arrays{kernels::matmul_transposed(in[0], in[1])}; },
                   [](const auto& in) { return product(in[0], in[1], 24); },
                   {normal({2, 3, 24}, 1), normal({10, 24}, 2)});
}

TEST(Gradients, QuantizedProductsInX) {
  for (const int bits : {2, 4, 8}) {
    const auto w = quantized(32, 64, bits, 3);
    const Values dense = wide(tensor::dequantize(w, mx::float32));
    expect_gradients([&](const Arrays& in) { return Arrays{kernels::quantized_matmul(in[0], w)}; },
                     [&](const auto& in) { return product(in[0], dense, 64); }, {normal({2, 2, 64}, 4)});
    expect_gradients([&](const Arrays& in) { return Arrays{kernels::quantized_matmul(in[0], w, false)}; },
                     [&](const auto& in) { return product(in[0], transposed(dense, 64), 32); },
                     {normal({3, 32}, 5)});
  }
}

void check_packed_products() {
  const std::vector<tensor::Weight> weights{quantized(21, 64, 4, 6), quantized(21, 64, 6, 7),
                                            normal({21, 64}, 8), normal({21, 64}, 9, mx::bfloat16)};
  for (const tensor::Weight& w : weights) {
    const kernels::PackedMatrix packed = kernels::pack(w, runtime());
    const auto* codes = std::get_if<tensor::QuantizedTensor>(&w);
    const Values dense = wide(codes ? tensor::dequantize(*codes, mx::float32) : std::get<mx::array>(w));
    for (const int rows : {1, 5}) {
      expect_gradients([&](const Arrays& in) { return Arrays{kernels::packed_matmul(in[0], packed, in[1])}; },
                       [&](const auto& in) {
                         Values y = product(in[0], dense, 64);
                         for (std::size_t i = 0; i < y.size(); ++i) y[i] += in[1][i];
                         return y;
                       },
                       {normal({rows, 64}, 10), normal({rows, 21}, 11)});
    }
    expect_gradients(
        [&](const Arrays& in) {
          return kernels::packed_matmul(in[0], {packed, packed});
        },
        [&](const auto& in) {
          Values y = product(in[0], dense, 64);
          const Values once = y;
          y.insert(y.end(), once.begin(), once.end());
          return y;
        },
        {normal({2, 64}, 12)});
  }
}

TEST(Gradients, PackedProducts) { for_each_target(check_packed_products); }

/// In the tiers that round activations the gradient is that of the unrounded product.
TEST(Gradients, RoundedActivationsCountAsThemselves) {
  const mx::array x = normal({3, 64}, 13), cotangent = normal({3, 21}, 14);
  const auto gradient = [&](kernels::Products products) {
    kernels::Runtime run = runtime();
    run.products = products;
    const auto packed = kernels::pack(quantized(21, 64, 4, 6), run);
    return mx::vjp([&](const Arrays& in) { return Arrays{kernels::packed_matmul(in[0], packed)}; }, {x},
                   {cotangent})
        .second[0];
  };
  const mx::array exact = gradient(kernels::Products::kFloat32);
  for (const kernels::Products products : {kernels::Products::kBFloat16, kernels::Products::kInt8})
    EXPECT_TRUE(test::close(gradient(products), exact, 1e-2));  // the cotangent may be rounded as x is
}

struct Heads {
  std::size_t batch, heads, kv_heads, length, stored, dim, value_dim;
};

/// softmax(scale q k^T + mask) v; `mask` [length, stored] is added, -inf hides a key.
Values attention(const std::vector<Values>& in, const Heads& h, double scale, const Values& mask) {
  Values y;
  for (std::size_t b = 0; b < h.batch; ++b) {
    for (std::size_t head = 0; head < h.heads; ++head) {
      const std::size_t kv = b * h.kv_heads + head / (h.heads / h.kv_heads);
      for (std::size_t i = 0; i < h.length; ++i) {
        const double* q = in[0].data() + ((b * h.heads + head) * h.length + i) * h.dim;
        Values weights;
        double sum = 0;
        for (std::size_t j = 0; j < h.stored; ++j) {
          const double* k = in[1].data() + (kv * h.stored + j) * h.dim;
          double score = 0;
          for (std::size_t d = 0; d < h.dim; ++d) score += q[d] * k[d];
          weights.push_back(std::exp(score * scale + mask[i * h.stored + j]));
          sum += weights.back();
        }
        for (std::size_t d = 0; d < h.value_dim; ++d) {
          double value = 0;
          for (std::size_t j = 0; j < h.stored; ++j)
            value += weights[j] / sum * in[2][(kv * h.stored + j) * h.value_dim + d];
          y.push_back(value);
        }
      }
    }
  }
  return y;
}

void check_attention(const kernels::Runtime& run) {
  const Heads h{2, 4, 2, 3, 6, 8, 16};
  const Arrays inputs{normal({2, 4, 3, 8}, 20), normal({2, 2, 6, 8}, 21), normal({2, 2, 6, 16}, 22)};
  constexpr double kHidden = -std::numeric_limits<double>::infinity();
  Values none(18, 0.0), causal(18, 0.0);
  for (std::size_t i = 0; i < 3; ++i) {
    for (std::size_t j = i + 4; j < 6; ++j) causal[i * 6 + j] = kHidden;
  }
  const mx::array additive = normal({3, 6}, 23);
  const mx::array allowed = mx::logical_or(mx::greater(normal({3, 6}, 24), mx::array(0.0F)),
                                           mx::equal(mx::arange(6), mx::array(0)));
  const Values words = wide(allowed);
  Values chosen;
  for (const double word : words) chosen.push_back(word != 0 ? 0 : kHidden);
  const std::pair<tensor::Mask, Values> masks[] = {{tensor::Mask::none(), none},
                                                   {tensor::Mask::causal(), causal},
                                                   {tensor::Mask::of(additive), wide(additive)},
                                                   {tensor::Mask::of(allowed), chosen}};
  for (const auto& [mask, values] : masks) {
    SCOPED_TRACE(static_cast<int>(mask.mode));
    expect_gradients(
        [&](const Arrays& in) { return Arrays{kernels::attention(in[0], in[1], in[2], 0.4F, mask, run)}; },
        [&](const auto& in) { return attention(in, h, static_cast<double>(0.4F), values); }, inputs);
  }
}

TEST(Gradients, Attention) {
  check_attention({});
  for_each_target([] { check_attention(runtime()); });
}

/// Rows of n values; `row` gets a row and its index.
Values by_rows(const Values& x, std::size_t n, const std::function<Values(const double*)>& row) {
  Values y;
  for (std::size_t at = 0; at < x.size(); at += n) {
    for (const double value : row(x.data() + at)) y.push_back(value);
  }
  return y;
}

Values rms_norm(const Values& x, const Values& weight, double eps) {
  const std::size_t n = weight.size();
  return by_rows(x, n, [&](const double* row) {
    double squares = 0;
    for (std::size_t i = 0; i < n; ++i) squares += row[i] * row[i];
    Values y;
    for (std::size_t i = 0; i < n; ++i)
      y.push_back(row[i] / std::sqrt(squares / static_cast<double>(n) + eps) * weight[i]);
    return y;
  });
}

constexpr float kEps = 1e-3F;  // large enough to matter

void check_norms() {
  for (const int n : {7, 32}) {
    const mx::array x = mx::add(normal({2, 3, n}, 30), mx::array(0.5F)), residual = normal({2, 3, n}, 31);
    const mx::array weight = normal({n}, 32), bias = normal({n}, 33);
    expect_gradients([](const Arrays& in) { return Arrays{kernels::rms_norm(in[0], in[1], kEps)}; },
                     [](const auto& in) { return rms_norm(in[0], in[1], kEps); }, {x, weight});
    expect_gradients(
        [](const Arrays& in) { return Arrays{kernels::rms_norm(in[0], std::nullopt, kEps)}; },
        [&](const auto& in) { return rms_norm(in[0], Values(static_cast<std::size_t>(n), 1.0), kEps); }, {x});
    expect_gradients(
        [](const Arrays& in) {
          const auto [normed, total] = kernels::add_rms_norm(in[0], in[1], in[2], kEps);
          return Arrays{normed, total};
        },
        [](const auto& in) {
          Values total = in[0];
          for (std::size_t i = 0; i < total.size(); ++i) total[i] += in[1][i];
          Values y = rms_norm(total, in[2], kEps);
          y.insert(y.end(), total.begin(), total.end());
          return y;
        },
        {x, residual, weight});
    expect_gradients([](const Arrays& in) { return Arrays{kernels::layer_norm(in[0], in[1], in[2], kEps)}; },
                     [&](const auto& in) {
                       const auto size = static_cast<std::size_t>(n);
                       return by_rows(in[0], size, [&](const double* row) {
                         double sum = 0, squares = 0;
                         for (std::size_t i = 0; i < size; ++i) sum += row[i];
                         const double mean = sum / n;
                         for (std::size_t i = 0; i < size; ++i) squares += (row[i] - mean) * (row[i] - mean);
                         Values y;
                         for (std::size_t i = 0; i < size; ++i)
                           y.push_back((row[i] - mean) / std::sqrt(squares / n + kEps) * in[1][i] + in[2][i]);
                         return y;
                       });
                     },
                     {x, weight, bias});
  }
}

TEST(Gradients, Norms) { for_each_target(check_norms); }

void check_gates() {
  const auto gated = [](const std::function<double(double)>& activation) {
    return [activation](const std::vector<Values>& in) {
      Values y;
      for (std::size_t i = 0; i < in[0].size(); ++i) y.push_back(activation(in[0][i]) * in[1][i]);
      return y;
    };
  };
  const Arrays inputs{mx::multiply(normal({3, 21}, 40), mx::array(2.0F)), normal({3, 21}, 41)};
  expect_gradients([](const Arrays& in) { return Arrays{kernels::swiglu(in[0], in[1])}; },
                   gated([](double x) { return x / (1 + std::exp(-x)); }), inputs);
  expect_gradients(
      [](const Arrays& in) { return Arrays{kernels::geglu(in[0], in[1], kernels::Gelu::kExact)}; },
      gated([](double x) { return 0.5 * x * std::erfc(-x / std::sqrt(2.0)); }), inputs);
  expect_gradients(
      [](const Arrays& in) { return Arrays{kernels::geglu(in[0], in[1], kernels::Gelu::kTanh)}; },
      gated([](double x) {
        return 0.5 * x * (1 + std::tanh(std::sqrt(2 / 3.14159265358979323846) * (x + 0.044715 * x * x * x)));
      }),
      inputs);
}

TEST(Gradients, Gates) { for_each_target(check_gates); }

void check_rotations() {
  const std::vector<float> frequencies{1.0F, 0.3F, 0.01F};
  for (const auto pairs : {kernels::RopePairs::kHalves, kernels::RopePairs::kInterleaved}) {
    const kernels::Rotation rotation{mx::array(frequencies.data(), {3}, mx::float32), 1.25F, pairs};
    expect_gradients([&](const Arrays& in) { return Arrays{kernels::rope(in[0], rotation, 5)}; },
                     [&](const auto& in) {
                       Values y = in[0];
                       for (std::size_t row = 0; row < 2 * 4; ++row) {
                         for (std::size_t i = 0; i < 3; ++i) {
                           const bool is_halves = pairs == kernels::RopePairs::kHalves;
                           const std::size_t first = row * 8 + (is_halves ? i : 2 * i),
                                             second = first + (is_halves ? 3 : 1);
                           const double angle = static_cast<double>(5 + row % 4) * frequencies[i];
                           const double a = in[0][first], b = in[0][second];
                           y[first] = 1.25 * (a * std::cos(angle) - b * std::sin(angle));
                           y[second] = 1.25 * (a * std::sin(angle) + b * std::cos(angle));
                         }
                       }
                       return y;
                     },
                     {normal({1, 2, 4, 8}, 50)});
  }
}

TEST(Gradients, Rotations) { for_each_target(check_rotations); }

}  // namespace
}  // namespace tessera
