#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

#include "deckle/base/error.h"
#include "deckle/kernels/args/context.h"
#include "tests/kernels/cpu/support/buffer.h"
#include "tests/kernels/cpu/support/threads.h"

namespace deckle::kernels::cpu {
void cross_entropy_rows(const Context&, const View& input, const View& target, int64_t ignore_index, double label_smoothing,
                        const View& loss, const View& lse);
void cross_entropy_rows_backward(const Context&, const View& loss_gradient, const View& lse_gradient, const View& input,
                                 const View& target, const View& lse, int64_t ignore_index, double label_smoothing,
                                 const View& result);
void cross_entropy_rows_jvp(const Context&, const View& tangent, const View& input, const View& target, const View& lse,
                            int64_t ignore_index, double label_smoothing, const View& loss, const View& lse_tangent);
}  // namespace deckle::kernels::cpu

namespace deckle {
namespace {

using testing::Buffer;
using testing::expect_close;
using testing::poisoned;
using testing::random_integers;
using testing::random_normal;
using testing::values;

constexpr int64_t kIgnored = 2;  // one of the classes, so that some rows are ignored

struct Case {
  int64_t rows, classes;
  double smoothing;
};

constexpr Case kCases[] = {{1, 1, 0.0}, {7, 3, 0.0}, {5, 4, 0.1}, {33, 257, 0.2}, {3, 5000, 1.0}, {0, 9, 0.0}};

/// Everything by the definitions; sums in long double, since those of large logits cancel.
struct Naive {
  std::vector<double> loss, lse, gradient, loss_tangent, lse_tangent;

