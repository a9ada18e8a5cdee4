// Shapes and dtypes that do not fit are told before a kernel runs: an op that reads one tensor by the shape of another checks
// both.
#include <gtest/gtest.h>

#include "deckle/base/error.h"
#include "deckle/core/ragged_shape.h"
#include "deckle/core/tensor_impl.h"
#include "deckle/ops/generated/factory.h"
#include "deckle/ops/generated/index.h"
#include "deckle/ops/generated/loss.h"
#include "deckle/ops/generated/norm.h"
#include "deckle/ops/generated/pointwise.h"
#include "deckle/ops/generated/random.h"
#include "deckle/ops/generated/reduce.h"
#include "deckle/ops/generated/segment.h"
#include "deckle/ops/generated/shape.h"
#include "tests/support/expect.h"

namespace deckle {
namespace {

using testing::expect_error;

TEST(Arguments, OfDerivativesOfRowsHaveOneShape) {
  const Tensor small = ones({2, 3}), large = ones({4, 7}), vector;
  expect_error([&] { softmax_backward(small, large, 1); },
               "softmax_backward: gradient is [2, 3], output [4, 7] (expected one shape)");
  expect_error([&] { log_softmax_backward(large, small, 1); }, "log_softmax_backward: gradient is [4, 7], output [2, 3]");
  expect_error([&] { rms_norm_backward(small, large, vector, 1e-5); }, "rms_norm_backward: gradient is [2, 3], self [4, 7]");
  expect_error([&] { rms_norm_backward(large, large, ones({6}), 1e-5); },
               "rms_norm_backward: weight has shape [6] (expected [7]");
  expect_error([&] { layer_norm_backward(small, large, vector, 1e-5); }, "layer_norm_backward: gradient is [2, 3], self [4, 7]");
  expect_error(
      [&] {
        layer_norm_backward(large, large, ones({7, 1}), 1e-5);
      },
      "layer_norm_backward: weight has shape [7, 1] (expected [7]");
  expect_error([&] { rms_norm_direction(small, large, 1e-5); }, "rms_norm_direction: direction is [2, 3], self [4, 7]");
  expect_error([&] { layer_norm_direction(ones({}), ones({}), 1e-5); }, "layer_norm_direction: direction is [], self []");
}

TEST(Arguments, OfCrossEntropyRowsFit) {
  const Tensor logits = ones({4, 3}), targets = zeros({4}, DType::int64), one = zeros({1}, DType::int64),
               each = zeros({4}, DType::float64), lse = zeros({4, 2}, DType::float64);
  expect_error([&] { cross_entropy_rows(logits, one, -100, 0); }, "input has shape [4, 3] and target [1]");
  expect_error([&] { cross_entropy_rows(logits, zeros({4}), -100, 0); }, "target is float32 (expected int64 or int32)");
  expect_error([&] { cross_entropy_rows_backward(each, each, logits, one, lse, -100, 0); },
               "input has shape [4, 3] and target [1]");
  expect_error([&] { cross_entropy_rows_backward(zeros({1}), each, logits, targets, lse, -100, 0); },
               "gradients of shape [1] and [4] and lse of [4, 2]");
  expect_error([&] { cross_entropy_rows_backward(each, zeros({5}), logits, targets, lse, -100, 0); },
               "gradients of shape [4] and [5] and lse of [4, 2]");
  expect_error([&] { cross_entropy_rows_backward(each, each, logits, targets, one, -100, 0); }, "lse of [1]");
  expect_error([&] { cross_entropy_rows_jvp(ones({3, 4}), logits, targets, lse, -100, 0); }, "tangent of shape [3, 4]");
  expect_error([&] { cross_entropy_rows_jvp(logits, logits, targets, zeros({3}), -100, 0); }, "lse of [3]");
}

TEST(Arguments, OfEmbeddingBackwardFit) {
  const Tensor indices = zeros({3}, DType::int64);
  expect_error([&] { embedding_backward(ones({2, 4}), indices, 5); }, "embedding_backward: gradient is [2, 4] (expected [3]");
  expect_error([&] { embedding_backward(ones({3}), indices, 5); }, "embedding_backward: gradient is [3] (expected [3]");
  expect_error([&] { embedding_backward(ones({3, 4}), indices, 0); }, "out of range");
}

TEST(Arguments, OfSegmentOpsFit) {
  const Tensor values = ones({2}), rows = empty({1}, DType::int64);
  for (const int64_t wrong : {int64_t{5}, int64_t{-2}}) {
    rows.data<int64_t>()[0] = wrong;
    expect_error([&] { segment_take(values, rows); }, "is out of range (expected -1..1)");
    expect_error([&] { segment_put(ones({1}), rows, 2); }, "is out of range (expected -1..1)");
  }
  expect_error([&] { segment_take(values, zeros({1})); }, "segment_take: rows are float32 (expected int64)");
  expect_error(
      [&] {
        segment_take(ones({2, 3}), zeros({1, 4}, DType::int64));
      },
      "segment_take: rows of shape [1, 4] for values [2, 3]");
  expect_error(
      [&] {
        segment_put(ones({2, 3}), zeros({2, 4}, DType::int64), 5);
      },
      "segment_put: rows of shape [2, 4] for a gradient [2, 3]");
  const Ragged five = Ragged::from_lengths(std::vector<int64_t>{5});
  expect_error([&] { segment_softmax_backward(ones({5}), ones({2}), five); },
               "segment_softmax_backward: gradient is [5], output [2]");
}

TEST(Segments, OfHalvesHaveMeansLikeDenseOnes) {
  for (const DType dtype : {DType::float16, DType::bfloat16, DType::float32}) {
    for (const int64_t rows : {300, 3000, 70000}) {
      const Tensor values = full({rows, 1}, 30, dtype);
      const Ragged ragged = Ragged::from_lengths(std::vector<int64_t>{rows});
      EXPECT_EQ(segment_mean(values, ragged).item(), 30) << name(dtype) << " " << rows;
      EXPECT_EQ(segment_lengths(values, ragged).item(), static_cast<double>(rows));
    }
  }
}

TEST(Segments, HaveOneLengthForEachComponent) {
  const Ragged ragged = Ragged::from_lengths(std::vector<int64_t>{3, 0, 5, 1});
  for (const DType dtype : {DType::float16, DType::bfloat16, DType::float32, DType::float64}) {
    const Tensor lengths = segment_lengths(ones({9, 3}, dtype), ragged);
    EXPECT_EQ(lengths.sizes(), (Ints{4, 1}));
    EXPECT_EQ(lengths.dtype(), dtype == DType::float64 ? dtype : DType::float32);
    EXPECT_EQ(lengths.to_vector(), (std::vector<double>{3, 0, 5, 1}));
  }
}

TEST(Segments, LogSoftmaxOfLargeLogitsIsExact) {
  Tensor values = to(arange(3), DType::float32);
  const Ragged ragged = Ragged::from_lengths(std::vector<int64_t>{3});
  const Tensor small = segment_log_softmax(values, ragged), large = segment_log_softmax(add(values, 1e6), ragged);
  testing::expect_equal(large, small);
}

TEST(Arguments, OfRandintHoldAnInteger) {
  expect_error([] { randint(3, 3, {2}); }, "randint: the range is 3..3 (expected to hold 1 to 2^32 integers)");
  expect_error([] { randint(0, (int64_t{1} << 32) + 1, {2}); }, "randint: the range is 0..4294967297");
  expect_error([] { randint(INT64_MIN, INT64_MAX, {2}); }, "(expected to hold 1 to 2^32 integers)");
  EXPECT_EQ(randint(INT64_MIN, INT64_MIN + 1, {1}).to_vector<int64_t>()[0], INT64_MIN);
}

}  // namespace
}  // namespace deckle
