// Numbers at which formulas change or lose their digits: each against its value in exact arithmetic.

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "deckle/functional/transforms.h"
#include "deckle/ops/generated/loss.h"
#include "deckle/ops/generated/norm.h"
#include "deckle/ops/generated/pointwise.h"
#include "deckle/ops/generated/reduce.h"
#include "tests/support/expect.h"
#include "tests/support/random.h"

namespace deckle {
namespace {

using testing::tensor_of;
using Tensors = std::vector<Tensor>;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// The Hessian of f at `inputs` times `directions`, in every mixture of modes.
std::vector<Tensors> hessian_products(const std::function<Tensor(const Tensors&)>& f, const Tensors& inputs,
                                      const Tensors& directions) {
  const auto gradient = [&](const Tensors& x) { return grad([&](const Tensors& y) { return sum(f(y)); }, x); };
  const auto slope = [&](const Tensors& x) { return jvp([&](const Tensors& y) { return sum(f(y)); }, x, directions).second; };
  const auto along = [&](const Tensors& x) {
    const Tensors g = gradient(x);
    return sum(g[0] * directions[0]) + sum(g[1] * directions[1]);
  };
  return {jvp(gradient, inputs, directions).second, grad(along, inputs), grad(slope, inputs)};
}

TEST(Pow, HasOneHessianInEveryMode) {
  const auto power = [](const Tensors& x) { return pow(x[0], x[1]); };
  const auto expect = [&](double x, double y, double expected_x, double expected_y) {
    for (const Tensors& product : hessian_products(power, {tensor_of({x}), tensor_of({y})}, {tensor_of({1}), tensor_of({1})})) {
      EXPECT_NEAR(product[0].item(), expected_x, 1e-12) << "pow(" << x << ", " << y << ") in x";
      EXPECT_NEAR(product[1].item(), expected_y, 1e-12) << "pow(" << x << ", " << y << ") in y";
    }
  };
  const double l = std::log(2.0);
  expect(2, 0, 0.5, 0.5 + l * l);  // f_xx = 0, f_xy = 1 / x, f_yy = log(x)^2
  expect(2, 1, 0 + 1 + l, 1 + l + 2 * l * l);
  expect(2, 2, 2 + (2 + 4 * l), (2 + 4 * l) + 4 * l * l);
  expect(1, 0, 1, 1);
  expect(0, 2, 2, 0);
  expect(0, 3, 0, 0);
  expect(0, 0, 0, 0);
  expect(0, 1, 1, 1);  // the mixed derivative does not exist; all modes give the same
}

TEST(Pow, HasSlopesOfNearlyZeroBases) {
  const Tensor x = tensor_of({1e-40, 3e-39, 0}, DType::float32);
  for (const double y : {0.0, 1.0, 2.0}) {
    const std::vector<double> slope = grad([&](const Tensor& a) { return sum(pow(a, y)); }, x).to_vector();
    for (size_t i = 0; i < 3; ++i) EXPECT_NEAR(slope[i], y == 1 ? 1 : 0, 1e-30) << "exponent " << y;
  }
}

TEST(LogisticLoss, KeepsItsDigitsWhereItIsCertain) {
  const auto loss = [](double x, double t, DType dtype) {
    return bce_with_logits_loss(tensor_of({x}, dtype), tensor_of({t}, dtype)).item();
  };
  const auto slope = [](double x, double t) {
    const Tensor target = tensor_of({t}, DType::float32);
    return grad([&](const Tensor& a) { return bce_with_logits_loss(a, target); }, tensor_of({x}, DType::float32)).item();
  };
  for (const double x : {0.5, 3.0, 12.0, 16.0, 20.0, 80.0}) {
    const double expected = std::log1p(std::exp(-x)), steep = 1 / (1 + std::exp(x));
    EXPECT_NEAR(loss(x, 1, DType::float32) / expected, 1, 1e-6) << x;
    EXPECT_NEAR(loss(-x, 0, DType::float32) / expected, 1, 1e-6) << x;
    EXPECT_NEAR(loss(x, 1, DType::float64) / expected, 1, 1e-14) << x;
    EXPECT_NEAR(slope(x, 1) / -steep, 1, 1e-6) << x;
    EXPECT_NEAR(slope(-x, 0) / steep, 1, 1e-6) << x;
  }
}

TEST(LogisticLoss, OfInfiniteLogits) {
  const Tensor x = tensor_of({kInfinity, kInfinity, kInfinity, -kInfinity, -kInfinity, -kInfinity});
  const Tensor t = tensor_of({0, 0.5, 1, 0, 0.5, 1});
  EXPECT_EQ(bce_with_logits_loss(x, t, "none").to_vector(),
            (std::vector<double>{kInfinity, kInfinity, 0, 0, kInfinity, kInfinity}));
  const Tensor slope = grad([&](const Tensor& a) { return bce_with_logits_loss(a, t, "sum"); }, x);
  EXPECT_EQ(slope.to_vector(), (std::vector<double>{1, 0.5, 0, 0, -0.5, -1}));
}

TEST(Gelu, OfTheLargestNumbersIsTheNumber) {
  const Tensor x = tensor_of({1.8e38, 3.4e38, -1.8e38, -3.4e38}, DType::float32);
  const Tensor expected = tensor_of({1.8e38, 3.4e38, 0, 0}, DType::float32);
  testing::expect_equal(gelu(x), expected);
  testing::expect_equal(gelu_tanh(x), expected);
}

TEST(Gelu, KeepsItsDigitsInTheTail) {
  for (const double x : {-3.0, -5.0, -8.0, -12.0}) {
    const double expected = x * 0.5 * std::erfc(-x / std::sqrt(2.0));
    EXPECT_NEAR(gelu(tensor_of({x}, DType::float32)).item() / expected, 1, 1e-6) << x;
    const double u = 0.7978845608028654 * (x + 0.044715 * x * x * x), by_tanh = x / (1 + std::exp(-2 * u));
    if (by_tanh < -1e-35) {
      EXPECT_NEAR(gelu_tanh(tensor_of({x}, DType::float32)).item() / by_tanh, 1, 2e-5) << x;  // exp of a rounded -2 u
    }
  }
}

TEST(Norms, OfTheLargestNumbers) {
  for (const auto& [dtype, large] : {std::pair(DType::float32, 3e38), std::pair(DType::float64, 1.5e308)}) {
    const double tolerance = dtype == DType::float32 ? 1e-6 : 1e-14;
    const Tensor x = tensor_of({large, large, -large, 1}, dtype).reshape({1, 4}), y = tensor_of({1, 1, -1, 0}).reshape({1, 4});
    testing::expect_close(layer_norm(x).to(DType::float64), layer_norm(y, {}, {}, 0), tolerance, tolerance);
    testing::expect_close(rms_norm(x).to(DType::float64), rms_norm(y, {}, 0), tolerance, tolerance);
    const Tensor weight = tensor_of({0.5, -1, 2, 3});
    const auto slope = [&](const Tensor& at, double eps, bool centred) {
      const Tensor w = weight.to(at.dtype());
      return grad([&](const Tensor& a) { return sum(w * (centred ? layer_norm(a, {}, {}, eps) : rms_norm(a, {}, eps))); }, at)
          .to(DType::float64);
    };
    for (const bool centred : {true, false})
      testing::expect_close(slope(x, 1e-5, centred) * large, slope(y, 0, centred), 1e-5, 1e-5);
  }
}

}  // namespace
}  // namespace deckle
