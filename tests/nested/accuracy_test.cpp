// Reductions of 10^7 terms: dense, ragged and batch reductions share one algorithm, so one bound holds for all.

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <random>

#include "deckle/base/half.h"
#include "deckle/core/from_data.h"
#include "deckle/core/tensor_impl.h"
#include "deckle/nested/generated/conv.h"
#include "deckle/nested/generated/reduce.h"
#include "deckle/ops/generated/conv.h"
#include "deckle/ops/generated/factory.h"
#include "deckle/ops/generated/index.h"
#include "deckle/ops/generated/reduce.h"
#include "deckle/ops/generated/shape.h"

namespace deckle {
namespace {

constexpr int64_t kTerms = 10'000'000;
constexpr int64_t kColumns = 2;  // the first has the terms, the second their negatives

struct Terms {
  Tensor values;         // [kTerms, kColumns]
  double sum = 0;        // of the first column
  double magnitude = 0;  // the sum of absolute values
};

/// Terms 1 + u, -u with u in [0, 1): half of what they add up to cancels.
template <typename T>
Terms alternating() {
  std::mt19937 engine(7);
  std::uniform_real_distribution<T> uniform(0, 1);
  Terms terms{empty({kTerms, kColumns}, dtype_of<T>)};
  long double sum = 0, magnitude = 0;
  for (int64_t i = 0; i < kTerms; ++i) {
    const T value = i % 2 == 0 ? 1 + uniform(engine) : -uniform(engine);
    terms.values.data<T>()[2 * i] = value;
    terms.values.data<T>()[2 * i + 1] = -value;
    sum += static_cast<long double>(value);
    magnitude += std::abs(static_cast<long double>(value));
  }
  terms.sum = static_cast<double>(sum);
  terms.magnitude = static_cast<double>(magnitude);
  return terms;
}

template <typename T>
void check_sums(const char* what, const Terms& terms, const Tensor& sums) {
  // A running sum in T has an error of thousands of roundings of the magnitude. Blocks of a few terms, whose sums are added in
  // compensated double, have one of less than a hundredth where the roundings are independent, as those of random terms are.
  const double bound = std::numeric_limits<T>::epsilon() * (0.01 * terms.magnitude + std::abs(terms.sum));
  const Tensor wide = contiguous(sums).to(DType::float64);
  ASSERT_EQ(wide.numel() % kColumns, 0) << what;
  for (int64_t c = 0; c < kColumns; ++c)
    EXPECT_NEAR(wide.data<double>()[c], c == 0 ? terms.sum : -terms.sum, bound) << what << ", column " << c;
}

template <typename T>
class SumsOfManyTerms : public ::testing::Test {};
using Types = ::testing::Types<float, double>;
TYPED_TEST_SUITE(SumsOfManyTerms, Types);

TYPED_TEST(SumsOfManyTerms, AreAccurateDenseRaggedAndOverTheBatch) {
  using T = TypeParam;
  const Terms terms = alternating<T>();
  const Tensor& x = terms.values;
  check_sums<T>("dense columns", terms, sum(x, {0}));
  check_sums<T>("dense rows", terms, sum(contiguous(transpose(x, 0, 1)), {1}));
  check_sums<T>("several dense dims", terms, sum(view(x, {100, kTerms / 1000, 10, kColumns}), {0, 2, 1}));
  check_sums<T>("ragged", terms, sum(NestedTensor::from_lengths(x, {0, kTerms, 0}), {1}).values().slice(0, 1, 2));
  const Tensor first = contiguous(select(x, 1, 0)), second = contiguous(select(x, 1, 1));
  check_sums<T>("ragged, one column", terms,
                cat({sum(NestedTensor::from_lengths(first, {kTerms}), {1}).values(),
                     sum(NestedTensor::from_lengths(second, {kTerms}), {1}).values()},
                    0));
  const Ragged ones = Ragged::from_lengths(std::vector<int64_t>(kTerms, 1));
  check_sums<T>("over the batch", terms, sum(NestedTensor(x, ones), {0}).values());
  const Ragged columns(std::make_shared<const RaggedShape>(std::vector<int64_t>{kTerms, kColumns}, 2));
  check_sums<T>("over the first of two ragged dims", terms,
                sum(NestedTensor(view(x, {kTerms * kColumns}), columns), {1}).values());
  check_sums<T>("over the batch and a ragged dim", terms,
                sum(NestedTensor::from_lengths(x, std::vector<int64_t>(1000, kTerms / 1000)), {0, 1}).values());
}

/// The terms in every layout that they may be reduced in.
struct Layouts {
  explicit Layouts(const Tensor& x)
      : columns(x),
        rows(contiguous(transpose(x, 0, 1))),
        ragged(NestedTensor::from_lengths(x, {kTerms})),
        batch(x, Ragged::from_lengths(std::vector<int64_t>(kTerms, 1))) {}

