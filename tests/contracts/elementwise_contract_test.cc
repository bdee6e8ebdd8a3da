// Norms, gates and rotations on every instruction set, against the plain reference.
#include "tessera/error.h"
#include "tessera/kernels/activation.h"
#include "tessera/kernels/norm.h"
#include "tessera/kernels/reference/elementwise.h"
#include "tessera/kernels/rope.h"
#include "tests/arrays.h"
#include "tests/contracts/each_target.h"

namespace tessera {
namespace {

using kernels::Gelu;
using kernels::RopePairs;
using test::close;
using test::for_each_target;
using test::normal;
namespace mx = mlx::core;
namespace reference = kernels::reference;

// Against the largest result: a statistic over some hundred values in another order, and a few operations that
// round once each.
constexpr double kElementwise = 1e-6;
constexpr int kSizes[] = {1, 2, 15, 16, 17, 31, 33, 48, 100, 576};

kernels::Runtime runtime(int threads) { return {std::make_shared<base::ThreadPool>(threads)}; }

bool equal_bits(const mx::array& a, const mx::array& b) {
  return a.shape() == b.shape() && mx::array_equal(a, b).item<bool>();
}

void check_norms() {
  for (const int size : kSizes) {
    SCOPED_TRACE(size);
    const mx::array x = mx::add(normal({3, size}, 18), mx::array(2.0F)), residual = normal({3, size}, 19);
    const mx::array weight = normal({size}, 20), bias = normal({size}, 21);
    const std::optional<mx::array> none, gain = weight, shift = bias;
    for (const auto& w : {none, gain}) {
      EXPECT_TRUE(close(kernels::rms_norm(x, w, 1e-5F), reference::rms_norm(x, w, 1e-5F), kElementwise));
      const auto [normed, total] = kernels::add_rms_norm(x, residual, w, 1e-5F);
      const auto [expected_normed, expected_total] = reference::add_rms_norm(x, residual, w, 1e-5F);
      EXPECT_TRUE(close(normed, expected_normed, kElementwise));
      EXPECT_TRUE(equal_bits(total, expected_total));
      for (const auto& b : {none, shift}) {
        if (size == 1) continue;  // nothing is left of a single value
        EXPECT_TRUE(
            close(kernels::layer_norm(x, w, b, 1e-5F), reference::layer_norm(x, w, b, 1e-5F), kElementwise));
      }
    }
  }
  EXPECT_TRUE(close(kernels::layer_norm(normal({4, 1}, 1), std::nullopt, mx::array({3.0F}), 1e-5F),
                    mx::full({4, 1}, 3.0F), 0.0));
}

TEST(Norms, EveryTargetEqualsTheReference) { for_each_target(check_norms); }

TEST(Norms, HonourStridesAndBroadcasts) {
  const mx::array x = mx::transpose(normal({32, 5}, 34)),
                  residual = mx::broadcast_to(normal({32}, 35), {5, 32});
  const mx::array weight = mx::broadcast_to(mx::array(0.5F), {32});
  const mx::array bias = mx::slice(normal({64}, 36), {0}, {64}, {2});
  EXPECT_TRUE(
      close(kernels::rms_norm(x, weight, 1e-5F), reference::rms_norm(x, weight, 1e-5F), kElementwise));
  EXPECT_TRUE(close(kernels::add_rms_norm(x, residual, weight, 1e-5F).first,
                    reference::add_rms_norm(x, residual, weight, 1e-5F).first, kElementwise));
  EXPECT_TRUE(close(kernels::layer_norm(x, weight, bias, 1e-5F),
                    reference::layer_norm(x, weight, bias, 1e-5F), kElementwise));
}

TEST(Norms, RefuseOperandsThatDoNotFit) {
  const mx::array x = normal({2, 8}, 1);
  EXPECT_THROW(kernels::rms_norm(x, normal({7}, 2), 1e-5F), Error);
  EXPECT_THROW(kernels::add_rms_norm(x, normal({8}, 2), std::nullopt, 1e-5F), Error);
  EXPECT_THROW(kernels::add_rms_norm(x, normal({2, 8}, 2, mx::bfloat16), std::nullopt, 1e-5F), Error);
  EXPECT_THROW(kernels::layer_norm(x, std::nullopt, normal({7}, 2), 1e-5F), Error);
  EXPECT_EQ(kernels::layer_norm(normal({2, 8}, 1, mx::bfloat16), std::nullopt, std::nullopt, 1e-5F).dtype(),
            mx::bfloat16);
}

void check_gates() {
  for (const int size : kSizes) {
    SCOPED_TRACE(size);
    const mx::array up = normal({size}, 21);
    for (const float spread : {1.0F, 20.0F}) {
      const mx::array gate = mx::multiply(normal({size}, 20), mx::array(spread));
      EXPECT_TRUE(close(kernels::swiglu(gate, up), reference::swiglu(gate, up), kElementwise));
      for (const Gelu gelu : {Gelu::kExact, Gelu::kTanh}) {
        EXPECT_TRUE(close(kernels::geglu(gate, up, gelu), reference::geglu(gate, up, gelu), kElementwise));
      }
    }
  }
  const mx::array far = mx::array({-3e38F, -1000.0F, -90.0F, 0.0F, 90.0F, 1000.0F, 3e38F});
  const std::vector<float> expected{0, 0, 0, 0, 90, 1000, 3e38F};
  const mx::array ones = mx::ones({7});
  EXPECT_EQ(test::values(kernels::swiglu(far, ones)), expected);
  EXPECT_EQ(test::values(kernels::geglu(far, ones, Gelu::kExact)), expected);
  EXPECT_EQ(test::values(kernels::geglu(far, ones, Gelu::kTanh)), expected);
}

TEST(Gates, EveryTargetEqualsTheReference) { for_each_target(check_gates); }

// Against double, over the whole range in small steps: the reference itself rounds.
TEST(Gates, GeluHoldsItsBoundEverywhere) {
  for_each_target([] {
    const mx::array x = mx::arange(-12.0, 12.0, 1.0 / 1024, mx::float32);
    const mx::array ones = mx::ones(x.shape());
    const auto inputs = test::values(x);
    const auto exact = test::values(kernels::geglu(x, ones, Gelu::kExact));
    const auto by_tanh = test::values(kernels::geglu(x, ones, Gelu::kTanh));
    double error = 0, tanh_error = 0;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const double v = inputs[i];
      const double size = std::max(1.0, std::abs(v));
      error = std::max(error, std::abs(exact[i] - 0.5 * v * std::erfc(-v / std::sqrt(2.0))) / size);
      const double inner = std::sqrt(2 / 3.14159265358979323846) * (v + 0.044715 * v * v * v);
      tanh_error = std::max(tanh_error, std::abs(by_tanh[i] - 0.5 * v * (1 + std::tanh(inner))) / size);
    }
    EXPECT_LT(error, 3e-7);
    EXPECT_LT(tanh_error, 3e-7);
  });
}

TEST(Gates, HonourStridesAndRefuseOtherShapes) {
  const mx::array x = mx::transpose(normal({32, 5}, 34));
  const mx::array y = mx::slice(normal({5, 64}, 35), {0, 16}, {5, 48});
  EXPECT_TRUE(close(kernels::swiglu(x, y), reference::swiglu(x, y), kElementwise));
  EXPECT_TRUE(close(kernels::geglu(x, y, Gelu::kTanh), reference::geglu(x, y, Gelu::kTanh), kElementwise));
  EXPECT_THROW(kernels::geglu(x, normal({32, 5}, 1), Gelu::kTanh), Error);
}

void check_rotations() {
  for (const int pairs : {1, 3, 16, 17, 40}) {
    const mx::array frequencies = mx::divide(mx::array(1.0F), mx::arange(1.0, pairs + 1.0, 1.0, mx::float32));
    for (const int dim : {2 * pairs, 2 * pairs + 6}) {
      for (const RopePairs order : {RopePairs::kHalves, RopePairs::kInterleaved}) {
        for (const float scale : {1.0F, 1.3F}) {
          SCOPED_TRACE(::testing::Message() << pairs << " pairs of " << dim << " dims, scale " << scale);
          const kernels::Rotation rotation{frequencies, scale, order};
          const mx::array contiguous = normal({2, 3, 5, dim}, 22);
          const mx::array heads_inside = mx::transpose(normal({2, 5, 3, dim}, 23), {0, 2, 1, 3});
          const mx::array dims_outside = mx::transpose(normal({dim, 2, 5, 3}, 24), {1, 3, 2, 0});
          for (const mx::array& x : {contiguous, heads_inside, dims_outside}) {
            EXPECT_TRUE(
                close(kernels::rope(x, rotation, 11), reference::rope(x, rotation, 11), kElementwise));
          }
        }
      }
    }
  }
}

TEST(Rotations, EveryTargetEqualsTheReference) { for_each_target(check_rotations); }

TEST(Rotations, InterleavedPairsAreHalvesInAnotherOrder) {
  const mx::array frequencies = mx::array({1.0F, 0.1F, 0.01F});
  const mx::array halves = normal({1, 2, 3, 6}, 25);
  const mx::array order = mx::array({0, 3, 1, 4, 2, 5}, mx::int32);
  EXPECT_TRUE(
      equal_bits(kernels::rope(mx::take(halves, order, 3), {frequencies, 1, RopePairs::kInterleaved}, 4),
                 mx::take(kernels::rope(halves, frequencies, 4), order, 3)));
}

TEST(Elementwise, DoesNotDependOnTheThreads) {
  const mx::array x = normal({300, 700}, 26), y = normal({300, 700}, 27);
  const mx::array heads = normal({2, 3, 400, 64}, 28);
  const kernels::Rotation rotation{normal({24}, 29), 1.1F, RopePairs::kInterleaved};
  const auto all = [&](const kernels::Runtime& run) {
    const auto [normed, total] = kernels::add_rms_norm(x, y, std::nullopt, 1e-5F, run);
    return std::vector{normed,
                       total,
                       kernels::rms_norm(x, std::nullopt, 1e-5F, run),
                       kernels::layer_norm(x, std::nullopt, std::nullopt, 1e-5F, run),
                       kernels::swiglu(x, y, run),
                       kernels::geglu(x, y, Gelu::kExact, run),
                       kernels::rope(heads, rotation, 7, run)};
  };
  const auto alone = all({});
  for (const int threads : {1, 2, 3, 7}) {
    const auto together = all(runtime(threads));
    for (std::size_t i = 0; i < alone.size(); ++i) EXPECT_TRUE(equal_bits(alone[i], together[i])) << i;
  }
}

}  // namespace
}  // namespace tessera
