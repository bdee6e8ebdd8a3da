// Arrays in tests: goldens from files, values, and comparisons that say where they failed.
#pragma once

#include <gtest/gtest.h>
#include <mlx/mlx.h>

#include <cmath>
#include <string>
#include <unordered_map>
#include <vector>

namespace tessera::test {

namespace mx = mlx::core;

/// The path of a file below fixtures/.
inline std::string fixture(const std::string& name) { return std::string(TESSERA_FIXTURES) + "/" + name; }

using Tensors = std::unordered_map<std::string, mx::array>;

/// All tensors of a safetensors file below fixtures/, evaluated.
inline Tensors load_fixture(const std::string& name) {
  Tensors tensors = mx::load_safetensors(fixture(name)).first;
  for (auto& [key, array] : tensors) array.eval();
  return tensors;
}

/// The values as float32, in row-major order.
inline std::vector<float> values(const mx::array& x) {
  mx::array flat = mx::contiguous(mx::astype(x, mx::float32));
  mx::eval(flat);
  return std::vector<float>(flat.data<float>(), flat.data<float>() + flat.size());
}

inline std::vector<int32_t> ids(const mx::array& x) {
  mx::array flat = mx::contiguous(mx::astype(x, mx::int32));
  mx::eval(flat);
  return std::vector<int32_t>(flat.data<int32_t>(), flat.data<int32_t>() + flat.size());
}

/// max |a - b| / max |b|, or NaN when something is not finite.
inline double relative_error(const mx::array& actual, const mx::array& expected) {
  const std::vector<float> a = values(actual);
  const std::vector<float> b = values(expected);
  if (a.size() != b.size()) return std::nan("");
  double largest = 0.0;
  double error = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (!std::isfinite(a[i]) || !std::isfinite(b[i])) return std::nan("");
    largest = std::max(largest, std::abs(static_cast<double>(b[i])));
    error = std::max(error, std::abs(static_cast<double>(a[i]) - static_cast<double>(b[i])));
  }
  return largest > 0 ? error / largest : error;
}

/// Shapes are equal and the relative error is at most `tolerance`.
inline ::testing::AssertionResult close(const mx::array& actual, const mx::array& expected,
                                        double tolerance) {
  if (actual.shape() != expected.shape()) {
    return ::testing::AssertionFailure()
           << "shapes differ: " << actual.shape() << " and " << expected.shape();
  }
  const double error = relative_error(actual, expected);
  if (error <= tolerance) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << "relative error " << error << ", tolerance " << tolerance;
}

/// Unit-normal values, the same for the same seed.
inline mx::array normal(mx::Shape shape, uint64_t seed, mx::Dtype dtype = mx::float32) {
  return mx::astype(mx::random::normal(shape, mx::float32, 0.0F, 1.0F, mx::random::key(seed)), dtype);
}

}  // namespace tessera::test
