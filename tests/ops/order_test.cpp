// Medians, running extrema, different values, places in sorted rows, draws, and elements brought together.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <vector>

#include "deckle/core/from_data.h"
#include "deckle/core/generator.h"
#include "deckle/functional/transforms.h"
#include "deckle/ops/compare.h"
#include "deckle/ops/generated/factory.h"
#include "deckle/ops/generated/index.h"
#include "deckle/ops/generated/loss.h"
#include "deckle/ops/generated/pointwise.h"
#include "deckle/ops/generated/random.h"
#include "deckle/ops/generated/reduce.h"
#include "deckle/ops/generated/scan.h"
#include "deckle/ops/generated/shape.h"
#include "deckle/ops/generated/sort.h"
#include "tests/support/expect.h"
#include "tests/support/random.h"

namespace deckle {
namespace {

using namespace testing;
using Integers = std::vector<int64_t>;
using Values = std::vector<double>;

const double kNaN = std::nan("");

/// The gradient of the sum of f's result.
Values slope(const std::function<Tensor(const Tensor&)>& f, const Tensor& x) {
  return vjp([&](const Tensor& at) { return f(at); }, x, ones_like(f(x))).second.to_vector();
}

TEST(RepeatedValues, GiveTheGradientToTheSelectedElement) {
  const Tensor x = tensor({2.0, 3.0, 3.0, 1.0, 3.0});
  const auto [largest, places] = cummax(x, 0);
  EXPECT_EQ(largest.to_vector(), (Values{2, 3, 3, 3, 3}));
  EXPECT_EQ(places.to_vector<int64_t>(), (Integers{0, 1, 2, 2, 4}));
  EXPECT_EQ(slope([](const Tensor& at) { return std::get<0>(cummax(at, 0)); }, x), (Values{1, 1, 2, 0, 1}));
  EXPECT_EQ(std::get<1>(cummin(neg(x), 0)).to_vector<int64_t>(), (Integers{0, 1, 2, 2, 4}));
  const auto [middle, place] = median(x, 0);
  EXPECT_EQ(middle.item(), 3);
  EXPECT_EQ(place.item<int64_t>(), 1);
  EXPECT_EQ(slope([](const Tensor& at) { return median(at); }, x), (Values{0, 1, 0, 0, 0}));
  const auto [values, inverse, counts] = unique(x);
  EXPECT_EQ(values.to_vector(), (Values{1, 2, 3}));
  EXPECT_EQ(inverse.to_vector<int64_t>(), (Integers{1, 2, 2, 0, 2}));
  EXPECT_EQ(counts.to_vector<int64_t>(), (Integers{1, 1, 3}));
  EXPECT_EQ(slope([](const Tensor& at) { return std::get<0>(unique(at)); }, x), (Values{1, 1, 0, 1, 0}));
}

TEST(NaN, WinsInMediansAndRunningExtremaAndIsNeverTheSame) {
  const Tensor x = tensor({1.0, kNaN, 0.0, kNaN});
  EXPECT_EQ(std::get<1>(cummax(x, 0)).to_vector<int64_t>(), (Integers{0, 1, 1, 3}));
  EXPECT_TRUE(std::isnan(median(x).item()));
  EXPECT_EQ(std::get<1>(median(x, 0)).item<int64_t>(), 1);
  EXPECT_EQ(std::get<2>(unique(x)).to_vector<int64_t>(), (Integers{1, 1, 1, 1}));
  EXPECT_EQ(searchsorted(tensor({0.0, 1.0, kNaN}), tensor({kNaN, 2.0})).to_vector<int64_t>(), (Integers{2, 2}));
}

TEST(RunningProducts, AreRightAtZerosToo) {
  const Tensor x = tensor({2.0, 0.0, 3.0, 0.5});
  EXPECT_EQ(cumprod(x, 0).to_vector(), (Values{2, 0, 0, 0}));
  EXPECT_EQ(slope([](const Tensor& at) { return cumprod(at, 0); }, x), (Values{1, 2 + 6 + 3, 0, 0}));
  EXPECT_EQ(cumprod(tensor({int64_t{3}, int64_t{5}, int64_t{7}}), 0).to_vector<int64_t>(), (Integers{3, 15, 105}));
}

// What stands behind an element meets before it: products of these alone leave the range.
TEST(RunningProducts, StayInTheRangeWhereTheirElementsLeaveIt) {
  const auto ratios = [](const std::vector<float>& elements, DType dtype, const std::vector<double>& want) {
    const std::vector<double> got = cumprod(tensor(elements).to(dtype), 0).to(DType::float64).to_vector();
    for (size_t i = 0; i < want.size(); ++i)
      EXPECT_NEAR(want[i] == 0 ? got[i] + 1 : got[i] / want[i], 1, dtype == DType::float32 ? 3e-7 : 5e-3) << i << ": " << got[i];
  };
  ratios({1e-30f, 1e30f, 1e30f}, DType::float32, {1e-30, 1, 1e30});
  ratios({0, 1e30f, 1e30f}, DType::float32, {0, 0, 0});
  ratios({.001f, 300, 300}, DType::float16, {.001, .3, 90});
  ratios({1000, .001f, .001f}, DType::float16, {1000, 1, .001});
}

TEST(Places, OfSortedRowsCountWhatIsLess) {
  const Tensor row = tensor({1.0, 2.0, 2.0, 4.0}), wanted = tensor({{0.0, 1.0}, {2.0, 5.0}});
  EXPECT_EQ(searchsorted(row, wanted).to_vector<int64_t>(), (Integers{0, 0, 1, 4}));
  EXPECT_EQ(searchsorted(row, wanted, {.right = true}).to_vector<int64_t>(), (Integers{0, 1, 3, 4}));
  const int64_t large = (int64_t{1} << 53) + 1;
  EXPECT_EQ(searchsorted(tensor({large - 1, large, large + 1}), tensor({large})).item<int64_t>(), 1);
}

TEST(Places, OfIntegersAndOtherNumbersAreExact) {
  const int64_t third = int64_t{1} << 24, last = std::numeric_limits<int64_t>::max(), first = std::numeric_limits<int64_t>::min();
  const Tensor integers = tensor({first, int64_t{-2}, third, third + 1, last - 1, last});
  const auto places = [](const Tensor& rows, const Tensor& values, bool right) {
    return searchsorted(rows, values, {.right = right}).to_vector<int64_t>();
  };
  const Tensor floats = tensor({-HUGE_VALF, -0x1p63f, -1.5f, -2.0f, 0x1p24f, 0x1p63f, HUGE_VALF, NAN});
  EXPECT_EQ(places(integers, floats, false), (Integers{0, 0, 2, 1, 2, 6, 6, 6}));
  EXPECT_EQ(places(integers, floats, true), (Integers{0, 1, 2, 2, 3, 6, 6, 6}));
  const Tensor rows = tensor({-HUGE_VAL, -0x1p63, -1.5, 0x1p53, 0x1p63, HUGE_VAL, double{NAN}});
  const Tensor wanted = tensor({first, int64_t{-2}, int64_t{-1}, int64_t{1} << 53, (int64_t{1} << 53) + 1, last});
  EXPECT_EQ(places(rows, wanted, false), (Integers{1, 2, 3, 3, 4, 4}));
  EXPECT_EQ(places(rows, wanted, true), (Integers{2, 2, 3, 4, 4, 4}));
  EXPECT_EQ(places(rows.to(DType::bfloat16), tensor({-2, -1, 0}).to(DType::int32), true), (Integers{2, 3, 3}));
}

TEST(Draws, FollowTheirWeights) {
  Generator generator(7);
  const Tensor weights = tensor({0.0, 1.0, 3.0});
  const Integers drawn = multinomial(weights, 40000, {.replacement = true, .generator = &generator}).to_vector<int64_t>();
  int64_t counts[3] = {};
  for (const int64_t i : drawn) ++counts[i];
  EXPECT_EQ(counts[0], 0);
  EXPECT_NEAR(static_cast<double>(counts[2]) / 40000, 0.75, 0.01);  // 4.6 standard deviations
  for (int i = 0; i < 20; ++i) {
    Integers once = multinomial(weights, 2, {.generator = &generator}).to_vector<int64_t>();
    std::sort(once.begin(), once.end());
    EXPECT_EQ(once, (Integers{1, 2}));
  }
  EXPECT_EQ(error_of([&] { multinomial(weights, 3); }), "multinomial: row 0 of self has 2 weights above 0 (expected 3 or more)");
}

/// Sums of whole weights are exact, so that draws are those of a loop over the weights, whatever order they are added in.
TEST(Draws, AreThePlacesThatUniformNumbersFallOn) {
  for (const int64_t n : {1, 2, 3, 31, 64, 100}) {
    for (const bool replacement : {false, true}) {
      const int64_t rows = 5, count = replacement ? 200 : n;
      Generator generator(static_cast<uint64_t>(n)), same(static_cast<uint64_t>(n));
      const Tensor heavy = to(randint(replacement ? 0 : 1, 1000, {rows, n}), DType::float64) + (n == 1 ? 1.0 : 0.0);
      const Tensor weights = replacement ? heavy + eye(n, DType::float64)[n - 1] : heavy;  // one or more above 0
      const Values uniform = rand({rows, count}, {.dtype = DType::float64, .generator = &same}).to_vector();
      const Integers drawn =
          multinomial(weights, count, {.replacement = replacement, .generator = &generator}).to_vector<int64_t>();
      ASSERT_EQ(drawn.size(), uniform.size());
      for (int64_t row = 0; row < rows; ++row) {
        Values left = weights[row].to_vector();
        for (int64_t k = 0; k < count; ++k) {
          double at = uniform[static_cast<size_t>(row * count + k)] * std::accumulate(left.begin(), left.end(), 0.0);
          size_t place = 0;
          while (at >= left[place]) at -= left[place++];
          ASSERT_EQ(drawn[static_cast<size_t>(row * count + k)], static_cast<int64_t>(place)) << "n " << n << " row " << row;
          if (!replacement) left[place] = 0;
        }
      }
    }
  }
}

/// Neither rounding of sums nor the order of draws gives a place without weight, and every other one comes once.
TEST(Draws, WithoutReplacementAreAllPlacesOfAWeightOnce) {
  const int64_t n = 20001;
  Values weights(static_cast<size_t>(n));
  for (size_t i = 0; i < weights.size(); ++i) weights[i] = i % 3 == 0 ? 0 : std::pow(10.0, static_cast<double>(i % 41) - 20);
  Integers drawn = multinomial(tensor(weights), 2 * n / 3).to_vector<int64_t>();
  std::sort(drawn.begin(), drawn.end());
  size_t next = 0;
  for (int64_t i = 0; i < n; ++i) {
    if (i % 3 != 0) ASSERT_EQ(drawn[next++], i);
  }
  EXPECT_EQ(next, drawn.size());
  EXPECT_EQ(multinomial(zeros({2, 0}), 0).sizes(), (Dims{2, 0}));
}

TEST(ScatterReduce, BringsElementsTogether) {
  const Tensor x = tensor({5.0, 6.0, 7.0}), index = tensor({int64_t{0}, int64_t{0}, int64_t{2}}), src = tensor({2.0, 4.0, 8.0});
  const auto of = [&](ScatterReduction reduction, bool include_self) {
    return scatter_reduce(x, 0, index, src, reduction, include_self).to_vector();
  };
  EXPECT_EQ(of(ScatterReduction::sum, true), (Values{11, 6, 15}));
  EXPECT_EQ(of(ScatterReduction::prod, true), (Values{40, 6, 56}));
  EXPECT_EQ(of(ScatterReduction::mean, false), (Values{3, 6, 8}));
  EXPECT_EQ(of(ScatterReduction::amax, true), (Values{5, 6, 8}));
  EXPECT_EQ(of(ScatterReduction::amin, false), (Values{2, 6, 8}));
  EXPECT_EQ(error_of([&] { scatter_reduce(x, 0, index + 1, src, ScatterReduction::sum); }),
            "scatter_reduce: index 3 is out of range for dim 0 of shape [3] (expected 0..2)");
}

TEST(TargetsOfClasses, OfProbabilitiesAndOfPlacesIsThatOfRows) {
  const Tensor logits = random_tensor({2, 5, 3}),
               target = tensor({{int64_t{1}, int64_t{4}, int64_t{-100}}, {int64_t{0}, int64_t{2}, int64_t{3}}});
  const Tensor rows = reshape(transpose(logits, 1, 2), {6, 5}), flat = reshape(target, {6});
  EXPECT_TRUE(allclose(cross_entropy(logits, target), cross_entropy(rows, flat), 1e-12));
  EXPECT_TRUE(allclose(cross_entropy(logits, target, {.reduction = Reduction::none}),
                       view(cross_entropy(rows, flat, {.reduction = Reduction::none}), {2, 3}), 1e-12));
  const Tensor places = tensor({int64_t{1}, int64_t{4}}), hot = one_hot(places, 5).to(DType::float64);
  for (const double smoothing : {0.0, 0.2}) {
    EXPECT_TRUE(allclose(cross_entropy(narrow(rows, 0, 0, 2), hot, {.label_smoothing = smoothing}),
                         cross_entropy(narrow(rows, 0, 0, 2), places, {.label_smoothing = smoothing}), 1e-12));
  }
}

TEST(BinaryCrossEntropy, CountsLogarithmsFromMinusHundredOn) {
  EXPECT_EQ(binary_cross_entropy(tensor({0.0, 1.0}), tensor({1.0, 1.0}), {.reduction = Reduction::none}).to_vector(),
            (Values{100, 0}));
  const Tensor p = tensor({0.25}), t = tensor({0.5});
  EXPECT_NEAR(binary_cross_entropy(p, t).item(), -0.5 * (std::log(0.25) + std::log(0.75)), 1e-15);
}

TEST(Numbers, WithoutDimsAndOfBool) {
  const auto [values, places] = topk(tensor(3.0), 1);
  EXPECT_EQ(values.item(), 3);
  EXPECT_EQ(places.item<int64_t>(), 0);
  EXPECT_EQ(values.dim() + places.dim(), 0);
  EXPECT_EQ(maximum(tensor({true, false}), tensor({false, false})).to_vector<bool>(), (std::vector<bool>{true, false}));
}

TEST(Numbers, RunAlongNothing) {
  EXPECT_EQ(cummax(tensor(3.0), 0).values.item(), 3);
  EXPECT_EQ(cummin(tensor(3.0), -1).indices.item<int64_t>(), 0);
  EXPECT_EQ(cumprod(tensor(3), 0).item(), 3);
  EXPECT_EQ(slope([](const Tensor& at) { return cumprod(at, 0) + cummax(at, 0).values; }, tensor(3.0)), (Values{2}));
}

TEST(Median, OfNoRowsHasTheShapeOfAReduction) {
  for (const auto& [sizes, dim, kept] : {std::tuple(Dims{0, 0, 3}, 1, Dims{0, 1, 3}),
                                         {Dims{0, 2, 0, 3}, 2, Dims{0, 2, 1, 3}},
                                         {Dims{0, 4}, 1, Dims{0, 1}},
                                         {Dims{2, 0}, 0, Dims{1, 0}}}) {
    const auto [values, indices] = median(zeros(sizes), dim, true);
    EXPECT_EQ(Dims(values.sizes()), kept);
    EXPECT_EQ(Dims(indices.sizes()), kept);
    EXPECT_EQ(Dims(median(zeros(sizes), dim).values.sizes()), Dims(squeeze(values, dim).sizes()));
  }
}

TEST(Quantile, OfInfinitiesIsWhatLiesThere) {
  const double inf = std::numeric_limits<double>::infinity();
  const auto of = [](std::initializer_list<double> values, double q) { return quantile(tensor_of(values), q).to_vector()[0]; };
  EXPECT_EQ(of({1, 2, inf}, 0.5), 2);
  EXPECT_EQ(of({1, inf}, 0), 1);
  EXPECT_EQ(of({-inf, 1}, 1), 1);
  EXPECT_EQ(of({inf, inf}, 0.5), inf);
  EXPECT_EQ(of({1, inf}, 0.5), inf);
  EXPECT_EQ(of({-inf, 1}, 0.3), -inf);
  EXPECT_TRUE(std::isnan(of({-inf, inf}, 0.5)));
  EXPECT_EQ(of({1, 2, 4}, 0.75), 3);
  for (const DType dtype : {DType::float64, DType::float32, DType::bfloat16}) {  // a weight that rounds to 1, or nearly to 0
    EXPECT_EQ(quantile(tensor_of({-inf, 1}).to(dtype), 1 - 1e-8).item(), -inf);
    EXPECT_EQ(quantile(tensor_of({1, inf}).to(dtype), 1e-300).item(), inf);
    EXPECT_EQ(quantile(tensor_of({0, 1}).to(dtype), 0.25).dtype(), dtype);
  }
  EXPECT_NEAR(quantile(tensor({-1e30, 1.0}).to(DType::float32), 1 - 1e-8).item() / -1e22, 1, 1e-6);
  EXPECT_EQ(quantile(arange(4), 0.5).dtype(), DType::float32);
  EXPECT_EQ(quantile(arange(4), 0.5).item(), 1.5);
  EXPECT_EQ(slope([](const Tensor& x) { return quantile(x, 0.5); }, tensor_of({1, 2, inf})), (Values{0, 1, 0}));
}

}  // namespace
}  // namespace deckle
