// Errors about incompatible nested tensors: one sentence with the op, the dim, the shapes and what is
// expected.
#include <functional>
#include <string>
#include <utility>

#include "deckle/nested/generated/conv.h"
#include "deckle/nested/generated/index.h"
#include "deckle/nested/generated/loss.h"
#include "deckle/nested/generated/matmul.h"
#include "deckle/nested/generated/norm.h"
#include "deckle/nested/generated/pointwise.h"
#include "deckle/nested/generated/reduce.h"
#include "deckle/nested/generated/shape.h"
#include "deckle/nested/generated/sort.h"
#include "deckle/nested/nested_tensor.h"
#include "deckle/nested/padding.h"
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
  expect_error([&] { squeeze(x, 1); },
               "squeeze: component 0 of shape [3, 2..9, 2] has size 5 in the ragged dim 1 (expected 1 in every component)");
  expect_error([&] { squeeze(x, 0); },
               "squeeze: dim 0 is the batch of shape [3, 2..9, 2] (expected a ragged dim, 1, or a regular dim, 2): whether it "
               "goes would depend on the number of components");
  expect_error([&] { unsqueeze(x, 0); },
               "unsqueeze: new dim 0 is the batch of shape [3, 2..9, 2] (expected a ragged dim, 1, or a regular dim, 2..3): a "
               "new dim before the batch would hold batches");
  expect_error([&] { unbind(x, 1); },
               "unbind: dim 1 is a ragged dim of shape [3, 2..9, 2] (expected the batch, 0, or a regular dim, 2): components "
               "differ in how many slices they have");
  expect_error(
      [&] {
        layer_norm(random_nested({5, 2}, {}));
      },
      "layer_norm: the last dim of shape [2, 2..5] is ragged (expected a regular dim after the ragged ones)");
}

TEST(NestedMessages, GiveOpDimShapesAndWhatWouldBeAccepted) {
  const NestedTensor x = random_nested({5, 2, 9}, {2}), y = random_nested({5, 3, 9}, {2}), wide = random_nested({5, 2, 9}, {3});
  const NestedTensor index = random_indices({1, 1, 1}, 2);
  const std::pair<std::function<void()>, std::string> table[] = {
      {[&] { gather(x, 2, index); }, "gather: index has shape [3, 1] and self [3, 2..9, 2] (expected as many dims)"},
      {[&] { gather(x, 2, unsqueeze(index, 2)); },
       "gather: ragged shapes differ: self has 3 components of lengths [5, 2, 9], index has 3 components of lengths [1, 1, 1]"},
      {[&] {
         stack({x, y}, 2);
       },
       "stack: ragged shapes differ: tensor 0 has 3 components of lengths [5, 2, 9], tensor 1 has 3 components of lengths [5, 3, "
       "9] (component 1)"},
      {[&] {
         cat({x, wide}, 1);
       },
       "cat: tensor 1 has shape [3, 2..9, 3], tensor 0 has [3, 2..9, 2] (expected the same dims, and equal regular sizes)"},
      {[&] {
         cat({x, y}, 2);
       },
       "cat: ragged shapes differ: tensor 0 has"},
      {[&] { transpose(x, 0, 1); },
       "transpose: dim 0 is the batch of shape [3, 2..9, 2] (expected a ragged dim, 1, or a regular dim, 2): components of "
       "different sizes"},
      {[&] {
         permute(x, {0, 1});
       },
       "permute: 2 dims for shape [3, 2..9, 2] (expected 3)"},
      {[&] {
         reshape(x, {-1, 3, 2});
       },
       "reshape: size 3 for the ragged dim 1 of shape [3, 2..9, 2], which stays (expected -1)"},
      {[&] { select(x, 1, 4); },
       "select: position 4 is out of range for dim 1 of component 1, of length 2 (expected -2..1); self is [3, 2..9, 2]"},
      {[&] { narrow(x, 1, 0, 3); },
       "narrow: 3 positions from 0 on are more than dim 1 of component 1 has, of length 2 (expected no more); self is [3, 2..9, "
       "2]"},
      {[&] { matmul(x, x); },
       "matmul: component 0 multiplies [5, 2] by [5, 2] (expected equal inner dims); self is [3, 2..9, 2], other is [3, 2..9, "
       "2]"},
      {[&] {
         matmul(x, random_tensor({2, 2, 2}));
       },
       "matmul: a dense operand of shape [2, 2, 2] for 3 components (expected [3, rows, cols] or [rows, cols]); self is"},
      {[&] {
         linear(x, random_tensor({2, 4, 2}));
       },
       "linear: weight has shape [2, 4, 2] (expected [3, out, 2] or [out, 2]); input is [3, 2..9, 2]"},
      {[&] { batch_norm(x, random_tensor({3})); },
       "batch_norm: weight has shape [3] (expected [2], the channels); self is [3, 2..9, 2]"},
      {[&] {
         conv1d(random_nested({5, 2}, {}), random_tensor({4, 3, 3}));
       },
       "conv1d: the last dim of shape [2, 2..5] is ragged (expected a regular dim after the ragged ones)"},
      {[&] { masked_select(x, gt(y, 0)); },
       "masked_select: ragged shapes differ: self has 3 components of lengths [5, 2, 9], mask has"},
      {[&] { cross_entropy(x, index); },
       "cross_entropy: ragged shapes differ: input has 3 components of lengths [5, 2, 9], target has 3 components of lengths [1, "
       "1, 1]"},
      {[&] { to_padded(x, {.sizes = {4}}); }, "to_padded: a component of length 9 in dim 1 does not fit the padded size 4"},
  };
  for (const auto& [call, says] : table) expect_error(call, says);
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
      "length 4 of component 1 is too long (expected 0..3)");
}

