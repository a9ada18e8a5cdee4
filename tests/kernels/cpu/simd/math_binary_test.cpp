// The functions of two arguments of simd/math.h but pow on every compiled instruction set, against the C library in the next
// precision; the quotients of floats and of integers bit for bit.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tests/kernels/cpu/simd/math_binary_test.cpp"
#include "deckle/kernels/cpu/simd/targets.h"

#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "deckle/kernels/cpu/simd/math.h"
#include "tests/kernels/cpu/simd/apply_binary.h"

HWY_BEFORE_NAMESPACE();
namespace deckle::kernels::cpu::HWY_NAMESPACE {

#define DECKLE_APPLY_INTEGER(NAME) \
  void NAME##_i64(int64_t n, const int64_t* a, const int64_t* b, int64_t* y) { apply_##NAME(n, a, b, y); }
DECKLE_APPLY_BINARY(atan2)
DECKLE_APPLY_BINARY(hypot)
DECKLE_APPLY_BINARY(fmod)
DECKLE_APPLY_BINARY(remainder)
DECKLE_APPLY_BINARY(floor_divide)
DECKLE_APPLY_INTEGER(fmod)
DECKLE_APPLY_INTEGER(remainder)
DECKLE_APPLY_INTEGER(floor_divide)

}  // namespace deckle::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "tests/support/seed.h"

