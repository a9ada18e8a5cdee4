// Every function of simd/math.h on every compiled instruction set: largest error in units of the last place against the C
// library in the next precision (float: double, double: 80-bit long double), and the limits.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tests/kernels/cpu/simd/math_test.cpp"
#include "deckle/kernels/cpu/simd/targets.h"

#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "deckle/kernels/cpu/simd/math.h"
#include "deckle/kernels/cpu/simd/not_equal.h"
#include "tests/kernels/cpu/simd/apply_binary.h"

// clang-format off
#define DECKLE_UNARY_FUNCTIONS(F)                                                                    \
  F(exp) F(exp2) F(expm1) F(log) F(log2) F(log10) F(log1p) F(tanh) F(sigmoid) F(softplus)            \
  F(log_sigmoid) F(erf) F(erfc) F(normal_cdf) F(sin) F(cos) F(tan) F(atan) F(sqrt) F(rsqrt) F(reciprocal)          \
  F(abs) F(sign) F(floor) F(ceil) F(round) F(trunc)
// clang-format on
#define DECKLE_BINARY_FUNCTIONS(F) F(pow) F(minimum) F(maximum)

HWY_BEFORE_NAMESPACE();
namespace deckle::kernels::cpu::HWY_NAMESPACE {

// n is a multiple of 64, so of every vector length.
#define DECKLE_APPLY_UNARY(NAME)                                                                                            \
  template <typename T>                                                                                                     \
  void apply_##NAME(int64_t n, const T* x, T* y) {                                                                          \
    const hn::ScalableTag<T> d;                                                                                             \
    for (int64_t i = 0; i < n; i += static_cast<int64_t>(hn::Lanes(d))) hn::StoreU(NAME(d, hn::LoadU(d, x + i)), d, y + i); \
  }                                                                                                                         \
  void NAME##_f32(int64_t n, const float* x, float* y) { apply_##NAME(n, x, y); }                                           \
  void NAME##_f64(int64_t n, const double* x, double* y) { apply_##NAME(n, x, y); }
DECKLE_UNARY_FUNCTIONS(DECKLE_APPLY_UNARY)

DECKLE_BINARY_FUNCTIONS(DECKLE_APPLY_BINARY)

/// 1 where a and b are unequal, 0 elsewhere.
template <class D, class V>
V unequal(D d, V a, V b) {
  return hn::IfThenElseZero(not_equal(a, b), hn::Set(d, 1));
}
DECKLE_APPLY_BINARY(unequal)

}  // namespace deckle::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include "tests/support/seed.h"

