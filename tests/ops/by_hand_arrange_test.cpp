// Moved dims, repeats and padding of nested tensors: each component by itself.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "deckle/core/from_data.h"
#include "deckle/core/generator.h"
#include "deckle/functional/transforms.h"
#include "deckle/nested/generated/arrange.h"
#include "deckle/nested/structure.h"
#include "deckle/ops/compare.h"
#include "deckle/ops/generated/arrange.h"
#include "deckle/ops/generated/bitwise.h"
#include "deckle/ops/generated/factory.h"
#include "deckle/ops/generated/index.h"
#include "deckle/ops/generated/pointwise.h"
#include "deckle/ops/generated/random.h"
#include "deckle/ops/generated/reduce.h"
#include "deckle/ops/generated/shape.h"
#include "deckle/ops/generated/sort.h"
#include "tests/ops/by_hand.h"
#include "tests/support/expect.h"

namespace deckle::suite {
namespace {

using deckle::testing::error_of;

TEST(Arrange, DimsMoveInEachComponent) {
  for (const int ragged_dims : {1, 2}) {
    for_patterns(ragged_dims, [&](const Ragged& shape) {
      const Batch x = {normal(shape, ragged_dims == 1 ? Dims{2, 3} : Dims{3})};
      check(HandCase{"movedim", kAll, x, [](const Batch& x) { return Parts{parts(movedim(x[0], 1, -1))}; },
                     [](const Batch& x) { return Parts{each(x[0], [&](int64_t b) { return movedim(x[0][b], 0, -1); })}; }});
      check(HandCase{"movedim", kAll, x,
                     [](const Batch& x) {
                       return Parts{parts(movedim(x[0], {3, 1}, {2, 3}))};
                     },
                     [](const Batch& x) {
                       return Parts{each(x[0], [&](int64_t b) { return movedim(x[0][b], {2, 0}, {1, 2}); })};
                     }});
    });
  }
}

// What is added on one side may be taken away on the other, with what there was.
TEST(Arrange, PaddingMayTakeAwayMoreOnOneSideThanThereIs) {
  const Tensor x = add(arange(10, DType::float64), 1);
  for (const auto& ends : {std::pair(5, -12), std::pair(-12, 5), std::pair(3, -3), std::pair(-10, 2), std::pair(2, -12),
                           std::pair(-4, -6), std::pair(-15, 20), std::pair(20, -15), std::pair(-3, 1)}) {
    const int64_t before = ends.first, after = ends.second;
    SCOPED_TRACE(std::to_string(before) + ", " + std::to_string(after));
    std::vector<double> want, gradient(10, 0.0);
    for (int64_t place = -before; place < 10 + after; ++place) {
      const bool there = place >= 0 && place < 10;
      want.push_back(there ? static_cast<double>(place) + 1 : 0.5);
      if (there) gradient[static_cast<size_t>(place)] = 2;
    }
    const auto padded = [&](const Tensor& of) { return pad(of, {before, after}, PadMode::constant, 0.5); };
    EXPECT_EQ(padded(x).to_vector(), want);
    EXPECT_EQ(grad([&](const Tensor& of) { return sum(padded(of) * 2); }, x).to_vector(), gradient);
    EXPECT_EQ(pad(NestedTensor::from_lengths(x, {10}), {before, after}, PadMode::constant, 0.5).values().to_vector(), want);
    const Tensor middle = pad(view(x, {1, 10, 1}), {0, 0, before, after}, PadMode::constant, 0.5);
    EXPECT_EQ(view(middle, {-1}).to_vector(), want);
  }
  EXPECT_NE(error_of([&] { pad(x, {-5, -6}); }).find("expected no more taken away than there are"), std::string::npos);
}

TEST(Arrange, RepeatsAreThoseOfEachComponent) {
  for (const int ragged_dims : {1, 2}) {
    for_patterns(ragged_dims, [&](const Ragged& shape) {
      const Batch x = {normal(shape, ragged_dims == 1 ? Dims{2, 3} : Dims{3})};
      check(HandCase{"repeat", kAll, x,
                     [](const Batch& x) {
                       return Parts{parts(repeat(x[0], {2, 3, 2, 1}))};
                     },
                     [](const Batch& x) {
                       Tensors all;
                       for (int64_t b = 0; b < 2 * x[0].components(); ++b)
                         all.push_back(repeat(x[0][b % x[0].components()], {3, 2, 1}));
                       return Parts{all};
                     }});
      check(HandCase{"repeat_interleave",
                     {batch},
                     x,
                     [](const Batch& x) { return Parts{parts(repeat_interleave(x[0], 2, 0))}; },
                     [](const Batch& x) {
                       Tensors all;
                       for (int64_t b = 0; b < 2 * x[0].components(); ++b) all.push_back(x[0][b / 2]);
                       return Parts{all};
                     }});
    });
  }
}

TEST(Arrange, PaddingStandsBesideEachComponent) {
  for (const int ragged_dims : {1, 2}) {
    for_patterns(ragged_dims, [&](const Ragged& shape) {
      const Batch x = {normal(shape, ragged_dims == 1 ? Dims{2, 3} : Dims{3})};
      check(HandCase{
          "pad", kAll, x,
          [](const Batch& x) {
            return Parts{parts(pad(x[0], {1, -1, 0, 2, 3, 0}, PadMode::constant, 0.5))};
          },
          [](const Batch& x) {
            return Parts{each(x[0], [&](int64_t b) { return pad(x[0][b], {1, -1, 0, 2, 3, 0}, PadMode::constant, 0.5); })};
          }});
      if (shape->rows() == 0 || shape->min_size(0) == 0) return;  // no element to repeat
      if (ragged_dims == 2 && shape->min_size(1) == 0) return;
      check(HandCase{"pad", kAll, x,
                     [](const Batch& x) {
                       return Parts{parts(pad(x[0], {2, 1, 0, 1, 2, 1}, PadMode::replicate))};
                     },
                     [](const Batch& x) {
                       return Parts{each(x[0], [&](int64_t b) { return pad(x[0][b], {2, 1, 0, 1, 2, 1}, PadMode::replicate); })};
                     }});
    });
  }
  const NestedTensor x = NestedTensor::from_lengths(ones({3, 2}), {1, 2});
  EXPECT_EQ(error_of([&] {
              pad(x, {0, 0, 0, 0, 1, 0});
            }),
            "pad: dim 0 is the batch of shape [2, 1..2, 2], and a component beside the others would have no length (expected "
            "padding of dims 1..2)");
}

TEST(Arrange, TensorsAsAWholeAreCompared) {
  const Tensor x = tensor({1.0, 2.0, std::numeric_limits<double>::infinity()}), nan = tensor({std::nan("")});
  EXPECT_TRUE(equal(x, x));
  EXPECT_FALSE(equal(x, x + 1.0));
  EXPECT_FALSE(equal(x, unsqueeze(x, 0)));
  EXPECT_TRUE(allclose(x, x * (1 + 1e-6)));
  EXPECT_FALSE(allclose(x, x * (1 + 1e-4)));
  EXPECT_TRUE(allclose(x, x * (1 + 1e-4), 1e-3));
  EXPECT_FALSE(allclose(x, tensor({1.0, 2.0, 1e300})));
  EXPECT_FALSE(allclose(nan, nan));
  EXPECT_TRUE(allclose(nan, nan, 0, 0, true));
  EXPECT_FALSE(equal(nan, nan));
  EXPECT_TRUE(equal(NestedTensor::from_lengths(x, {1, 2}), NestedTensor::from_lengths(x, {1, 2})));
  EXPECT_FALSE(equal(NestedTensor::from_lengths(x, {1, 2}), NestedTensor::from_lengths(x, {2, 1})));
  EXPECT_TRUE(allclose(NestedTensor::from_lengths(x, {1, 2}), NestedTensor::from_lengths(x, {1, 2})));
}

TEST(Arrange, LinesAndPermutations) {
  EXPECT_EQ(linspace(0, 1, 5).to_vector(), (std::vector<double>{0, 0.25, 0.5, 0.75, 1}));
  EXPECT_EQ(linspace(-3, 7, 2).to_vector(), (std::vector<double>{-3, 7}));
  EXPECT_EQ(linspace(0.1, 0.7, 4, DType::float64).to_vector().back(), 0.7);
  const double most = std::numeric_limits<double>::max();  // ends whose difference is no finite number
  for (const double end : {most, 1.7e308, 1e307}) {
    for (const int64_t steps : {1, 2, 3, 4, 5, 7, 10, 1000, 1027}) {
      const std::vector<double> line = linspace(-most, end, steps, DType::float64).to_vector();
      EXPECT_EQ(line.front(), -most);
      EXPECT_EQ(line.back(), steps > 1 ? end : -most);
      for (size_t i = 0; i < line.size(); ++i) {
        const double part = steps > 1 ? static_cast<double>(i) / static_cast<double>(steps - 1) : 0;
        EXPECT_NEAR(line[i] / most, part * (end / most) - (1 - part), 4e-16) << end << " " << steps << " " << i;
      }
      for (size_t i = 1; i < line.size(); ++i) EXPECT_LT(line[i - 1], line[i]) << end << " " << steps << " " << i;
    }
  }
  EXPECT_EQ(linspace(-most, most, 5, DType::float64).to_vector()[2], 0);
  const double inf = std::numeric_limits<double>::infinity();
  EXPECT_EQ(linspace(0, inf, 4).to_vector(), (std::vector<double>{0, inf, inf, inf}));
  EXPECT_EQ(linspace(-inf, 3, 4).to_vector(), (std::vector<double>{-inf, -inf, -inf, 3}));
  EXPECT_EQ(linspace(inf, inf, 3).to_vector(), (std::vector<double>{inf, inf, inf}));
  EXPECT_EQ(linspace(2, inf, 1).to_vector(), (std::vector<double>{2}));
  const std::vector<double> whole_line = linspace(-inf, inf, 3).to_vector();
  EXPECT_EQ(whole_line[0], -inf);
  EXPECT_TRUE(std::isnan(whole_line[1]));
  EXPECT_EQ(whole_line[2], inf);
  Generator generator(7);
  std::vector<int64_t> order = randperm(1000, {.generator = &generator}).to_vector<int64_t>();
  EXPECT_FALSE(std::is_sorted(order.begin(), order.end()));
  std::sort(order.begin(), order.end());
  for (size_t i = 0; i < order.size(); ++i) ASSERT_EQ(order[i], static_cast<int64_t>(i));
  // The order of random keys, as on every device.
  for (const int64_t n : {0, 1, 2, 100, 2049, 10000, 16384, 16385, 300000}) {
    Generator first(11), second(11);
    EXPECT_TRUE(equal(randperm(n, {.generator = &first}), argsort(rand({n}, {.dtype = DType::float64, .generator = &second}))))
        << n;
    EXPECT_TRUE(equal(rand({3}, {.generator = &first}), rand({3}, {.generator = &second}))) << n;
  }
}

TEST(Arrange, IntegersStayIntegers) {
  const Tensor x = tensor({int64_t{(int64_t{1} << 53) + 1}, int64_t{-7}});
  for (const Tensor& y : {floor(x), ceil(x), round(x), trunc(x)}) EXPECT_TRUE(y.dtype() == DType::int64 && equal(x, y));
  EXPECT_EQ(floor_divide(x, 2).to_vector<int64_t>(), (std::vector<int64_t>{int64_t{1} << 52, -4}));
  EXPECT_EQ(remainder(x, 4).to_vector<int64_t>(), (std::vector<int64_t>{1, 1}));
  EXPECT_EQ(fmod(x, 4).to_vector<int64_t>(), (std::vector<int64_t>{1, -3}));
  EXPECT_EQ(error_of([] { bitwise_and(ones({2}), 1); }), "bitwise_and: the operands are float32 (expected integers or bool)");
}

}  // namespace
}  // namespace deckle::suite