namespace deckle::kernels::cpu {
HWY_EXPORT(atan2_f32);
HWY_EXPORT(atan2_f64);
HWY_EXPORT(hypot_f32);
HWY_EXPORT(hypot_f64);
HWY_EXPORT(fmod_f32);
HWY_EXPORT(fmod_f64);
HWY_EXPORT(fmod_i64);
HWY_EXPORT(remainder_f32);
HWY_EXPORT(remainder_f64);
HWY_EXPORT(remainder_i64);
HWY_EXPORT(floor_divide_f32);
HWY_EXPORT(floor_divide_f64);
HWY_EXPORT(floor_divide_i64);

namespace {

std::mt19937_64& random_engine() {
  static std::mt19937_64 engine(testing::seed());
  return engine;
}

template <typename T>
struct Pairs {
  std::vector<T> a, b;
  void add(T x, T y) { a.push_back(x), b.push_back(y); }
};

/// Pairs of special values, of values of like size and of values of all sizes.
template <typename T>
Pairs<T> pairs() {
  using Limits = std::numeric_limits<T>;
  Pairs<T> result;
  const T specials[] = {0,
                        1,
                        T(0.5),
                        2,
                        3,
                        T(2.5),
                        T(7.25),
                        T(1e10),
                        Limits::infinity(),
                        Limits::quiet_NaN(),
                        Limits::denorm_min(),
                        Limits::min(),
                        Limits::max(),
                        Limits::max() / 8,
                        Limits::max() / T(1e8),
                        1 + Limits::epsilon()};
  for (const T x : specials) {
    for (const T y : specials) {
      for (const int signs : {0, 1, 2, 3}) result.add((signs & 1) != 0 ? -x : x, (signs & 2) != 0 ? -y : y);
    }
  }
  std::uniform_real_distribution<double> near(-10, 10), exponent(Limits::min_exponent - 10, Limits::max_exponent);
  const auto of_any_size = [&]() -> T {
    return static_cast<T>(std::exp2(exponent(random_engine())) * (random_engine()() % 2 ? 1 : -1));
  };
  for (int i = 0; i < 100000; ++i) result.add(static_cast<T>(near(random_engine())), static_cast<T>(near(random_engine())));
  for (int i = 0; i < 100000; ++i) {
    const T whole = std::round(static_cast<T>(near(random_engine()) * 100)), divisor = static_cast<T>(near(random_engine()));
    result.add(whole * divisor, divisor);  // quotients that are whole or nearly so
  }
  for (int i = 0; i < 50000; ++i) result.add(of_any_size(), of_any_size());
  while (result.a.size() % 64 != 0) result.add(1, 1);
  return result;
}

template <typename T>
using Wide = std::conditional_t<sizeof(T) == 4, double, long double>;

/// Units of the last place of `want`; NaNs are equal, and infinities only to themselves.
template <typename T>
double ulps(T got, Wide<T> want) {
  const T rounded = static_cast<T>(want);
  if (std::isnan(rounded) || std::isnan(got)) return std::isnan(rounded) == std::isnan(got) ? 0 : 1e30;
  if (std::isinf(rounded) || std::isinf(got)) return rounded == got ? 0 : 1e30;
  int exponent = 0;
  std::frexp(std::max(std::abs(rounded), std::numeric_limits<T>::min()), &exponent);
  const Wide<T> unit = std::ldexp(Wide<T>(1), exponent - std::numeric_limits<T>::digits);
  return static_cast<double>(std::abs(static_cast<Wide<T>>(got) - want) / unit);
}

template <typename T, class Apply, class Reference>
void check(const char* name, Apply apply, Reference reference, double bound) {
  const Pairs<T> values = pairs<T>();
  for (const int64_t target : simd::usable_targets()) {
    simd::force_target(target);
    std::vector<T> y(values.a.size(), T(-7));
    apply(static_cast<int64_t>(y.size()), values.a.data(), values.b.data(), y.data());
    double worst = 0;
    for (size_t i = 0; i < y.size(); ++i) {
      const Wide<T> want = reference(static_cast<Wide<T>>(values.a[i]), static_cast<Wide<T>>(values.b[i]));
      const double error = ulps<T>(y[i], want);
      worst = std::max(worst, error);
      ASSERT_LE(error, bound + 0x1p-10) << name << "(" << values.a[i] << ", " << values.b[i] << ") = " << y[i] << ", want "
                                        << want << " on " << hwy::TargetName(target);
      if (want == 0) {
        ASSERT_EQ(std::signbit(y[i]), std::signbit(want)) << name << "(" << values.a[i] << ", " << values.b[i] << ")";
      }
    }
    std::printf("%-8s %-12s %.2f ulp\n", hwy::TargetName(target), name, worst);
  }
}

/// Python's, in the arithmetic of T: the remainder is exact but for the addition of y.
template <typename T>
T python_remainder(T x, T y) {
  const T r = std::fmod(x, y);
  return r != 0 && (r < 0) != (y < 0) ? r + y : std::copysign(r, r != 0 ? r : y);
}

TEST(MathBinary, Atan2StaysWithinItsErrorAndKeepsItsLimits) {
  check<float>(
      "atan2", DECKLE_SIMD(atan2_f32), [](double y, double x) { return std::atan2(y, x); }, 1);
  check<double>(
      "atan2", DECKLE_SIMD(atan2_f64), [](long double y, long double x) { return std::atan2(y, x); }, 3);
}

TEST(MathBinary, HypotStaysWithinItsErrorAndKeepsItsLimits) {
  check<float>(
      "hypot", DECKLE_SIMD(hypot_f32), [](double x, double y) { return std::hypot(x, y); }, 0.6);
  check<double>(
      "hypot", DECKLE_SIMD(hypot_f64), [](long double x, long double y) { return std::hypot(x, y); }, 2);
}

TEST(MathBinary, FmodIsExact) {
  check<float>(
      "fmod", DECKLE_SIMD(fmod_f32), [](double x, double y) { return std::fmod(x, y); }, 0);
  check<double>(
      "fmod", DECKLE_SIMD(fmod_f64), [](long double x, long double y) { return std::fmod(x, y); }, 0);
}

TEST(MathBinary, RemainderHasTheSignOfTheDivisor) {
  check<float>(
      "remainder", DECKLE_SIMD(remainder_f32),
      [](double x, double y) { return python_remainder(static_cast<float>(x), static_cast<float>(y)); }, 0);
  check<double>(
      "remainder", DECKLE_SIMD(remainder_f64),
      [](long double x, long double y) { return python_remainder(static_cast<double>(x), static_cast<double>(y)); }, 0);
}

TEST(MathBinary, FloorDivideTakesWhatTheRemainderLeaves) {
  const auto reference = [](auto x, auto y) { return y == 0 ? x / y : std::round((x - std::fmod(x, y)) / y); };
  for (const int64_t target : simd::usable_targets()) {
    simd::force_target(target);
    std::vector<double> a, b, y;
    std::uniform_real_distribution<double> near(-100, 100);
    for (int i = 0; i < 64000; ++i) a.push_back(near(random_engine())), b.push_back(near(random_engine()));
    a[0] = 6, b[0] = 0.1, a[1] = 7, b[1] = 0, a[2] = -7, b[2] = 2, a[3] = 0, b[3] = -2;
    y.resize(a.size());
    DECKLE_SIMD(floor_divide_f64)(static_cast<int64_t>(y.size()), a.data(), b.data(), y.data());
    EXPECT_EQ(y[0], 59);  // 0.1 is a little more than a tenth
    EXPECT_EQ(y[1], std::numeric_limits<double>::infinity());
    EXPECT_EQ(y[2], -4);
    EXPECT_TRUE(y[3] == 0 && std::signbit(y[3]));
    for (size_t i = 4; i < a.size(); ++i) {
      const long double truncated = reference(static_cast<long double>(a[i]), static_cast<long double>(b[i]));
      const bool below = std::fmod(a[i], b[i]) != 0 && (a[i] < 0) != (b[i] < 0);
      ASSERT_EQ(y[i], static_cast<double>(truncated - (below ? 1 : 0))) << a[i] << " // " << b[i];
    }
  }
}

TEST(MathBinary, IntegersDivideExactlyAndNeverTrap) {
  const int64_t least = std::numeric_limits<int64_t>::min(), most = std::numeric_limits<int64_t>::max();
  std::vector<int64_t> a, b;
  for (const int64_t x : {int64_t{0}, int64_t{1}, int64_t{-1}, int64_t{7}, int64_t{-7}, most, least, most - 1}) {
    for (const int64_t y : {int64_t{0}, int64_t{1}, int64_t{-1}, int64_t{3}, int64_t{-3}, most, least, int64_t{2}})
      a.push_back(x), b.push_back(y);
  }
  // Whole vectors below 2^52, which are divided as doubles: of all sizes, and next to a multiple of the divisor.
  const auto of_bits = [](int bits) { return static_cast<int64_t>(random_engine()() >> (64 - bits)); };
  for (int i = 0; i < 20000; ++i) {
    const int bits = 1 + i % 52, of_divisor = 1 + i / 52 % bits;
    const int64_t y = std::max<int64_t>(1, of_bits(of_divisor));
    const int64_t x = i % 3 == 0 ? of_bits(bits) : of_bits(bits) / y * y + i % 3 - 2 + i % 2;
    a.push_back(i % 5 < 2 ? -x : x), b.push_back(i % 7 < 3 ? -y : y);
  }
  // Whole vectors of one size from 2^51 on, whose divisors are neither 0 nor the least number.
  for (const int bits : {51, 52, 53, 54, 60, 63}) {
    while (a.size() % 8 != 0) a.push_back(1), b.push_back(1);
    for (int i = 0; i < 64; ++i) {
      a.push_back((int64_t{1} << (bits - 1) | of_bits(bits - 1)) * (i % 2 ? -1 : 1));
      b.push_back((i % 4 < 2 ? 1 : -1) * (i < 32 ? 7 + i : std::max<int64_t>(1, of_bits(bits))));
    }
  }
  std::vector<int64_t> truncated(a.size()), floored(a.size()), quotient(a.size());
  for (const int64_t target : simd::usable_targets()) {
    simd::force_target(target);
    const auto n = static_cast<int64_t>(a.size());
    DECKLE_SIMD(fmod_i64)(n, a.data(), b.data(), truncated.data());
    DECKLE_SIMD(remainder_i64)(n, a.data(), b.data(), floored.data());
    DECKLE_SIMD(floor_divide_i64)(n, a.data(), b.data(), quotient.data());
    for (size_t i = 0; i < a.size(); ++i) {
      if (b[i] == 0 || (a[i] == least && b[i] == -1)) {
        EXPECT_EQ(truncated[i], 0);
        EXPECT_EQ(floored[i], 0);
        EXPECT_EQ(quotient[i], b[i] == 0 ? 0 : least);
        continue;
      }
      const int64_t rest = a[i] % b[i];
      const bool below = rest != 0 && (rest < 0) != (b[i] < 0);
      EXPECT_EQ(truncated[i], rest) << a[i] << ", " << b[i];
      EXPECT_EQ(floored[i], below ? rest + b[i] : rest) << a[i] << ", " << b[i];
      EXPECT_EQ(quotient[i], a[i] / b[i] - (below ? 1 : 0)) << a[i] << ", " << b[i];
    }
  }
}

}  // namespace
}  // namespace deckle::kernels::cpu
#endif
