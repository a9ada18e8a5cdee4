// Scans and order over the ragged dims, the batch and regular dims of nested tensors.
#include <cmath>
#include <limits>

#include "deckle/core/from_data.h"
#include "deckle/functional/transforms.h"
#include "deckle/nested/generated/factory.h"
#include "deckle/nested/generated/index.h"
#include "deckle/nested/generated/reduce.h"
#include "deckle/nested/generated/scan.h"
#include "deckle/nested/generated/shape.h"
#include "deckle/nested/generated/sort.h"
#include "deckle/nested/operators.h"
#include "deckle/ops/generated/factory.h"
#include "deckle/ops/generated/index.h"
#include "deckle/ops/generated/pointwise.h"
#include "deckle/ops/generated/reduce.h"
#include "deckle/ops/generated/shape.h"
#include "deckle/ops/generated/sort.h"
#include "tests/nested/support.h"

namespace deckle {
namespace {

using namespace testing;

const std::vector<int64_t> kImages = {2, 3, 0, 4, 3, 1};

TEST(NestedOrder, FlipReversesComponentsAndTheirOrder) {
  for (const auto& lengths : ragged_patterns()) {
    const NestedTensor x = random_nested(lengths, 1, {2});
    const NestedTensor within = flip(x, {1}), whole = flip(x, {0}), all = flip(x, {0, 1, 2});
    for (int64_t b = 0; b < x.components(); ++b) {
      const int64_t other = x.components() - 1 - b;
      expect_equal(within[b], flip(x[b], {0}));
      expect_equal(whole[b], x[other]);
      expect_equal(all[b], flip(x[other], {0, 1}));
    }
  }
  const NestedTensor images = random_nested(kImages, 2, {2});
  for (int64_t b = 0; b < images.components(); ++b) {
    expect_equal(flip(images, {2})[b], flip(images[b], {1}));
    expect_equal(flip(images, {1, -1})[b], flip(images[b], {0, 2}));
  }
  expect_gradients([](const NestedTensor& a) { return flip(a * a, {0, 1}); }, random_nested({2, 0, 3}, 1, {2}));
}

TEST(NestedOrder, TopkTakesWhatIsThere) {
  for (const auto& lengths : ragged_patterns()) {
    const NestedTensor x = random_nested(lengths, 1, {2});
    for (const bool largest : {true, false}) {
      const auto [values, indices] = topk(x, 3, 1, {.largest = largest});
      for (int64_t b = 0; b < x.components(); ++b) {
        const auto [want, places] = topk(x[b], std::min<int64_t>(3, x[b].size(0)), 0, {.largest = largest});
        expect_equal(values[b], want);
        expect_equal(indices[b], places);
      }
    }
  }
  const NestedTensor images = random_nested(kImages, 2, {});
  for (const int64_t dim : {1, 2}) {
    for (int64_t b = 0; b < images.components(); ++b) {
      const Tensor image = images[b];
      expect_equal(std::get<0>(topk(images, 2, dim))[b],
                   std::get<0>(topk(image, std::min<int64_t>(2, image.size(dim - 1)), dim - 1)));
    }
  }
  expect_gradients([](const NestedTensor& a) { return std::get<0>(topk(a * a, 2, 1)); }, random_nested({2, 0, 3}, 1, {2}));
  expect_error([&] { topk(images, 1, 0); },
               "topk: dim 0 is the batch of shape [3, 0..3, 1..4]: the positions that several components of 2 ragged dims reach");
  expect_error([&] { topk(images, -1, 1); }, "topk: k is -1 (expected 0 or more)");
}

TEST(NestedOrder, WritesReachTheValues) {
  const NestedTensor x = random_nested({2, 0, 3}, 1, {2}), y = random_nested({2, 0, 3}, 1, {2});
  copy_(x, y);
  expect_equal(x.values(), y.values());
  fill_(x, 2.0);
  expect_equal(x.values(), full({5, 2}, 2.0, DType::float64));
  zero_(x);
  expect_equal(x.values(), zeros({5, 2}, DType::float64));
  expect_error([&] { copy_(x, random_nested({3, 0, 2}, 1, {2})); }, "copy_: ragged shapes differ");
}

TEST(NestedOrder, OverTheBatchPositionsAreTakenTogether) {
  const NestedTensor x = NestedTensor::from_lengths(testing::tensor_of({3, 1, 4, 1, 5, 9, 2, 6}), {3, 2, 1, 2});
  const NestedTensor sums = cumsum(x, 0);
  EXPECT_EQ(sums.values().to_vector(), (std::vector<double>{3, 1, 4, 4, 6, 13, 15, 12}));
  const auto [sorted, indices] = sort(x, 0);
  EXPECT_EQ(sorted.values().to_vector(), (std::vector<double>{1, 1, 4, 2, 5, 3, 9, 6}));
  EXPECT_EQ(indices.values().to_vector<int64_t>(), (std::vector<int64_t>{1, 0, 0, 3, 1, 0, 2, 3}));
  EXPECT_EQ(sum(x, {0}).dense().to_vector(), (std::vector<double>{15, 12, 4}));
  expect_close(softmax(x, 0)[2],
               exp(x[2]) / (exp(x[0].slice(0, 0, 1)) + exp(x[1].slice(0, 0, 1)) + exp(x[2]) + exp(x[3].slice(0, 0, 1))), 1e-12,
               1e-12);
}

TEST(NestedOrder, RunningProductsKnowNothingOfOtherComponents) {
  const double infinity = std::numeric_limits<double>::infinity();
  const NestedTensor x = NestedTensor::from_lengths(tensor({infinity, 2.0, 3.0, 5.0}), {1, 3});
  const auto f = [](const NestedTensor& a) { return cumprod(a, 1); };
  const NestedTensor directions(ones({4}, DType::float64), x.ragged());
  const auto [value, tangent] = jvp(f, x, directions);
  expect_equal(value.values(), tensor({infinity, 2.0, 6.0, 30.0}));
  expect_equal(tangent.values(), tensor({1.0, 1.0, 5.0, 31.0}));
  const Tensor leaf = x.values().detach().requires_grad_();
  sum(f(NestedTensor(leaf, x.ragged())).values()).backward();
  expect_equal(leaf.grad(), tensor({1.0, 19.0, 12.0, 6.0}));
}

}  // namespace
}  // namespace deckle