namespace deckle::kernels::cpu {
#define DECKLE_EXPORT(NAME) \
  HWY_EXPORT(NAME##_f32);   \
  HWY_EXPORT(NAME##_f64);
DECKLE_UNARY_FUNCTIONS(DECKLE_EXPORT)
DECKLE_BINARY_FUNCTIONS(DECKLE_EXPORT)
DECKLE_EXPORT(unequal)

namespace {

template <typename T>
using Wide = std::conditional_t<sizeof(T) == 4, double, long double>;

template <typename T>
struct Function {
  const char* name;
  void (*apply)(int64_t, const T*, T*);
  Wide<T> (*reference)(Wide<T>);
  double low, high;  // dense sampling here, besides all magnitudes
  double bound;      // units of the last place: deckle/kernels/cpu/simd/README.md states them
};

template <typename T>
double ulps(T got, Wide<T> want) {
  const T rounded = static_cast<T>(want);
  if (std::isnan(rounded) || std::isnan(got)) return std::isnan(rounded) == std::isnan(got) ? 0 : 1e30;
  if (std::isinf(rounded) || std::isinf(got)) return rounded == got ? 0 : 1e30;
  const T magnitude = std::abs(rounded);
  int exponent = 0;
  std::frexp(std::max(magnitude, std::numeric_limits<T>::min()), &exponent);
  const Wide<T> unit = std::ldexp(Wide<T>(1), exponent - std::numeric_limits<T>::digits);
  return static_cast<double>(std::abs(static_cast<Wide<T>>(got) - want) / unit);
}

template <typename T>
std::vector<T> arguments(double low, double high, std::mt19937_64& random) {
  std::vector<T> x;
  std::uniform_real_distribution<double> inside(low, high),
      exponent(std::numeric_limits<T>::min_exponent - 10.0, std::numeric_limits<T>::max_exponent - 0.001);
  for (int i = 0; i < 200000; ++i) x.push_back(static_cast<T>(inside(random)));
  for (int i = 0; i < 50000; ++i)
    x.push_back(static_cast<T>(inside(random) * std::exp2(-20 * std::uniform_real_distribution<>()(random))));
  for (int i = 0; i < 50000; ++i) {
    const T magnitude = static_cast<T>(std::exp2(exponent(random)));
    x.push_back(random() % 2 ? magnitude : -magnitude);
  }
  const T infinity = std::numeric_limits<T>::infinity(), least = std::numeric_limits<T>::denorm_min(),
          small = std::numeric_limits<T>::min(), large = std::numeric_limits<T>::max();
  for (T special : {T(0), infinity, least, small, small - least, large, T(1), T(0.5), T(1.5), T(2), T(2.5),
                    std::nextafter(T(1), T(2)), std::nextafter(T(1), T(0)), T(10), T(88), T(104), T(709), T(746)}) {
    x.push_back(special);
    x.push_back(-special);
  }
  // NaN with the least and with all bits below the one that makes it quiet: shifts of bits must not make a number of it.
  using Bits = std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>;
  const T nan = std::numeric_limits<T>::quiet_NaN();
  for (const Bits low : {Bits{0}, Bits{1}, (std::bit_cast<Bits>(nan) & -std::bit_cast<Bits>(nan)) - 1}) {
    x.push_back(std::bit_cast<T>(std::bit_cast<Bits>(nan) | low));
    x.push_back(-x.back());
  }
  while (x.size() % 64 != 0) x.push_back(T(1));
  return x;
}

template <typename W>
W sigmoid_reference(W x) {
  return 1 / (1 + std::exp(-x));
}
template <typename W>
W softplus_reference(W x) {
  return std::max(x, W(0)) + std::log1p(std::exp(-std::abs(x))) + (std::isnan(x) ? x : W(0));
}
template <typename W>
W sign_reference(W x) {
  return x > 0 ? W(1) : x < 0 ? W(-1) : x;
}

template <typename T>
std::vector<Function<T>> functions();

#define DECKLE_FUNCTIONS(T, SUFFIX)                                                                                             \
  template <>                                                                                                                   \
  std::vector<Function<T>> functions<T>() {                                                                                     \
    using W = Wide<T>;                                                                                                          \
    return {                                                                                                                    \
        {"exp", DECKLE_SIMD(exp_##SUFFIX), [](W x) { return std::exp(x); }, -120, 100, 1.25},                                   \
        {"exp2", DECKLE_SIMD(exp2_##SUFFIX), [](W x) { return std::exp2(x); }, -150, 130, 1.75},                                \
        {"expm1", DECKLE_SIMD(expm1_##SUFFIX), [](W x) { return std::expm1(x); }, -20, 90, 2.75},                               \
        {"log", DECKLE_SIMD(log_##SUFFIX), [](W x) { return std::log(x); }, 0, 4, 1.5},                                         \
        {"log2", DECKLE_SIMD(log2_##SUFFIX), [](W x) { return std::log2(x); }, 0, 4, 2.25},                                     \
        {"log10", DECKLE_SIMD(log10_##SUFFIX), [](W x) { return std::log10(x); }, 0, 4, 2.75},                                  \
        {"log1p", DECKLE_SIMD(log1p_##SUFFIX), [](W x) { return std::log1p(x); }, -1, 4, 2.25},                                 \
        {"tanh", DECKLE_SIMD(tanh_##SUFFIX), [](W x) { return std::tanh(x); }, -20, 20, 3.5},                                   \
        {"sigmoid", DECKLE_SIMD(sigmoid_##SUFFIX), [](W x) { return sigmoid_reference(x); }, -110, 100, 3.75},                  \
        {"softplus", DECKLE_SIMD(softplus_##SUFFIX), [](W x) { return softplus_reference(x); }, -110, 100, 3.5},                \
        {"log_sigmoid", DECKLE_SIMD(log_sigmoid_##SUFFIX), [](W x) { return -softplus_reference(-x); }, -110, 100, 3.5},        \
        {"erf", DECKLE_SIMD(erf_##SUFFIX), [](W x) { return std::erf(x); }, -6, 6, 2.5},                                        \
        {"erfc", DECKLE_SIMD(erfc_##SUFFIX), [](W x) { return std::erfc(x); }, -6, 28, 6.25},                                   \
        {"normal_cdf", DECKLE_SIMD(normal_cdf_##SUFFIX), [](W x) { return std::erfc(-x / std::sqrt(W(2))) / 2; }, -39, 9, 7.0}, \
        {"sin", DECKLE_SIMD(sin_##SUFFIX), [](W x) { return std::sin(x); }, -100, 100, 2.75},                                   \
        {"cos", DECKLE_SIMD(cos_##SUFFIX), [](W x) { return std::cos(x); }, -100, 100, 2.75},                                   \
        {"tan", DECKLE_SIMD(tan_##SUFFIX), [](W x) { return std::tan(x); }, -100, 100, 4.0},                                    \
        {"sin", DECKLE_SIMD(sin_##SUFFIX), [](W x) { return std::sin(x); }, -2e5, 2e5, 2.75},                                   \
        {"cos", DECKLE_SIMD(cos_##SUFFIX), [](W x) { return std::cos(x); }, -2e5, 2e5, 2.75},                                   \
        {"atan", DECKLE_SIMD(atan_##SUFFIX), [](W x) { return std::atan(x); }, -8, 8, 2.5},                                     \
        {"sqrt", DECKLE_SIMD(sqrt_##SUFFIX), [](W x) { return std::sqrt(x); }, 0, 4, 0.5},                                      \
        {"rsqrt", DECKLE_SIMD(rsqrt_##SUFFIX), [](W x) { return 1 / std::sqrt(x); }, 0, 4, 1.5},                                \
        {"reciprocal", DECKLE_SIMD(reciprocal_##SUFFIX), [](W x) { return 1 / x; }, 0, 4, 0.5},                                 \
        {"abs", DECKLE_SIMD(abs_##SUFFIX), [](W x) { return std::abs(x); }, -3, 3, 0},                                          \
        {"sign", DECKLE_SIMD(sign_##SUFFIX), [](W x) { return sign_reference(x); }, -3, 3, 0},                                  \
        {"floor", DECKLE_SIMD(floor_##SUFFIX), [](W x) { return std::floor(x); }, -30, 30, 0},                                  \
        {"ceil", DECKLE_SIMD(ceil_##SUFFIX), [](W x) { return std::ceil(x); }, -30, 30, 0},                                     \
        {"round", DECKLE_SIMD(round_##SUFFIX), [](W x) { return std::nearbyint(x); }, -30, 30, 0},                              \
        {"trunc", DECKLE_SIMD(trunc_##SUFFIX), [](W x) { return std::trunc(x); }, -30, 30, 0},                                  \
    };                                                                                                                          \
  }
DECKLE_FUNCTIONS(float, f32)
DECKLE_FUNCTIONS(double, f64)

template <typename T>
class MathTest : public ::testing::Test {
 protected:
  std::mt19937_64 random{testing::seed()};
};
using Types = ::testing::Types<float, double>;
TYPED_TEST_SUITE(MathTest, Types);

TYPED_TEST(MathTest, UnaryFunctionsStayWithinTheirErrors) {
  using T = TypeParam;
  for (const int64_t target : simd::usable_targets()) {
    simd::force_target(target);
    for (const Function<T>& f : functions<T>()) {
      const std::vector<T> x = arguments<T>(f.low, f.high, this->random);
      std::vector<T> y(x.size(), T(-7));
      f.apply(static_cast<int64_t>(x.size()), x.data(), y.data());
      double worst = 0;
      T where = 0;
      for (size_t i = 0; i < x.size(); ++i) {
        const Wide<T> want = f.reference(static_cast<Wide<T>>(x[i]));
        const double error = ulps<T>(y[i], want);
        if (error > worst) worst = error, where = x[i];
        if (want == 0 && (x[i] == 0 || f.bound == 0)) {
          EXPECT_EQ(std::signbit(y[i]), std::signbit(want)) << f.name << " of " << x[i];
        }
      }
      EXPECT_LE(worst, f.bound + 0x1p-10)  // the reference is rounded too
          << f.name << " at " << where << " on " << hwy::TargetName(target);
      std::printf("%-8s %-12s %.2f ulp\n", hwy::TargetName(target), f.name, worst);
    }
  }
}

TYPED_TEST(MathTest, PowStaysWithinItsErrorAndKeepsItsLimits) {
  using T = TypeParam;
  std::vector<T> a, b;
  const auto pair = [&](double x, double y) { a.push_back(static_cast<T>(x)), b.push_back(static_cast<T>(y)); };
  std::uniform_real_distribution<double> base(0, 4), exponent(-40, 40), wide(-700, 700);
  for (int i = 0; i < 200000; ++i) pair(base(this->random), exponent(this->random));
  for (int i = 0; i < 100000; ++i) pair(std::exp2(exponent(this->random) * 2), exponent(this->random) / 4);
  for (int i = 0; i < 100000; ++i) pair(1 + 1e-3 * wide(this->random) / 700, wide(this->random));
  for (int i = 0; i < 2000; ++i) pair(-base(this->random), std::round(exponent(this->random)));
  const double infinity = std::numeric_limits<double>::infinity();
  const double specials[] = {0,
                             -0.0,
                             1,
                             -1,
                             0.5,
                             -0.5,
                             2,
                             -2,
                             3,
                             -3,
                             2.5,
                             1e30,
                             -1e30,
                             infinity,
                             -infinity,
                             std::nan(""),
                             std::numeric_limits<T>::denorm_min(),
                             std::numeric_limits<T>::max(),
                             1 + std::numeric_limits<T>::epsilon()};
  for (double x : specials)
    for (double y : specials) pair(x, y);
  while (a.size() % 64 != 0) pair(1, 1);
  for (const int64_t target : simd::usable_targets()) {
    simd::force_target(target);
    std::vector<T> y(a.size(), T(-7));
    if constexpr (sizeof(T) == 4)
      DECKLE_SIMD(pow_f32)(static_cast<int64_t>(a.size()), a.data(), b.data(), y.data());
    else
      DECKLE_SIMD(pow_f64)(static_cast<int64_t>(a.size()), a.data(), b.data(), y.data());
    double worst = 0;
    for (size_t i = 0; i < a.size(); ++i) {
      const Wide<T> want = std::pow(static_cast<Wide<T>>(a[i]), static_cast<Wide<T>>(b[i]));
      const double error = ulps<T>(y[i], want);
      worst = std::max(worst, error);
      EXPECT_LE(error, 1.5) << "pow(" << a[i] << ", " << b[i] << ") = " << y[i] << ", want " << want << " on "
                            << hwy::TargetName(target);
      if (want == 0) {
        EXPECT_EQ(std::signbit(y[i]), std::signbit(want)) << "pow(" << a[i] << ", " << b[i] << ")";
      }
    }
    std::printf("%-8s pow %.2f ulp\n", hwy::TargetName(target), worst);
  }
}

TYPED_TEST(MathTest, NaNIsUnequalToEverything) {
  using T = TypeParam;
  const T values[] = {0, -T(0), 1, std::numeric_limits<T>::infinity(), std::numeric_limits<T>::quiet_NaN()};
  std::vector<T> a, b;
  for (const T x : values) {
    for (const T y : values) a.push_back(x), b.push_back(y);
  }
  while (a.size() % 64 != 0) a.push_back(1), b.push_back(1);
  std::vector<T> got(a.size());
  for (const int64_t target : simd::usable_targets()) {
    simd::force_target(target);
    if constexpr (sizeof(T) == 4)
      DECKLE_SIMD(unequal_f32)(static_cast<int64_t>(a.size()), a.data(), b.data(), got.data());
    else
      DECKLE_SIMD(unequal_f64)(static_cast<int64_t>(a.size()), a.data(), b.data(), got.data());
    for (size_t i = 0; i < a.size(); ++i)
      EXPECT_EQ(got[i], a[i] != b[i] ? 1 : 0) << a[i] << " != " << b[i] << " on " << hwy::TargetName(target);
  }
}

TYPED_TEST(MathTest, MinimumAndMaximumLetNanWin) {
  using T = TypeParam;
  const T nan = std::numeric_limits<T>::quiet_NaN();
  std::vector<T> a(64, T(1)), b(64, T(2)), low(64), high(64);
  a[3] = nan, b[7] = nan, a[9] = 5;
  for (const int64_t target : simd::usable_targets()) {
    simd::force_target(target);
    if constexpr (sizeof(T) == 4) {
      DECKLE_SIMD(minimum_f32)(64, a.data(), b.data(), low.data());
      DECKLE_SIMD(maximum_f32)(64, a.data(), b.data(), high.data());
    } else {
      DECKLE_SIMD(minimum_f64)(64, a.data(), b.data(), low.data());
      DECKLE_SIMD(maximum_f64)(64, a.data(), b.data(), high.data());
    }
    for (int i = 0; i < 64; ++i) {
      if (i == 3 || i == 7) {
        EXPECT_TRUE(std::isnan(low[i]) && std::isnan(high[i])) << i;
      } else {
        EXPECT_EQ(low[i], std::min(a[i], b[i]));
        EXPECT_EQ(high[i], std::max(a[i], b[i]));
      }
    }
  }
}

}  // namespace
}  // namespace deckle::kernels::cpu
#endif