TEST(NestedMessages, FoundOnTheValuesGiveTheShapesOfTheComponentsToo) {
  const NestedTensor x = random_nested({5, 2}, {3}), y = random_nested({5, 2}, {4});
  const std::string differ = "shapes [7, 3] and [7, 4] do not broadcast (dim -1: 3 against 4); ";
  EXPECT_EQ(error_of([&] { add(x, y); }),
            "add: " + differ + "self is [2, 2..5, 3] with values [7, 3], other is [2, 2..5, 4] with values [7, 4]");
  EXPECT_EQ(error_of([&] { mse_loss(x, y); }), "mse_loss: target has shape [2, 2..5, 4] (expected input's, [2, 2..5, 3])");
  EXPECT_EQ(
      error_of([&] { select(x, 2, 3); }),
      "select: index 3 is out of range for dim 1 of shape [7, 3] (expected -3..2); self is [2, 2..5, 3] with values [7, 3]");
  EXPECT_TRUE(error_of([&] { add_(x, y); }).starts_with("add_: "));
}

TEST(NestedMessages, TheArgumentThatAnErrorIsAboutIsItsOwnField) {
  const NestedTensor x = random_nested({5, 2}, {4});
  const auto argument_of = [](const std::function<void()>& body) -> std::string {
    try {
      body();
    } catch (const Error& error) {
      EXPECT_TRUE(error.detail().starts_with("is ")) << error.detail();
      return error.argument();
    }
    return "no error";
  };
  EXPECT_EQ(argument_of([&] { slice(x, 1, 0, 2, 0); }), "step");
  EXPECT_EQ(argument_of([&] { split(x, 0, 1); }), "split_size");
  EXPECT_EQ(argument_of([&] { chunk(x, 0, 1); }), "chunks");
  EXPECT_EQ(argument_of([&] { topk(x, -1, 1); }), "k");
  EXPECT_EQ(argument_of([&] { rms_norm(x.values(), {}, -1); }), "eps");
}

TEST(NestedMessages, OfMemoryThatThereIsNot) {
  const NestedTensor x = random_nested({int64_t{1} << 60, 0}, 2, {});
  EXPECT_EQ(error_of([&] { sum(x, {2}); }),
            "sum: no memory for the lengths of 1152921504606846976 groups of rows; self is [1, 1152921504606846976, 0]");
}

}  // namespace
}  // namespace deckle