  /// reduce(x, dim) is first for the first column and second for the other.
  template <typename Reduce>
  void check(const char* what, const Reduce& reduce, double first, double second, double bound) const {
    const auto check_one = [&](const char* layout, const Tensor& result) {
      const Tensor wide = contiguous(result).to(DType::float64);
      ASSERT_EQ(wide.numel(), kColumns) << what << ", " << layout;
      EXPECT_NEAR(wide.data<double>()[0], first, bound) << what << ", " << layout;
      EXPECT_NEAR(wide.data<double>()[1], second, bound) << what << ", " << layout;
    };
    check_one("dense columns", reduce(columns, 0));
    check_one("dense rows", reduce(rows, 1));
    check_one("ragged", reduce(ragged, 1).values());
    check_one("over the batch", reduce(batch, 0).values());
  }

  Tensor columns, rows;
  NestedTensor ragged, batch;
};

TYPED_TEST(SumsOfManyTerms, MakeOtherReductionsAsAccurate) {
  using T = TypeParam;
  const Terms terms = alternating<T>();
  long double squares = 0, deviations = 0, exponentials = 0, opposite = 0;
  const long double mean_of_all = static_cast<long double>(terms.sum) / kTerms;
  for (int64_t i = 0; i < kTerms; ++i) {
    const auto value = static_cast<long double>(terms.values.template data<T>()[kColumns * i]);
    squares += value * value;
    deviations += (value - mean_of_all) * (value - mean_of_all);
    exponentials += std::exp(static_cast<double>(value));
    opposite += std::exp(-static_cast<double>(value));
  }
  // Sums by pairs would have as many roundings as 10^7 has bits; the logarithm's own error is one of its size.
  constexpr int kRoundings = 24;
  const double epsilon = std::numeric_limits<T>::epsilon(), length = std::sqrt(static_cast<double>(squares));
  const Layouts layouts(terms.values);
  const auto average = static_cast<double>(mean_of_all), variance = static_cast<double>(deviations / (kTerms - 1));
  layouts.check(
      "mean", [](const auto& x, int64_t dim) { return mean(x, dim); }, average, -average,
      epsilon * (0.01 * terms.magnitude / kTerms + std::abs(average)));
  layouts.check(
      "norm", [](const auto& x, int64_t dim) { return norm(x, dim); }, length, length, kRoundings * epsilon * length);
  layouts.check(
      "var", [](const auto& x, int64_t dim) { return var(x, dim); }, variance, variance, kRoundings * epsilon * variance);
  layouts.check(
      "std", [](const auto& x, int64_t dim) { return deckle::std(x, dim); }, std::sqrt(variance), std::sqrt(variance),
      kRoundings * epsilon * std::sqrt(variance));
  const auto first = static_cast<double>(std::log(exponentials)), second = static_cast<double>(std::log(opposite));
  layouts.check(
      "logsumexp", [](const auto& x, int64_t dim) { return logsumexp(x, dim); }, first, second, epsilon * (kRoundings + first));
}

/// `first` and `second`, by turns or a run of each, so that the roundings of a block are those of all others.
template <typename T>
struct TwoValues {
  const char* name;
  T first, second;
  int64_t count;  // of `first`
  bool by_turns;

