// What is said to those who give nested tensors that do not fit: one sentence with the op, the dim, the shapes and what would
// fit.
#include "deckle/nested/generated/index.h"
#include "deckle/nested/generated/loss.h"
#include "deckle/nested/generated/norm.h"
#include "deckle/nested/generated/pointwise.h"
#include "deckle/nested/generated/reduce.h"
#include "deckle/nested/generated/shape.h"
#include "deckle/nested/generated/sort.h"
#include "deckle/nested/nested_tensor.h"
#include "tests/nested/support.h"

namespace deckle {
namespace {

using namespace testing;

TEST(NestedMessages, OfDifferentRaggedness) {
  const NestedTensor x = random_nested({5, 2, 9}, {2});
  expect_error(
      [&] {
        mul(x, random_nested({5, 3, 9}, {2}));
      },
      "mul: ragged shapes differ: self has 3 components of lengths [5, 2, 9], other has 3 components of lengths [5, 3, 9] "
      "(component 1)");
  expect_error(
      [&] {
        mul(x, random_nested({5, 2}, {2}));
      },
      "mul: ragged shapes differ: self has 3 components of lengths [5, 2, 9], other has 2 components of lengths [5, 2]");
}

TEST(NestedMessages, OfDenseOperandsThatDoNotBroadcast) {
  const NestedTensor x = random_nested({5, 2, 9}, {2});
  expect_error(
      [&] {
        add(x, random_tensor({2, 1, 2}));
      },
      "add: a dense operand of shape [2, 1, 2] does not broadcast with [3, 2..9, 2] (expected 3 or 1 in dim 0 and 1 in the "
      "ragged dims)");
  expect_error(
      [&] {
        add(x, random_tensor({9, 2}));
      },
      "add: a dense operand of shape [9, 2] does not broadcast with [3, 2..9, 2]");
}

TEST(NestedMessages, OfDims) {
  const NestedTensor x = random_nested({5, 2, 9}, {2});
  expect_error([&] { softmax(x, 3); }, "softmax: dim 3 is out of range for shape [3, 2..9, 2] (expected -3..2)");
  expect_error([&] { squeeze(x, 1); }, "squeeze: dim 1 is ragged in shape [3, 2..9, 2] (expected a regular dim, 2..2)");
  expect_error([&] { squeeze(x, 0); }, "squeeze: dim 0 is the batch in shape [3, 2..9, 2]");
  expect_error([&] { unsqueeze(x, 1); },
               "unsqueeze: a new dim 1 would stand before the ragged dims of shape [3, 2..9, 2] (expected 2..3)");
  expect_error([&] { topk(x, 2, 0); }, "topk: dim 0 is the batch of shape [3, 2..9, 2]");
  expect_error(
      [&] {
        layer_norm(random_nested({5, 2}, {}));
      },
      "layer_norm: the last dim of shape [2, 2..5] is ragged (expected a regular dim after the ragged ones)");
}

TEST(NestedMessages, OfLengthsAndOffsets) {
  const Tensor values = random_tensor({8, 2});
  expect_error(
      [&] {
        NestedTensor::from_offsets(values, std::vector<int64_t>{0, 5, 3, 8});
      },
      "offsets must not fall: offsets[1] is 5, offsets[2] is 3");
  expect_error([&] { NestedTensor::from_offsets(values, std::vector<int64_t>{1, 8}); }, "offsets must start with 0");
  expect_error(
      [&] {
        NestedTensor::from_offsets(values, std::vector<int64_t>{0, 9});
      },
      "values of shape [8, 2] have 8 rows, but 1 component of lengths [9] have 9");
  expect_error([&] { NestedTensor::from_lengths(values, {9, -1}); }, "component 1 has the negative length -1");
  expect_error(
      [&] {
        NestedTensor::from_padded(random_tensor({2, 3, 1}), std::vector<int64_t>{1, 4});
      },
      "length 4 of component 1 is outside 0..3");
}

TEST(NestedMessages, FoundOnTheValuesGiveTheShapesOfTheComponentsToo) {
  const NestedTensor x = random_nested({5, 2}, {3}), y = random_nested({5, 2}, {4});
  const std::string differ =
      "shapes [7, 3] and [7, 4] do not broadcast (dim -1: 3 against 4); self is [2, 2..5, 3] with values [7, 3], ";
  EXPECT_EQ(error_of([&] { add(x, y); }), "add: " + differ + "other is [2, 2..5, 4] with values [7, 4]");
  EXPECT_EQ(error_of([&] { mse_loss(x, y); }),
            "mse_loss: squared_error: " + differ + "target is [2, 2..5, 4] with values [7, 4]");
  EXPECT_EQ(error_of([&] { select(x, 2, 3); }),
            "select: index 3 is out of range for dim 1 of shape [7, 3]; self is [2, 2..5, 3] with values [7, 3]");
  EXPECT_TRUE(error_of([&] { add_(x, y); }).starts_with("add_: "));
}

TEST(NestedMessages, OfMemoryThatThereIsNot) {
  const NestedTensor x = random_nested({int64_t{1} << 60, 0}, 2, {});
  EXPECT_EQ(error_of([&] { sum(x, {2}); }),
            "sum: the host memory does not hold a list of all rows or groups; self is [1, 1152921504606846976, 0]");
}

}  // namespace
}  // namespace deckle
