// Sixteen floats as one vector of the compiler (GCC and clang): one, two or four registers of the
// target. Included inside its namespace by target-inl.h.
#pragma once

namespace {

constexpr int kLanes = 16;
typedef float Floats __attribute__((vector_size(64)));
typedef int32_t Ints __attribute__((vector_size(64)));
typedef uint32_t Words __attribute__((vector_size(64)));
typedef uint16_t Halves __attribute__((vector_size(32)));

template <typename Vector>
inline Vector load(const void* from) {
  Vector value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

inline void store(float* to, const Floats& value) { std::memcpy(to, &value, sizeof value); }

/// Sixteen elements of a run.
struct WholeBlock {
  inline Floats load(const float* from) const {
    Floats value;
    std::memcpy(&value, from, sizeof value);
    return value;
  }
  inline void store(float* to, const Floats& value) const { std::memcpy(to, &value, sizeof value); }
};

/// Fewer, at its end; the lanes beyond are 0.
struct PartBlock {
  std::size_t count;

  inline Floats load(const float* from) const {
    Floats value{};
    std::memcpy(&value, from, count * sizeof(float));
    return value;
  }
  inline void store(float* to, const Floats& value) const { std::memcpy(to, &value, count * sizeof(float)); }
};

/// body(i, block) for the elements from i on, over a run of n.
template <typename Body>
inline void for_blocks(std::size_t n, const Body& body) {
  std::size_t i = 0;
  for (; i + kLanes <= n; i += kLanes) body(i, WholeBlock{});
  if (i < n) body(i, PartBlock{n - i});
}

template <typename To, typename From>
inline To bit_cast(const From& from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  std::memcpy(&to, &from, sizeof to);
  return to;
}

inline Floats broadcast(float value) { return value - Floats{}; }

/// The larger of each lane. Of a NaN and a number it may be either.
inline Floats max(Floats a, Floats b) { return a > b ? a : b; }

/// To the nearest bfloat16, ties to even; infinities stay, NaN stays NaN.
inline Floats round_to_bfloat16(Floats x) {
  const Words bits = bit_cast<Words>(x);
  const Words rounded = (bits + 0x7fffU + ((bits >> 16) & 1U)) & 0xffff0000U;
  return x == x ? bit_cast<Floats>(rounded) : x;
}

/// Sum of all lanes in a fixed order.
inline float sum(const Floats& x) {
  typedef float Eight __attribute__((vector_size(32)));
  typedef float Four __attribute__((vector_size(16)));
  const Eight eight = load<Eight>(&x) + load<Eight>(reinterpret_cast<const char*>(&x) + 32);
  const Four four = load<Four>(&eight) + load<Four>(reinterpret_cast<const char*>(&eight) + 16);
  return (four[0] + four[2]) + (four[1] + four[3]);
}

inline float largest(const Floats& x) {
  float result = x[0];
  for (int i = 1; i < kLanes; ++i) result = x[i] > result ? x[i] : result;
  return result;
}

/// e^x for x <= 0 within 2 units in the last place; below -87 the result is 0. NaN stays NaN.
/// x = n ln 2 + r with |r| <= ln 2 / 2, e^r by its Taylor polynomial of degree 6 (remainder 2e-7 r^7/r).
inline Floats exp_nonpositive(Floats x) {
  const Floats clamped = x < -87.0F ? broadcast(-87.0F) : x;
  constexpr float kRound = 12582912.0F;  // 1.5 * 2^23: adding it rounds to a whole number
  const Floats shifted = clamped * broadcast(1.44269504F) + broadcast(kRound);
  const Floats n = shifted - broadcast(kRound);
  // ln 2 in two parts, so that n ln 2 loses nothing.
  const Floats r = (clamped - n * broadcast(0.693359375F)) - n * broadcast(-2.12194440e-4F);
  Floats p = broadcast(1.0F / 720);
  p = p * r + broadcast(1.0F / 120);
  p = p * r + broadcast(1.0F / 24);
  p = p * r + broadcast(1.0F / 6);
  p = p * r + broadcast(0.5F);
  p = p * r + broadcast(1.0F);
  p = p * r + broadcast(1.0F);
  const Ints exponent = (bit_cast<Ints>(shifted) - static_cast<int32_t>(0x4B400000)) << 23;
  const Floats result = bit_cast<Floats>(bit_cast<Ints>(p) + exponent);
  // The exponent's integer arithmetic may turn a NaN into a number; a term of 0 brings it back.
  return x < -87.0F ? Floats{} : result + r * broadcast(0.0F);
}

/// Sine and cosine within 2e-7 for |angle| < 2^30. The multiple of pi/2 is taken off in double, so that
/// an angle of a hundred thousand radians loses nothing.
inline void sine_cosine(Floats angle, Floats& sine, Floats& cosine) {
  typedef double Doubles __attribute__((vector_size(128)));
  constexpr double kRound = 6755399441055744.0;  // 1.5 * 2^52
  const Doubles wide = __builtin_convertvector(angle, Doubles);
  const Doubles shifted = wide * 0.63661977236758134 + kRound;
  const Doubles turns = shifted - kRound;
  const Floats r =
      __builtin_convertvector((wide - turns * 1.5707963267341256) - turns * 6.0771005065061922e-11, Floats);
  const Ints quarter = __builtin_convertvector(turns, Ints);
  const Floats r2 = r * r;
  Floats s = broadcast(2.7557319e-6F);
  s = s * r2 - broadcast(1.9841270e-4F);
  s = s * r2 + broadcast(8.3333333e-3F);
  s = s * r2 - broadcast(1.6666667e-1F);
  s = s * r2 * r + r;
  Floats c = broadcast(-2.7557319e-7F);
  c = c * r2 + broadcast(2.4801587e-5F);
  c = c * r2 - broadcast(1.3888889e-3F);
  c = c * r2 + broadcast(4.1666667e-2F);
  c = c * r2 - broadcast(0.5F);
  c = c * r2 + broadcast(1.0F);
  const Floats first = (quarter & 1) == 0 ? s : c;
  const Floats second = (quarter & 1) == 0 ? c : s;
  sine = (quarter & 2) == 0 ? first : -first;
  cosine = ((quarter + 1) & 2) == 0 ? second : -second;
}

}  // namespace