  Naive(const Case& c, const std::vector<double>& x, const std::vector<double>& target, const std::vector<double>& loss_gradient,
        const std::vector<double>& lse_gradient, const std::vector<double>& tangent) {
    for (int64_t r = 0; r < c.rows; ++r) {
      const auto row = static_cast<size_t>(r);
      const double* const logits = x.data() + r * c.classes;
      long double total = 0;
      for (int64_t j = 0; j < c.classes; ++j) total += std::exp(static_cast<long double>(logits[j]));
      const long double log_total = std::log(total);
      const double counts = target[row] != kIgnored;
      long double value = log_total, along = 0, mean = 0;
      for (int64_t j = 0; j < c.classes; ++j) {
        const long double q =
            (1 - c.smoothing) * (j == static_cast<int64_t>(target[row])) + c.smoothing / static_cast<double>(c.classes);
        const double p = logits[j] == -INFINITY ? 0 : std::exp(logits[j] - log_total);
        if (q != 0) value -= q * logits[j];
        gradient.push_back((loss_gradient[row] * counts + lse_gradient[row]) * p - loss_gradient[row] * counts * q);
        along -= q * tangent[row * static_cast<size_t>(c.classes) + static_cast<size_t>(j)];
        mean += p * tangent[row * static_cast<size_t>(c.classes) + static_cast<size_t>(j)];
      }
      loss.push_back(counts * value);
      lse.push_back(log_total);
      loss_tangent.push_back(counts * (mean + along));
      lse_tangent.push_back(mean);
    }
  }
};

TEST(CrossEntropy, EqualsTheDefinitionInEveryFloatingType) {
  for (const DType dtype : {DType::float64, DType::float32, DType::bfloat16, DType::float16}) {
    for (const Case& c : kCases) {
      SCOPED_TRACE(fmt::format("{} [{}, {}] smoothing {}", name(dtype), c.rows, c.classes, c.smoothing));
      const Buffer x = random_normal({c.rows, c.classes}, dtype), tangent = random_normal({c.rows, c.classes}, dtype);
      const Buffer target = random_integers({c.rows}, DType::int64, 0, c.classes);
      const Buffer loss_gradient = random_normal({c.rows}, dtype), lse_gradient = random_normal({c.rows}, DType::float64);
      const Naive want(c, values(x.view), values(target.view), values(loss_gradient.view), values(lse_gradient.view),
                       values(tangent.view));
      // A sum 16 terms deep before it goes to double, exp (2) and a few operations; the reference adds one by one.
      const double tolerance = testing::rounding_bound(dtype, 16 + 2 + 6, static_cast<double>(c.classes));

      const Buffer loss = poisoned({c.rows}, dtype), lse = poisoned({c.rows, 2}, DType::float64);
      kernels::cpu::cross_entropy_rows({}, x.view, target.view, kIgnored, c.smoothing, loss.view, lse.view);
      expect_close(loss.view, want.loss, tolerance);
      for (int64_t row = 0; row < c.rows; ++row) {  // in two parts
        const double got = lse.view.ptr<double>()[2 * row] + lse.view.ptr<double>()[2 * row + 1],
                     expected = want.lse[static_cast<size_t>(row)];
        const double bound = dtype == DType::float64 ? tolerance : testing::rounding_bound(DType::float32, 16 + 2);
        EXPECT_NEAR(got, expected, bound * std::max(1.0, std::abs(expected)));
      }

      const Buffer gradient = poisoned({c.rows, c.classes}, dtype);
      kernels::cpu::cross_entropy_rows_backward({}, loss_gradient.view, lse_gradient.view, x.view, target.view, lse.view,
                                                kIgnored, c.smoothing, gradient.view);
      expect_close(gradient.view, want.gradient, tolerance);

      const Buffer loss_tangent = poisoned({c.rows}, dtype), lse_tangent = poisoned({c.rows}, DType::float64);
      kernels::cpu::cross_entropy_rows_jvp({}, tangent.view, x.view, target.view, lse.view, kIgnored, c.smoothing,
                                           loss_tangent.view, lse_tangent.view);
      expect_close(loss_tangent.view, want.loss_tangent, tolerance);
      expect_close(lse_tangent.view, want.lse_tangent, tolerance);
    }
  }
}

TEST(CrossEntropy, TheSizeOfTheLogitsCostsNoAccuracy) {
  for (const DType dtype : {DType::float32, DType::float64}) {
    for (const double base : {0.0, 1e3, 1e4, 1e6, -1e6}) {
      for (const double smoothing : {0.0, 0.1}) {
        SCOPED_TRACE(fmt::format("{} {} smoothing {}", name(dtype), base, smoothing));
        constexpr int64_t kClasses = 37;
        const Case c{1, kClasses, smoothing};
        const Buffer x({1, kClasses}, dtype), near({1, kClasses}, dtype),
            target = random_integers({1}, DType::int64, 3, kClasses);
        for (int64_t j = 0; j < kClasses; ++j) {  // quarters: exact beside a million
          const double offset = 0.25 * static_cast<double>(testing::engine()() % 64);
          testing::store(x.view.data, dtype, j, base + offset);
          testing::store(near.view.data, dtype, j, offset);
        }
        const Buffer one = random_integers({1}, dtype, 1, 2), none = random_integers({1}, DType::float64, 0, 1),
                     tangent = random_normal({1, kClasses}, dtype);
        const Naive want(c, values(near.view), values(target.view), {1.0}, {0.0}, values(tangent.view));
        const Buffer loss = poisoned({1}, dtype), lse = poisoned({1, 2}, DType::float64),
                     gradient = poisoned({1, kClasses}, dtype);
        kernels::cpu::cross_entropy_rows({}, x.view, target.view, kIgnored, smoothing, loss.view, lse.view);
        const double tolerance = testing::rounding_bound(dtype, 16 + 2 + 6);
        expect_close(loss.view, want.loss, tolerance);
        kernels::cpu::cross_entropy_rows_backward({}, one.view, none.view, x.view, target.view, lse.view, kIgnored, smoothing,
                                                  gradient.view);
        expect_close(gradient.view, want.gradient, tolerance);
        double sum = 0;
        for (const double value : values(gradient.view)) sum += value;
        EXPECT_NEAR(sum, 0, tolerance);
        const Buffer loss_tangent = poisoned({1}, dtype), lse_tangent = poisoned({1}, DType::float64);
        kernels::cpu::cross_entropy_rows_jvp({}, tangent.view, x.view, target.view, lse.view, kIgnored, smoothing,
                                             loss_tangent.view, lse_tangent.view);
        expect_close(loss_tangent.view, want.loss_tangent, 4 * tolerance);
      }
    }
  }
}

TEST(CrossEntropy, OfHugeEqualLogitsIsTheLogarithmOfTheirNumber) {
  for (const DType dtype : {DType::float32, DType::float64}) {
    for (const double base : {1e8, 1e12, 1e16, 3e38, -3e38}) {
      SCOPED_TRACE(fmt::format("{} {}", name(dtype), base));
      const Buffer x({1, 4}, dtype), one({1}, dtype), none({1}, DType::float64),
          target = random_integers({1}, DType::int64, 1, 2);
      for (int64_t j = 0; j < 4; ++j) testing::store(x.view.data, dtype, j, base);
      testing::store(one.view.data, dtype, 0, 1);
      none.view.ptr<double>()[0] = 0;
      const Buffer loss = poisoned({1}, dtype), lse = poisoned({1, 2}, DType::float64), gradient = poisoned({1, 4}, dtype);
      kernels::cpu::cross_entropy_rows({}, x.view, target.view, -100, 0, loss.view, lse.view);
      expect_close(loss.view, {std::log(4.0)}, testing::rounding_bound(dtype, 2));
      kernels::cpu::cross_entropy_rows_backward({}, one.view, none.view, x.view, target.view, lse.view, -100, 0, gradient.view);
      expect_close(gradient.view, {0.25, -0.75, 0.25, 0.25}, testing::rounding_bound(dtype, 4));
    }
  }
}

TEST(CrossEntropy, OfACertainRowKeepsItsDigits) {
  for (const DType dtype : {DType::float32, DType::float64}) {
    SCOPED_TRACE(name(dtype));
    const Buffer x({1, 3}, dtype), one({1}, dtype), none({1}, DType::float64), target = random_integers({1}, DType::int64, 1, 2);
    for (int64_t j = 0; j < 3; ++j) testing::store(x.view.data, dtype, j, j == 1 ? 40 : 0);
    testing::store(one.view.data, dtype, 0, 1);
    none.view.ptr<double>()[0] = 0;
    const Buffer loss = poisoned({1}, dtype), lse = poisoned({1, 2}, DType::float64), gradient = poisoned({1, 3}, dtype);
    kernels::cpu::cross_entropy_rows({}, x.view, target.view, -100, 0, loss.view, lse.view);
    const double expected = std::log1p(2 * std::exp(-40.0));
    EXPECT_NEAR(values(loss.view)[0] / expected, 1, 1e-6);
    kernels::cpu::cross_entropy_rows_backward({}, one.view, none.view, x.view, target.view, lse.view, -100, 0, gradient.view);
    EXPECT_NEAR(values(gradient.view)[1] / std::expm1(-expected), 1, 1e-6);
  }
}

TEST(CrossEntropy, ResultsDoNotDependOnTheNumberOfThreads) {
  const Buffer x = random_normal({700, 130}, DType::float32), target = random_integers({700}, DType::int64, 0, 130);
  const Buffer loss_gradient = random_normal({700}, DType::float32), lse_gradient = random_normal({700}, DType::float64);
  testing::expect_same_for_thread_counts([&] {
    const Buffer loss = poisoned({700}, DType::float32), lse = poisoned({700, 2}, DType::float64),
                 gradient = poisoned({700, 130}, DType::float32);
    kernels::cpu::cross_entropy_rows({}, x.view, target.view, kIgnored, 0.1, loss.view, lse.view);
    kernels::cpu::cross_entropy_rows_backward({}, loss_gradient.view, lse_gradient.view, x.view, target.view, lse.view, kIgnored,
                                              0.1, gradient.view);
    return testing::bytes(loss, lse, gradient);
  });
}

TEST(CrossEntropy, AnIgnoredRowMayHoldNan) {
  const Buffer x = random_normal({2, 3}, DType::float64), target = random_integers({2}, DType::int64, 0, 1);
  target.view.ptr<int64_t>()[0] = -100;
  x.view.ptr<double>()[0] = NAN;
  const Buffer loss = poisoned({2}, DType::float64), lse = poisoned({2, 2}, DType::float64),
               gradient = poisoned({2, 3}, DType::float64);
  kernels::cpu::cross_entropy_rows({}, x.view, target.view, -100, 0, loss.view, lse.view);
  EXPECT_EQ(loss.view.ptr<double>()[0], 0);
  const Buffer ones = random_integers({2}, DType::float64, 1, 2), zeros = random_integers({2}, DType::float64, 0, 1);
  kernels::cpu::cross_entropy_rows_backward({}, ones.view, zeros.view, x.view, target.view, lse.view, -100, 0, gradient.view);
  for (int j = 0; j < 3; ++j) EXPECT_EQ(gradient.view.ptr<double>()[j], 0);
  EXPECT_TRUE(std::isfinite(gradient.view.ptr<double>()[4]));
}

TEST(CrossEntropy, AClassThatDoesNotExistIsAnError) {
  const Buffer x = random_normal({2, 3}, DType::float32), target = random_integers({2}, DType::int64, 3, 4);
  const Buffer loss = poisoned({2}, DType::float32), lse = poisoned({2, 2}, DType::float64);
  EXPECT_THROW(kernels::cpu::cross_entropy_rows({}, x.view, target.view, -100, 0, loss.view, lse.view), Error);
}

}  // namespace
}  // namespace deckle