  Tensor values() const {
    const Tensor result = empty({kTerms, kColumns}, dtype_of<T>);
    for (int64_t i = 0; i < kTerms; ++i) {
      const T value = (by_turns ? i % 2 == 0 : i < count) ? first : second;
      result.data<T>()[kColumns * i] = value;
      result.data<T>()[kColumns * i + 1] = -value;
    }
    return result;
  }
  /// Of f(term), in long double.
  template <typename F>
  long double sum(const F& f) const {
    return static_cast<long double>(count) * f(first) + static_cast<long double>(kTerms - count) * f(second);
  }
};

TYPED_TEST(SumsOfManyTerms, KeepTheirBoundWhereRoundingsAgree) {
  using T = TypeParam;
  using Wide = long double;
  constexpr int64_t kHalf = kTerms / 2;
  const TwoValues<T> cases[] = {{"runs of opposite sign", T(1.1), T(-1.1), kHalf + 5, false},
                                {"turns about a small mean", T(1 + 1e-4), T(-1 + 1e-4), kHalf, true},
                                {"equal terms", T(0.1), T(0.1), kTerms, false},
                                {"terms far from 0", T(1000.3), T(1000.7), kHalf, true}};
  constexpr double kRoundings = 24, kDeepest = 11;
  constexpr double epsilon = std::numeric_limits<T>::epsilon(), wide_epsilon = std::numeric_limits<double>::epsilon();
  for (const TwoValues<T>& each : cases) {
    SCOPED_TRACE(each.name);
    const Layouts layouts(each.values());
    const auto sum_of_all = static_cast<double>(each.sum([](Wide x) { return x; }));
    const auto magnitude = static_cast<double>(each.sum([](Wide x) { return std::abs(x); }));
    const auto length = static_cast<double>(std::sqrt(each.sum([](Wide x) { return x * x; })));
    const Wide average = each.sum([](Wide x) { return x; }) / kTerms;
    const auto variance = static_cast<double>(each.sum([&](Wide x) { return (x - average) * (x - average); }) / (kTerms - 1));
    layouts.check(
        "sum", [](const auto& x, int64_t dim) { return sum(x, dim); }, sum_of_all, -sum_of_all, kDeepest * epsilon * magnitude);
    layouts.check(
        "norm", [](const auto& x, int64_t dim) { return norm(x, dim); }, length, length, kRoundings * epsilon * length);
    // A mean that is off by roundings adds their squares.
    const double of_mean = kRoundings * wide_epsilon * static_cast<double>(std::abs(average));
    layouts.check(
        "var", [](const auto& x, int64_t dim) { return var(x, dim); }, variance, variance,
        kRoundings * epsilon * variance + of_mean * of_mean);
  }
}

TYPED_TEST(SumsOfManyTerms, RunAsAccurately) {
  using T = TypeParam;
  const Terms terms = alternating<T>();
  const Tensor& x = terms.values;
  const Tensor rows = contiguous(transpose(x, 0, 1));
  check_sums<T>("dense rows", terms, select(cumsum(rows, 1), 1, -1));
  check_sums<T>("dense rows, from the back", terms, select(cumsum(rows, 1, true), 1, 0));
  check_sums<T>("dense columns", terms, select(cumsum(x, 0), 0, -1));
  check_sums<T>("ragged", terms, select(cumsum(NestedTensor::from_lengths(x, {0, kTerms, 0}), 1).values(), 0, -1));
  check_sums<T>("ragged, one column", terms,
                cat({slice(cumsum(NestedTensor::from_lengths(select(rows, 0, 0), {kTerms}), 1).values(), 0, kTerms - 1, kTerms),
                     slice(cumsum(NestedTensor::from_lengths(select(rows, 0, 1), {kTerms}), 1).values(), 0, kTerms - 1, kTerms)},
                    0));
}

/// A row that all places, or windows, read: its gradient is their sum.
TYPED_TEST(SumsOfManyTerms, AreGradientsOfRowsReadManyTimes) {
  using T = TypeParam;
  const Terms terms = alternating<T>();
  const Tensor& gradient = terms.values;
  const Ragged row = Ragged::from_lengths(std::vector<int64_t>{1}), many = Ragged::from_lengths(std::vector<int64_t>{kTerms});
  check_sums<T>("places", terms, segment_resample_backward(gradient, many, row, static_cast<double>(kTerms), false));
  check_sums<T>("windows", terms, segment_avg_pool1d_backward(gradient, many, row, kTerms, 1, kTerms - 1));

  // Roundings agree.
  const Tensor x = full({1, kColumns}, 2.0, dtype_of<T>).requires_grad_();
  const NestedTensor places =
      interpolate1d(NestedTensor::from_lengths(x, {1}), static_cast<double>(kTerms), Interpolation::nearest);
  ASSERT_EQ(places.values().size(0), kTerms);
  places.values().backward(full({kTerms, kColumns}, 0.1, dtype_of<T>));
  const double sum = static_cast<double>(T(0.1)) * kTerms;
  for (const double value : x.grad().to_vector()) EXPECT_NEAR(value, sum, 11 * std::numeric_limits<T>::epsilon() * sum);
}

}  // namespace
}  // namespace deckle
