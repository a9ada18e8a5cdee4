// Numbers that no memory or 64 bits hold are errors, at once: no overflow, no loop over rows of nothing, no other exception.

#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <vector>

#include "deckle/deckle.h"
#include "tests/support/expect.h"
#include "tests/support/sanitizers.h"

namespace deckle {
namespace {

using testing::expect_equal;
using testing::expect_error;

constexpr int64_t kMost = std::numeric_limits<int64_t>::max(), kLeast = std::numeric_limits<int64_t>::min();
constexpr int64_t kMany = int64_t{1} << 50;  // more than any host has memory for, and a size that 64 bits hold

Tensor matrix() { return tensor({{1.0f, 2.0f, 3.0f}, {4.0f, 5.0f, 6.0f}}); }
Ragged lengths(std::vector<int64_t> of) { return Ragged::from_lengths(of); }
NestedTensor rows() { return NestedTensor::from_lengths(matrix(), {1, 1}); }

TEST(AbsurdSizes, AreErrors) {
  const Tensor x = matrix(), empty_rows = zeros({0, 3}), places = tensor<int64_t>({kMost, kMost});
  const std::vector<std::function<void()>> calls = {
      [=] {
        x.repeat({kMost, 1});
      },
      [=] {
        x.repeat({kLeast, 1});
      },
      [=] {
        x.repeat({0, kMost});
      },
      [=] { repeat_interleave(x, kMost); },
      [=] { repeat_interleave(x, kMany, 1); },
      [=] { repeat_interleave(x, places, 0); },
      [=] {
        repeat_interleave(x, tensor<int64_t>({kMany, kMany}), 0);
      },
      [=] {
        repeat_interleave(x, tensor<int64_t>({int64_t{1} << 62, 1}), 0);
      },
      [=] {
        pad(x, {kLeast, kLeast});
      },
      [=] {
        pad(x, {kLeast, kMost});
      },
      [=] {
        pad(x, {kMost, kMost});
      },
      [=] {
        pad(x, {kMany, kMany});
      },
      [=] {
        pad(x, {kMost, kMost}, PadMode::circular);
      },
      [=] {
        pad_end(empty_rows, {kMost, 3});
      },
      [=] {
        cat({zeros({kMost, 0}), zeros({kMost, 0})});
      },
      [=] { zeros({kMany}); },
      [=] { arange(kMany); },
      [=] {
        one_hot(tensor<int64_t>({0, 1}), kMany);
      },
      [=] {
        conv1d(x, zeros({1, 3, 2}), {}, {.dilation = kMost});
      },
      [=] { max_pool1d(x, kMost, {.padding = Padding::same}); },
      [=] { segment_max_pool1d(x, lengths({2}), lengths({3}), kMost, 1, 0); },
      [=] { segment_max_pool1d(x, lengths({2}), lengths({3}), 3, int64_t{1} << 62, 0); },
      [=] { segment_max_pool1d(x, lengths({2}), lengths({1}), kMost, 1, kMost - 1); },
      [=] { interpolate1d(x, 1e15); },
      [=] {
        repeat(rows(), {kMost, 1, 1});
      },
      [=] {
        repeat(rows(), {1, kMost, 1});
      },
      [=] { repeat_interleave(rows(), kMost, 0); },
      [=] { repeat_interleave(rows(), kMost, 1); },
      [=] {
        pad(rows(), {kLeast, kMost, kLeast, kMost});
      },
      [=] { chunk(rows(), kMost, 1); },
  };
  for (size_t i = 0; i < calls.size(); ++i) {
    SCOPED_TRACE(i);
    EXPECT_THROW(calls[i](), Error);
  }
  expect_error([&] { repeat_interleave(x, places, 0); }, "repeats adds up to more than 64 bits hold");
  expect_error([&] { pad(x, {kLeast, 0}); }, "(expected no more taken away than there are)");
  expect_error(
      [&] {
        cat({zeros({kMost, 0}), zeros({kMost, 0})});
      },
      "cat: the sizes along dim 0 add up to more than 64 bits hold");
}

/// As many positions as no list of the host holds: its std::bad_alloc becomes an Error, where a sanitizer ends the program.
TEST(AbsurdSizes, OfListsAreErrors) {
  if (testing::kSanitized) GTEST_SKIP() << "a sanitizer ends a program that asks operator new for too much";
  const Tensor x = matrix();
  const std::vector<std::function<void()>> calls = {
      [=] {
        pad(x, {0, kMany}, PadMode::replicate);
      },
      [=] {
        zeros({kMany, 0}).unbind();
      },
      [=] {
        conv1d(zeros({kMany, 0, 3}), zeros({1, 3, 1}));
      },
      [=] { chunk(rows(), kMany, 1); },
  };
  for (size_t i = 0; i < calls.size(); ++i) {
    SCOPED_TRACE(i);
    EXPECT_THROW(calls[i](), Error);
  }
}

TEST(AbsurdSizes, OfRowsThatHoldNothingCostNothing) {
  EXPECT_EQ(zeros({kMany, 0}).softmax(1).numel(), 0);
  EXPECT_EQ(zeros({0, kMany}).cumsum(0).numel(), 0);
  EXPECT_EQ(zeros({0, kMany}).log_softmax(0).numel(), 0);
}

TEST(AbsurdSizes, OfDiagonalsKeepAllOrNothing) {
  const Tensor x = matrix();
  expect_equal(x.tril(kMost), x);
  expect_equal(x.triu(kLeast), x);
  expect_equal(x.tril(kLeast), zeros({2, 3}));
  expect_equal(x.triu(kMost), zeros({2, 3}));
  const Ragged shape(std::make_shared<const RaggedShape>(std::vector<int64_t>{2, 3, 2, 2}, 2));
  const NestedTensor squares(ones({10}), shape);
  expect_equal(tril(squares, kMost).values(), squares.values());
}

}  // namespace
}  // namespace deckle
