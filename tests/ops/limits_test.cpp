// Derivatives of higher order where an operand is infinite or far out: their limits, in both modes.

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <vector>

#include "deckle/core/from_data.h"
#include "deckle/functional/transforms.h"
#include "deckle/ops/generated/factory.h"
#include "deckle/ops/generated/loss.h"
#include "deckle/ops/generated/pointwise.h"
#include "deckle/ops/generated/reduce.h"
#include "tests/support/expect.h"

namespace deckle {
namespace {

using Unary = std::function<Tensor(const Tensor&)>;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

Unary reverse(const Unary& f) {
  return [f](const Tensor& x) {
    return grad([&](const std::vector<Tensor>& at) { return sum(f(at[0])); }, std::vector<Tensor>{x})[0];
  };
}

Unary forward(const Unary& f) {
  return [f](const Tensor& x) {
    return jvp([&](const std::vector<Tensor>& at) { return f(at[0]); }, std::vector<Tensor>{x}, {ones_like(x)}).second;
  };
}

/// The derivatives of f at x from the first order on: of orders up to 4 in reverse, or in forward mode over a reverse one.
void expect_derivatives(const char* name, const Unary& f, double x, const std::vector<double>& expected) {
  for (const DType dtype : {DType::float64, DType::float32}) {
    Unary derivative = f;
    for (size_t order = 1; order <= expected.size(); ++order) {
      const Tensor at = full({3}, x, dtype);
      const double ahead = forward(derivative)(at).to_vector()[1];
      derivative = reverse(derivative);
      const double back = derivative(at).to_vector()[1];
      EXPECT_EQ(back, expected[order - 1]) << name << " of order " << order << " at " << x << ", reverse";
      EXPECT_EQ(ahead, expected[order - 1]) << name << " of order " << order << " at " << x << ", forward over reverse";
    }
  }
}

TEST(Limits, OfDerivativesAtInfinity) {
  for (const double sign : {-1.0, 1.0}) {
    const double x = sign * kInfinity, slope = sign > 0 ? 1 : 0;
    expect_derivatives("atan", [](const Tensor& t) { return atan(t); }, x, {0, 0, 0, 0});
    expect_derivatives("erf", [](const Tensor& t) { return erf(t); }, x, {0, 0, 0});
    expect_derivatives("gelu", [](const Tensor& t) { return gelu(t); }, x, {slope, 0, 0});
    expect_derivatives("silu", [](const Tensor& t) { return silu(t); }, x, {slope, 0, 0});
    expect_derivatives("tanh", [](const Tensor& t) { return tanh(t); }, x, {0, 0, 0});
    expect_derivatives("elu", [](const Tensor& t) { return elu(t); }, x, {slope, 0, 0, 0});
  }
}

TEST(Limits, OfDerivativesFarOut) {
  for (const double x : {90.0, 800.0, 1e30}) {
    expect_derivatives("elu", [](const Tensor& t) { return elu(t); }, x, {1, 0, 0, 0});
  }
}

/// x log(x), as of entropies: 1 / x overflows in float32.
TEST(Limits, OfLogarithmsOfTinyNumbers) {
  const double tiny = static_cast<double>(1e-40F);
  const auto slope = [&](auto f) { return reverse([f](const Tensor& t) { return t * f(t); })(full({3}, tiny, DType::float32)); };
  EXPECT_NEAR(slope([](const Tensor& t) { return log(t); }).to_vector()[0], std::log(tiny) + 1, 1e-4);
  EXPECT_NEAR(slope([](const Tensor& t) { return log2(t); }).to_vector()[0], std::log2(tiny) + 1 / std::log(2.0), 1e-4);
  EXPECT_NEAR(slope([](const Tensor& t) { return log10(t); }).to_vector()[0], std::log10(tiny) + 1 / std::log(10.0), 1e-4);
}

/// Of a number with a reciprocal beyond float32: what arrives is tiny, or 0.
TEST(Limits, OfReciprocalRootsOfTinyNumbers) {
  const auto tiny = static_cast<double>(1e-39F), arriving = static_cast<double>(1e-30F);
  const Tensor weight = tensor(std::vector<float>{1e-30F, 0}), x = full({2}, tiny, DType::float32);
  for (const Tensor& slope : {reverse([&](const Tensor& t) { return weight * rsqrt(t); })(x),
                              jvp([](const Tensor& t) { return rsqrt(t); }, x, weight).second}) {
    EXPECT_NEAR(slope.to_vector()[0] / (-0.5 * arriving * std::pow(tiny, -1.5)), 1, 1e-5);
    EXPECT_EQ(slope.to_vector()[1], 0);
  }
}

TEST(Limits, OfADivergence) {
  const auto error = [](double input) {
    return [input](const Tensor& target) { return divergence_error(full_like(target, input), target); };
  };
  expect_derivatives("divergence_error", error(-1), kInfinity, {kInfinity, 0, 0});
  expect_derivatives("divergence_error", error(-1), 0, {0, 0, 0, 0});
  const Tensor tiny = full({1}, 1e-44, DType::float32);
  EXPECT_EQ(reverse(reverse(error(-1)))(tiny).to_vector()[0], kInfinity) << "1e44, which float32 has not";
}

}  // namespace
}  // namespace deckle
