// Overflow, batches with more rows than 16 bits can count, NaN: none of them may give a plausible wrong result.
#include <limits>

#include "deckle/functional/transforms.h"
#include "deckle/nested/generated/conv.h"
#include "deckle/nested/generated/index.h"
#include "deckle/nested/generated/loss.h"
#include "deckle/nested/generated/matmul.h"
#include "deckle/nested/generated/pointwise.h"
#include "deckle/nested/generated/reduce.h"
#include "deckle/nested/generated/shape.h"
#include "deckle/nested/structure.h"
#include "deckle/ops/generated/factory.h"
#include "deckle/ops/generated/loss.h"
#include "deckle/ops/generated/reduce.h"
#include "deckle/ops/generated/shape.h"
#include "tests/nested/support.h"

namespace deckle {
namespace {

using namespace testing;

constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
constexpr int64_t kLeast = std::numeric_limits<int64_t>::min();

TEST(NestedLimits, SlicesAndRollsOfAnySize) {
  const NestedTensor x = random_nested({3, 0, 2}, {2});
  expect_components(slice(x, 1, 1, kMost, kMost), 3, [&](int64_t b) { return x[b].slice(0, 1, 2); });
  expect_components(slice(x, 1, kLeast, kMost), 3, [&](int64_t b) { return x[b]; });
  expect_components(slice(x, 0, 1, kMost, kMost), 1, [&](int64_t) { return x[1]; });
  expect_components(roll(x, kLeast, 1), 3, [&](int64_t b) { return roll(x[b], kLeast, 0); });
  for (const int64_t by : {kLeast, kMost}) expect_components(shift(x, by), 3, [&](int64_t b) { return zeros_like(x[b]); });
  EXPECT_EQ(split(x, kMost, 1).size(), 1u);
  EXPECT_EQ(chunk(x, kMost, 0).size(), 3u);
}

TEST(NestedLimits, RangesThatOverflowAreRefused) {
  const NestedTensor x = random_nested({3, 2}, {2});
  expect_error([&] { narrow(x, 1, 1, kMost); },
               "narrow: 9223372036854775807 positions from 1 on are more than dim 1 of component 0 has, of length 3");
  expect_error([&] { narrow(x, 1, kMost, 1); }, "narrow: 1 positions from 9223372036854775807 on");
  expect_error([&] { narrow(x, 0, 1, kMost); }, "narrow: 9223372036854775807 components from 1 on");
  expect_error(
      [&] {
        narrow(x, 1, integers({0, 1}), integers({1, kMost}));
      },
      "are more than dim 1 of component 1 has, of length 2");
  expect_error([&] { split_with_sizes(x, {3, -1}, 0); }, "split_with_sizes: split size -1 is negative in [3, -1]");
  expect_error([&] { split_with_sizes(x, {kMost, kMost, 4}, 0); }, "add up to more than 2^63");
  expect_error([&] { split_with_sizes(x, {kMost, kMost, 4}, 1); }, "add up to more than 2^63");
  expect_error([&] { split_with_sizes(x, {kMost, kMost, 4}, 2); }, "add up to more than dim 1 of shape [5, 2] has");
  expect_error(
      [&] {
        conv1d(x, random_tensor({1, 2, 3}), {}, {.dilation = kMost});
      },
      "conv1d: windows of size 3 and dilation 9223372036854775807 are too long (expected fewer than 2^61 rows)");
  expect_error([&] { max_pool1d(x, kMost, {.stride = 1, .padding = Padding::same}); },
               "max_pool1d: windows of size 9223372036854775807");
  expect_error([&] { x.to_padded(0.0, kMost / 2); }, "to_padded: ");
}

TEST(NestedLimits, RowsAreNoRegularDim) {
  const NestedTensor x = random_nested({3, 2}, {2, 2}), two = random_nested({1, 1}, {2});
  expect_components(expand(two, {-1, -1, 5, 2}), 2, [&](int64_t b) { return expand(two[b].unsqueeze(1), {1, 5, 2}); });
  expect_components(expand(two, {-1, -1, 2, 2}), 2, [&](int64_t b) { return expand(two[b].unsqueeze(1), {1, 2, 2}); });
  expect_error([&] { expand(two, {-1, -1, -1, 2}); }, "expand: size -1 of a new dim");
  expect_error(
      [&] {
        matmul(x, random_tensor({5, 2, 2}));
      },
      "matmul: a dense operand of shape [5, 2, 2] does not broadcast with [2, 2..3, 2, 2]");
  expect_error(
      [&] {
        matmul(random_tensor({5, 2, 2}), x);
      },
      "matmul: a dense operand of shape [5, 2, 2] does not broadcast with [2, 2..3, 2, 2]");
  const NestedTensor nothing = random_nested({0, 0}, {3});  // no element contradicts other regular sizes, but rows would
  expect_error(
      [&] {
        view(nothing, {-1, -1, 5});
      },
      "view: regular sizes of [-1, -1, 5] do not fit the 3 elements per row of shape [2, 0, 3]");
  EXPECT_EQ(view(nothing, {-1, -1, 1, -1}).size(3), 3);
}

TEST(NestedLimits, LossesOfMoreTokensThanFloat16Counts) {
  constexpr int64_t kTokens = 70000;
  const Ragged ragged = Ragged::from_lengths(std::vector<int64_t>{kTokens});
  const NestedTensor input(full({kTokens, 2}, 0.5, DType::float16), ragged), target(zeros({kTokens, 2}, DType::float16), ragged);
  const NestedTensor classes(zeros({kTokens}, DType::int64), ragged);
  const double log_two = std::log(2.0), step = 0.5 / 1024;
  for (const Reduction reduction : {Reduction::mean, Reduction::sequence}) {
    expect_close(l1_loss(input, target, {.reduction = reduction}).reshape({1}), tensor_of({0.5}, DType::float16), 0, 0);
    const Tensor loss = cross_entropy(input, classes, {.reduction = reduction});
    EXPECT_EQ(loss.dtype(), DType::float16);
    EXPECT_NEAR(loss.to_vector()[0], log_two, step) << to_string(reduction);
  }
  EXPECT_NEAR(cross_entropy(input.values(), classes.values()).item(), log_two, step);
  EXPECT_NEAR(nll_loss(input.values(), classes.values()).item(), -0.5, 0);
}

TEST(NestedLimits, AnExtremumThatIsNaNHasNaNGradients) {
  const NestedTensor x = random_nested({3, 0, 2}, {2});
  x.values()[0][1].fill_(std::nan(""));
  const auto total = [](const NestedTensor& a) { return sum(amax(a, {1})); };
  const auto naive = [](const NestedTensor& a) { return sum(amax(a[0], {0})) + sum(amax(a[2], {0})); };
  expect_equal(grad(total, x).values(), grad(naive, x).values());
  const NestedTensor direction = random_nested({3, 0, 2}, {2});
  const auto along = [&](auto f) { return jvp([&](const NestedTensor& a) { return f(a); }, x, direction).second; };
  const NestedTensor tangents = along([](const NestedTensor& a) { return amax(a, {1}); });
  EXPECT_TRUE(std::isnan(tangents.values()[0].to_vector()[1]));
  expect_equal(tangents.values()[1], zeros({2}, DType::float64));  // -inf of no rows stays
  expect_equal(tangents.values()[2], along([](const NestedTensor& a) { return amax(a[2], {0}); }));
}

TEST(NestedLimits, CatPromotesAlongEveryDim) {
  const NestedTensor x = random_nested({2, 1}, {3}), narrow_values = random_nested({2, 1}, {3}).to(DType::float32);
  for (const int64_t dim : {0, 1, 2}) {
    const NestedTensor joined = cat({narrow_values, x}, dim);
    EXPECT_EQ(joined.dtype(), DType::float64);
    expect_equal(joined.values(), cat({narrow_values.to(DType::float64), x}, dim).values());
  }
}

TEST(NestedLimits, AResultWithoutDimsPrints) {
  EXPECT_EQ(to_string(sum(random_nested({2, 1}, {3}), Ints{})), "NestedTensor[] float64, none ragged");
}

}  // namespace
}  // namespace deckle
