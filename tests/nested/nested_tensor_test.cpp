#include "deckle/nested/nested_tensor.h"

#include "deckle/autograd/backward.h"
#include "deckle/functional/gradcheck.h"
#include "deckle/ops/generated/pointwise.h"
#include "deckle/ops/generated/reduce.h"
#include "deckle/ops/generated/shape.h"
#include "tests/support/expect.h"
#include "tests/support/random.h"

namespace deckle {
namespace {

using testing::expect_equal;
using testing::expect_error;
using testing::ragged_patterns;
using testing::random_tensor;

int64_t total(const std::vector<int64_t>& lengths) {
  int64_t rows = 0;
  for (const int64_t length : lengths) rows += length;
  return rows;
}

TEST(NestedTensor, PaddingAndBackKeepsEveryRow) {
  for (const auto& lengths : ragged_patterns()) {
    const NestedTensor x = NestedTensor::from_lengths(random_tensor({total(lengths), 3}), lengths);
    if (lengths.empty()) continue;
    const Tensor padded = x.to_padded(-7.0);
    const NestedTensor back = NestedTensor::from_padded(padded, lengths);
    expect_equal(back.values(), x.values());
    expect_equal(NestedTensor::from_mask(padded, x.padding_mask()).values(), x.values());
    for (int64_t b = 0; b < x.components(); ++b) {
      expect_equal(padded[b].slice(0, 0, lengths[static_cast<size_t>(b)]), x[b]);
      for (const double rest : padded[b].slice(0, lengths[static_cast<size_t>(b)], padded.size(1)).to_vector())
        EXPECT_EQ(rest, -7.0);
    }
  }
}

TEST(NestedTensor, ComponentsAreViewsOfTheValues) {
  const NestedTensor x = NestedTensor::from_lengths(random_tensor({8, 2}), {3, 0, 5});
  x.requires_grad_();
  EXPECT_EQ(x[1].size(0), 0);
  sum(x[2] * 3.0).backward();
  const std::vector<double> gradient = x.grad().values().to_vector();
  for (size_t i = 0; i < gradient.size(); ++i) EXPECT_EQ(gradient[i], i < 6 ? 0.0 : 3.0);
  EXPECT_TRUE(x.grad().ragged() == x.ragged());
}

TEST(NestedTensor, FromListPassesGradientsToItsComponents) {
  const Tensor a = random_tensor({2, 3}), b = random_tensor({0, 3}), c = random_tensor({4, 3});
  const auto f = [](const Tensor& p, const Tensor& q, const Tensor& r) {
    return square(NestedTensor::from_list({p, q, r}).values());
  };
  gradcheck(f, std::tuple(a, b, c));
  forward_gradcheck(f, std::tuple(a, b, c));
  gradgradcheck(f, std::tuple(a, b, c));
}

TEST(NestedTensor, PaddingIsDifferentiable) {
  const std::vector<int64_t> lengths = {2, 0, 3};
  const auto pad = [](const NestedTensor& x) { return square(x.to_padded(1.5)); };
  const NestedTensor x = NestedTensor::from_lengths(random_tensor({5, 2}), lengths);
  gradcheck(pad, x);
  forward_gradcheck(pad, x);
  gradgradcheck(pad, x);
  const auto unpad = [&](const Tensor& padded) { return square(NestedTensor::from_padded(padded, lengths).values()); };
  gradcheck(unpad, random_tensor({3, 4, 2}));
  gradgradcheck(unpad, random_tensor({3, 4, 2}));
}

TEST(NestedTensor, SeveralRaggedDims) {
  const Ragged images(std::make_shared<const RaggedShape>(std::vector<int64_t>{2, 3, 0, 4, 1, 5}, 2));
  const NestedTensor x(random_tensor({11, 2}), images);
  EXPECT_EQ(x.dim(), 4);
  EXPECT_EQ(to_string(x[0].sizes()), "[2, 3, 2]");
  EXPECT_EQ(to_string(x[1].sizes()), "[0, 4, 2]");
  EXPECT_EQ(to_string(x[2].sizes()), "[1, 5, 2]");
  EXPECT_TRUE(x.is_ragged(2));
  EXPECT_FALSE(x.is_ragged(-1));
}

TEST(NestedTensor, LengthsAndOffsetsInBothIntegerTypes) {
  const NestedTensor x = NestedTensor::from_offsets(random_tensor({8}), std::vector<int64_t>{0, 3, 3, 8});
  EXPECT_EQ(x.lengths().to_vector<int64_t>(), (std::vector<int64_t>{3, 0, 5}));
  EXPECT_EQ(x.offsets(DType::int32).to_vector<int64_t>(), (std::vector<int64_t>{0, 3, 3, 8}));
  EXPECT_EQ(x.offsets(DType::int32).dtype(), DType::int32);
  for (const DType dtype : {DType::int64, DType::int32}) {
    EXPECT_TRUE(NestedTensor::from_offsets(x.values(), x.offsets(dtype)).ragged() == x.ragged());
    EXPECT_TRUE(NestedTensor::from_lengths(x.values(), x.lengths(dtype)).ragged() == x.ragged());
    expect_equal(NestedTensor::from_padded(x.to_padded(), x.lengths(dtype)).values(), x.values());
  }
  expect_error([&] { NestedTensor::from_offsets(x.values(), random_tensor({4})); },
               "from_offsets: offsets is float64 (expected int64 or int32)");
  expect_error(
      [&] {
        NestedTensor::from_lengths(x.values(), random_tensor({4, 1}).to(DType::int64));
      },
      "from_lengths: lengths has shape [4, 1] (expected a vector)");
}

TEST(NestedTensor, PrintsItsRaggedness) {
  const NestedTensor x = NestedTensor::from_lengths(random_tensor({8, 5}, DType::float32), {3, 0, 5});
  EXPECT_EQ(to_string(x), "NestedTensor[3, 0..5 (mean 3), 5] float32, 8 rows");
}

TEST(NestedTensor, RefusesWhatDoesNotFit) {
  const Tensor values = random_tensor({8, 2});
  expect_error([&] { NestedTensor::from_lengths(values, {3, 4}); }, "have 8 rows, but 2 components of lengths [3, 4] have 7");
  expect_error([&] { NestedTensor::from_lengths(values, {9, -1}); }, "negative length");
  expect_error(
      [&] {
        NestedTensor::from_list({random_tensor({2, 3}), random_tensor({2, 4})});
      },
      "component 1 has shape [2, 4], component 0 has [2, 3] (expected the same regular dims)");
  expect_error(
      [&] {
        NestedTensor::from_padded(random_tensor({2, 3, 1}), std::vector<int64_t>{1, 4});
      },
      "length 4 of component 1");
  const NestedTensor x = NestedTensor::from_lengths(values, {3, 5});
  expect_error([&] { x.size(1); }, "ragged");
  expect_error([&] { x[2]; }, "component 2 is out of range");
  expect_error([&] { x.dense(); }, "1 ragged dim left");
  expect_error([&] { x.to_padded(0.0, 4); }, "does not fit");
}

}  // namespace
}  // namespace deckle
