#include "deckle/nn/rotary.h"

#include <complex>

#include "deckle/autograd/backward.h"
#include "deckle/ops/generated/pointwise.h"
#include "deckle/ops/generated/position.h"
#include "deckle/ops/generated/reduce.h"
#include "deckle/ops/generated/shape.h"
#include "tests/support/expect.h"
#include "tests/support/random.h"

namespace deckle::nn {
namespace {

using testing::expect_close;
using testing::expect_error;
using testing::random_tensor;

/// x [rows, heads, D] rotated pair by pair as complex numbers.
std::vector<double> naive(const Tensor& x, const std::vector<int64_t>& positions, double base) {
  std::vector<double> y = x.to_vector();
  const auto heads = static_cast<size_t>(x.size(1)), size = static_cast<size_t>(x.size(2)), half = size / 2;
  for (size_t row = 0; row < positions.size(); ++row) {
    for (size_t head = 0; head < heads; ++head) {
      for (size_t i = 0; i < half; ++i) {
        double& a = y[(row * heads + head) * size + i];
        double& b = y[(row * heads + head) * size + i + half];
        const double angle =
            static_cast<double>(positions[row]) * std::pow(base, -2.0 * static_cast<double>(i) / static_cast<double>(size));
        const std::complex<double> turned = std::complex<double>(a, b) * std::polar(1.0, angle);
        a = turned.real();
        b = turned.imag();
      }
    }
  }
  return y;
}

TEST(Rotary, TurnsPairsByTheirPosition) {
  const Rotary rotary(6, 100);
  for (const auto& lengths : testing::ragged_patterns()) {
    std::vector<int64_t> positions;
    for (const int64_t length : lengths) {
      for (int64_t i = 0; i < length; ++i) positions.push_back(i);
    }
    const Tensor values = random_tensor({static_cast<int64_t>(positions.size()), 2, 6});
    const NestedTensor x = NestedTensor::from_lengths(values, lengths);
    const Tensor got = rotate(x, rotary.angles(x, DType::float64)).values();
    const std::vector<double> expected = naive(values, positions, 100), actual = got.to_vector();
    ASSERT_EQ(actual.size(), expected.size());
    for (size_t i = 0; i < actual.size(); ++i) EXPECT_NEAR(actual[i], expected[i], 1e-12);
  }
}

TEST(Rotary, ADenseBatchStartsWhereAsked) {
  const Rotary rotary(4);
  const Tensor x = random_tensor({2, 3, 1, 4});
  const std::vector<double> actual = rotate(x, rotary.angles(x, DType::float64, 5)).to_vector();
  const std::vector<double> expected = naive(view(x, {6, 1, 4}), {5, 6, 7, 5, 6, 7}, 10'000);
  for (size_t i = 0; i < actual.size(); ++i) EXPECT_NEAR(actual[i], expected[i], 1e-12);
}

TEST(Rotary, ComponentsStartWhereAsked) {
  const Rotary rotary(4);
  const NestedTensor x = NestedTensor::from_lengths(random_tensor({4, 1, 4}), {1, 0, 3});
  const std::vector<int64_t> first{7, 2, 300};
  const std::vector<double> actual = rotate(x, rotary.angles(x, DType::float64, first)).values().to_vector();
  const std::vector<double> expected = naive(x.values(), {7, 300, 301, 302}, 10'000);
  for (size_t i = 0; i < actual.size(); ++i) EXPECT_NEAR(actual[i], expected[i], 1e-12);
}

TEST(Rotary, AnglesAreComputedOnceAndGrow) {
  const Rotary rotary(4);
  const Tensor one = random_tensor({1, 1, 1, 4});
  const RotaryAngles first = rotary.angles(one, DType::float64, 3);
  const Rotary copy = rotary;
  EXPECT_EQ(address(copy.angles(one, DType::float64, 200).cosines), address(first.cosines));
  EXPECT_EQ(rotary.angles(one, DType::float32, 3).cosines.dtype(), DType::float32);
  const RotaryAngles late = rotary.angles(one, DType::float64, 5000);
  EXPECT_EQ(late.cosines.sizes(), (Dims{5001, 2}));
  EXPECT_EQ(late.sines[5000][0].item(), std::sin(5000.0));
  EXPECT_EQ(first.cosines[3][0].item(), std::cos(3.0));
}

TEST(Rotary, ProductsDependOnDistanceAlone) {
  const Rotary rotary(8);
  const Tensor q = random_tensor({1, 1, 1, 8}), k = random_tensor({1, 1, 1, 8});
  const auto product = [&](int64_t at, int64_t other) {
    return sum(mul(rotate(q, rotary.angles(q, DType::float64, at)), rotate(k, rotary.angles(k, DType::float64, other)))).item();
  };
  EXPECT_NEAR(product(9, 4), product(25, 20), 1e-12);
  EXPECT_GT(std::abs(product(9, 4) - product(9, 5)), 1e-9);
}

TEST(Rotary, TheGradientTurnsBack) {
  const Rotary rotary(4);
  const Tensor x = random_tensor({1, 5, 2, 4});
  x.requires_grad_();
  const RotaryAngles angles = rotary.angles(x, DType::float64, 3);
  const Tensor y = rotate(x, angles);
  // A rotation is orthogonal: the gradient of half the squared norm is x itself.
  sum(square(y)).backward();
  expect_close(x.grad(), mul(x.detach(), 2), 1e-12, 1e-12);
}

TEST(Rotary, WrongSizesAreErrors) {
  expect_error([] { Rotary(5); }, "the head size is 5");
  const Rotary rotary(4);
  const Tensor x = random_tensor({1, 5, 2, 4});
  expect_error([&] { rotate(random_tensor({1, 5, 2, 6}), rotary.angles(x, DType::float64)); }, "(expected [positions, D / 2])");
  const NestedTensor ragged = NestedTensor::from_lengths(random_tensor({4, 1, 4}), {1, 3});
  expect_error([&] { rotary.angles(ragged, DType::float64, std::vector<int64_t>{1}); }, "1 first positions for 2 components");
  expect_error(
      [&] {
        rotate(random_tensor({1, 4, 2, 4}), rotary.angles(x, DType::float64));
      },
      "(expected int64, one for each row)");
}

}  // namespace
}  // namespace deckle::nn
