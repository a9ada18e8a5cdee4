// Numbers at which formulas change or lose their digits: each against its value in exact arithmetic.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <tuple>

#include "deckle/autograd/backward.h"
#include "deckle/core/from_data.h"
#include "deckle/functional/transforms.h"
#include "deckle/nested/generated/linalg.h"
#include "deckle/nested/generated/norm.h"
#include "deckle/ops/generated/factory.h"
#include "deckle/ops/generated/index.h"
#include "deckle/ops/generated/linalg.h"
#include "deckle/ops/generated/loss.h"
#include "deckle/ops/generated/norm.h"
#include "deckle/ops/generated/pointwise.h"
#include "deckle/ops/generated/random.h"
#include "deckle/ops/generated/reduce.h"
#include "deckle/ops/generated/shape.h"
#include "deckle/ops/generated/sort.h"
#include "deckle/ops/indexing.h"
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

TEST(Numbers, BeyondAnIntegerDtypeAreRefused) {
  const int64_t beyond = int64_t{1} << 40, low = -beyond, most = std::numeric_limits<int32_t>::max();
  const Tensor x = tensor_of({1, 2}).to(DType::int32), mask = tensor_of({1, 0}).to(DType::bool_);
  const std::string range = "(expected -2147483648 to 2147483647)";
  const std::pair<std::function<void()>, std::string> calls[] = {
      {[&] { x + beyond; }, "add: 1099511627776 has no int32 "},
      {[&] { beyond - x; }, "sub: 1099511627776 has no int32 "},
      {[&] { x* low; }, "mul: -1099511627776 has no int32 "},
      {[&] { clamp(x, 0, beyond); }, "clamp: 1099511627776 has no int32 "},
      {[&] { clamp_min(x, most + 1); }, "clamp_min: 2147483648 has no int32 "},
      {[&] { where(mask, x, beyond); }, "where: 1099511627776 has no int32 "},
      {[&] { masked_fill(x, mask, beyond); }, "masked_fill: 1099511627776 has no int32 "},
      {[&] { x.fill_(beyond); }, "fill_: 1099511627776 has no int32 "},
      {[&] { x += beyond; }, "add_: 1099511627776 has no int32 "},
      {[&] { full({2}, beyond, DType::int32); }, "full: 1099511627776 has no int32 "},
      {[&] { full_like(x, 3e9); }, "full_like: 3000000000 has no int32 "},
      {[&] { x.fill_(std::nan("")); }, "fill_: nan has no int32 "},
      {[&] { arange(most, most + 3, 2, DType::int32); }, "arange: 2147483649 has no int32 "},
  };
  for (const auto& [call, message] : calls) testing::expect_error(call, message + range);
  const Tensor bytes = tensor_of({1, 2}).to(DType::uint8);
  const std::pair<std::function<void()>, std::string> fills[] = {
      {[&] { full({2}, -1, DType::uint8); }, "full: -1 has no uint8 "},
      {[&] { full({2}, 256, DType::uint8); }, "full: 256 has no uint8 "},
      {[&] { full({2}, 256.0, DType::uint8); }, "full: 256 has no uint8 "},
      {[&] { full_like(bytes, -1); }, "full_like: -1 has no uint8 "},
      {[&] { bytes.fill_(256); }, "fill_: 256 has no uint8 "},
      {[&] { masked_fill(bytes, mask, -1); }, "masked_fill: -1 has no uint8 "},
      {[&] { masked_fill_(bytes, mask, 256); }, "masked_fill_: 256 has no uint8 "},
      {[&] { arange(254, 257, 1, DType::uint8); }, "arange: 256 has no uint8 "},
  };
  for (const auto& [call, message] : fills) testing::expect_error(call, message + "(expected 0 to 255)");
  EXPECT_EQ(full({1}, 255, DType::uint8).to_vector(), (std::vector<double>{255}));
  EXPECT_EQ(arange(254, 256, 1, DType::uint8).to_vector(), (std::vector<double>{254, 255}));
  EXPECT_EQ((bytes + -1).to_vector(), (std::vector<double>{0, 1}));  // arithmetic is modulo 256
  EXPECT_EQ((bytes - 2).to_vector(), (std::vector<double>{255, 0}));
  EXPECT_EQ(clamp(bytes, -1, 256).to_vector(), (std::vector<double>{1, 2}));
  const Tensor wide = tensor_of({1, 2}).to(DType::int64);
  testing::expect_error([&] { wide.fill_(std::nan("")); }, "fill_: nan has no int64 (expected -9223372036854775808 to ");
  testing::expect_error([&] { wide.fill_(0x1p63); }, "fill_: 9.223372036854776e+18 has no int64");
  testing::expect_error([&] { wide.index_put_({mask}, tensor_of({std::nan("")})); },
                        "index_put_: values is float64 and cannot be written into int64");
  EXPECT_EQ(x.to_vector(), (std::vector<double>{1, 2}));
  EXPECT_EQ((x + (most - 2)).to_vector(), (std::vector<double>{most - 1.0, 1.0 * most}));
  EXPECT_EQ((x < beyond).to_vector(), (std::vector<double>{1, 1}));  // comparisons take any integer
  EXPECT_EQ((x == beyond + 1).to_vector(), (std::vector<double>{0, 0}));
  EXPECT_EQ((wide + beyond).to_vector(), (std::vector<double>{1.0 + 0x1p40, 2 + 0x1p40}));
  testing::expect_error([&] { x.fill_(2.75); }, "fill_: value is 2.75, for elements of int32 (expected an integer)");
  testing::expect_error([&] { mask.fill_(0.5); }, "fill_: value is 0.5, for elements of bool (expected an integer)");
  x.copy_(tensor(2.75));
  EXPECT_EQ(x.to_vector(), (std::vector<double>{2, 2}));
}

TEST(MaskedFill, OfIntegersKeepsTheDtypeOfSelf) {
  const Tensor mask = tensor_of({1, 0}).to(DType::bool_);
  for (const DType dtype : {DType::bool_, DType::uint8, DType::int32, DType::int64, DType::float16, DType::float64}) {
    SCOPED_TRACE(name(dtype));
    const Tensor x = tensor_of({1, 1}).to(dtype);
    const Tensor zeroed = masked_fill(x, mask, 0), set = masked_fill(x, logical_not(mask), true);
    EXPECT_EQ(zeroed.dtype(), dtype);
    EXPECT_EQ(zeroed.to_vector(), (std::vector<double>{0, 1}));
    EXPECT_EQ(set.dtype(), dtype);
    EXPECT_EQ(set.to_vector(), (std::vector<double>{1, 1}));
    x.masked_fill_(mask, 0);
    EXPECT_EQ(x.to_vector(), (std::vector<double>{0, 1}));
  }
  const Tensor flags = tensor_of({0, 0}).to(DType::bool_);
  EXPECT_EQ(masked_fill(flags, mask, 256).to_vector(), (std::vector<double>{1, 0}));  // not its last byte
  EXPECT_EQ(masked_fill(flags, mask, 0.5).dtype(), DType::float32);                   // which neither bool nor integers hold
  EXPECT_EQ(masked_fill(tensor_of({7, 8}).to(DType::int64), mask, 0.5).to_vector(), (std::vector<double>{0.5, 8}));
  EXPECT_EQ(where(mask, flags, 0).dtype(), DType::int64);  // a tensor of both
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

/// The third derivative of f, in mixtures of modes: reverse thrice, forward thrice, forward over reverse twice.
std::vector<double> third_derivatives(const std::function<Tensor(const Tensor&)>& f, double at) {
  const auto reverse = [](const std::function<Tensor(const Tensor&)>& g) {
    return [g](const Tensor& x) { return grad([&](const Tensor& y) { return sum(g(y)); }, x); };
  };
  const auto forward = [](const std::function<Tensor(const Tensor&)>& g) {
    return [g](const Tensor& x) { return jvp(g, x, ones_like(x)).second; };
  };
  const Tensor x = tensor_of({at});
  return {reverse(reverse(reverse(f)))(x).item(), forward(forward(forward(f)))(x).item(), forward(reverse(reverse(f)))(x).item(),
          reverse(forward(forward(f)))(x).item()};
}

TEST(Pow, HasThirdDerivativesWhereTheMathematicsHasThem) {
  const auto expect = [](double got, double expected, const std::string& of) {
    if (std::isinf(expected))
      EXPECT_EQ(got, expected) << of;
    else
      EXPECT_NEAR(got, expected, 1e-12 * std::max(1.0, std::abs(expected))) << of;
  };
  struct Point {
    double x, y, expected;
  };
  for (const auto& [x, y, expected] : std::vector<Point>{{0, 0, 0},
                                                         {0, 1, 0},
                                                         {0, 2, 0},
                                                         {0, 3, 6},
                                                         {0, 4, 0},
                                                         {0, 2.5, kInfinity},
                                                         {-2, 1, 0},
                                                         {-2, 2, 0},
                                                         {-2, 3, 6},
                                                         {-2, -1, -6.0 / 16},
                                                         {kInfinity, 2, 0},
                                                         {kInfinity, 3, 6},
                                                         {kInfinity, -1, 0},
                                                         {2, 0.5, 0.375 / std::pow(2, 2.5)}}) {
    const std::string of = fmt::format("pow({}, {}) in x", x, y);
    for (const double got : third_derivatives([y = y](const Tensor& a) { return pow(a, y); }, x)) expect(got, expected, of);
    for (const double got : third_derivatives([y = y](const Tensor& a) { return pow(a, tensor_of({y})); }, x))
      expect(got, expected, of);
  }
  const double l = std::log(2.0);
  for (const auto& [x, y, expected] :
       std::vector<Point>{{0, 2, 0}, {0, 1, 0}, {0, 0, 0}, {kInfinity, -1, 0}, {2, 1, 2 * l * l * l}, {1, 7, 0}}) {
    const std::string of = fmt::format("pow({}, {}) in y", x, y);
    for (const double got : third_derivatives([x = x](const Tensor& a) { return pow(x, a); }, y)) expect(got, expected, of);
    for (const double got : third_derivatives([x = x](const Tensor& a) { return pow(tensor_of({x}), a); }, y))
      expect(got, expected, of);
  }
}

TEST(Pow, HasMixedThirdDerivativesAtItsLimits) {
  struct Point {
    double x, y, xxy, xyy;
  };
  const double l = std::log(2.0);
  for (const auto& [x, y, xxy, xyy] : std::vector<Point>{{0, 3, 0, 0},
                                                         {0, 2.5, 0, 0},
                                                         {0, 1.5, -kInfinity, 0},
                                                         {0, 1, kInfinity, 0},
                                                         {0, 0.5, kInfinity, kInfinity},
                                                         {kInfinity, 0.5, 0, 0},
                                                         {kInfinity, 1.5, 0, kInfinity},
                                                         {2, 3, 2 * (6 * l + 5), 4 * (3 * l * l + 2 * l)}}) {
    const Tensor a = tensor_of({x}).requires_grad_(), b = tensor_of({y}).requires_grad_();
    const auto slope = [](const Tensor& of, const Tensor& in) { return grad(sum(of), {in}, {.create_graph = true})[0]; };
    const Tensor power = pow(a, b), slope_x = slope(power, a), slope_y = slope(power, b);
    const auto expect = [&, x = x, y = y](const Tensor& got, double expected) {
      if (std::isinf(expected))
        EXPECT_EQ(got.item(), expected) << "pow(" << x << ", " << y << ")";
      else
        EXPECT_NEAR(got.item(), expected, 1e-12 * std::max(1.0, std::abs(expected))) << "pow(" << x << ", " << y << ")";
    };
    expect(slope(slope(slope_x, a), b), xxy);
    expect(slope(slope(slope_x, b), a), xxy);
    expect(slope(slope(slope_y, a), a), xxy);
    expect(slope(slope(slope_x, b), b), xyy);
    expect(slope(slope(slope_y, a), b), xyy);
    expect(slope(slope(slope_y, b), a), xyy);
  }
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
    return binary_cross_entropy_with_logits(tensor_of({x}, dtype), tensor_of({t}, dtype)).item();
  };
  const auto slope = [](double x, double t) {
    const Tensor target = tensor_of({t}, DType::float32);
    return grad([&](const Tensor& a) { return binary_cross_entropy_with_logits(a, target); }, tensor_of({x}, DType::float32))
        .item();
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
  EXPECT_EQ(binary_cross_entropy_with_logits(x, t, {.reduction = Reduction::none}).to_vector(),
            (std::vector<double>{kInfinity, kInfinity, 0, 0, kInfinity, kInfinity}));
  const Tensor slope =
      grad([&](const Tensor& a) { return binary_cross_entropy_with_logits(a, t, {.reduction = Reduction::sum}); }, x);
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

/// 1 / spread^3 is no float there, and 1 / spread^5 is none where curvatures are taken.
TEST(Norms, ByOpsOfLargeAndSmallNumbersHaveTheirSlopes) {
  const Tensor y = tensor_of({1, 3, -2, 0.5}), weight = tensor_of({0.5, -1, 2, 3});
  const auto groups = [](const Tensor& x) { return flatten(group_norm(x.view({1, 4, 1}), 1, {}, {}, 0.0)); };
  const auto channels = [](const Tensor& x) {
    const DType other = x.dtype() == DType::float64 ? DType::float32 : DType::float64;  // what no kernel takes
    return flatten(batch_norm(x.view({4, 1}), ones({1}, other), {}, {}, {}, 0.0));
  };
  const auto check = [&](const auto& norm, const char* what) {
    const auto slope = [&](const Tensor& at) {
      return grad([&](const Tensor& a) { return sum(weight.to(a.dtype()) * norm(a)); }, at);
    };
    for (const auto& [dtype, size, middle] :
         {std::tuple(DType::float32, 0x1p60, 0x1p40), std::tuple(DType::float32, 0x1p-60, 0x1p-30),
          std::tuple(DType::float64, 0x1p500, 0x1p330), std::tuple(DType::float64, 0x1p-500, 0x1p-250)}) {
      SCOPED_TRACE(::testing::Message() << what << " of " << size);
      const double tolerance = dtype == DType::float32 ? 1e-5 : 1e-13;
      testing::expect_close(slope((y * size).to(dtype)).to(DType::float64) * size, slope(y), tolerance, tolerance);
      const Tensor bend = jvp(slope, (y * middle).to(dtype), y.to(dtype)).second.to(DType::float64) * middle * middle;
      testing::expect_close(bend, jvp(slope, y, y).second, 10 * tolerance, 10 * tolerance);
    }
  };
  check(groups, "group_norm");
  check(channels, "batch_norm");
}

TEST(Norms, OfTheSmallestNumbersWithoutAnEps) {
  struct Small {
    DType dtype;
    double size, tolerance;
    bool slopes;  // they are finite
  };
  for (const Small& small : {Small{DType::float32, 0x1p-83, 1e-6, true}, Small{DType::float32, 0x1p-130, 1e-6, false},
                             Small{DType::float64, 0x1p-900, 1e-14, true}, Small{DType::float64, 0x1p-1030, 1e-14, false}}) {
    const Tensor y = tensor_of({1, 2, -1, 0.5}).reshape({1, 4}), x = (y * small.size).to(small.dtype);
    const Tensor weight = tensor_of({0.5, -1, 2, 3});
    for (const bool centred : {true, false}) {
      const auto norm = [&](const Tensor& a) { return centred ? layer_norm(a, {}, {}, 0) : rms_norm(a, {}, 0); };
      const auto slope = [&](const Tensor& at) {
        return grad([&](const Tensor& a) { return sum(weight.to(a.dtype()) * norm(a)); }, at).to(DType::float64);
      };
      testing::expect_close(norm(x).to(DType::float64), norm(y), small.tolerance, small.tolerance);
      if (small.slopes) testing::expect_close(slope(x) * small.size, slope(y), small.tolerance, small.tolerance);
    }
  }
}

TEST(Norms, RefuseAnEpsThatIsNegativeOrNoNumber) {
  const Tensor x = testing::random_tensor({4, 6}), none;
  for (const double eps : {-1e-5, std::nan("")}) {
    const std::string message = fmt::format(": eps is {} (expected 0 or more)", eps);
    testing::expect_error([&] { layer_norm(x, none, none, eps); }, "layer_norm" + message);
    testing::expect_error([&] { rms_norm(x, none, eps); }, "rms_norm" + message);
    testing::expect_error([&] { group_norm(x, 2, none, none, eps); }, "group_norm" + message);
    testing::expect_error([&] { batch_norm(x, none, none, none, none, eps); }, "batch_norm" + message);
  }
}

TEST(BatchNorm, OfHalvesComputesItsStatisticsInFloatWhateverTheDtypeOfItsWeights) {
  const Tensor noise = randn({256, 8}), gradient = randn({256, 8}), ones_of_channels = ones({8});
  for (const auto& [dtype, mean, deviation] :
       {std::tuple(DType::float16, 10.0, 0.05), std::tuple(DType::float16, 0.0, 0.01), std::tuple(DType::bfloat16, 8.0, 1.0)}) {
    const Tensor x = to(noise * deviation + mean, dtype).requires_grad_(), wide = to(x.detach(), DType::float64).requires_grad_();
    const Tensor y = batch_norm(x, ones_of_channels), expected = batch_norm(wide, to(ones_of_channels, DType::float64));
    EXPECT_EQ(y.dtype(), dtype);
    testing::expect_close(to(y, DType::float64), expected.detach(), 0.02);
    sum(y * to(gradient, dtype)).backward();
    sum(expected * to(gradient, DType::float64)).backward();
    const double scale = amax(abs(wide.grad())).item<double>();
    testing::expect_close(to(x.grad(), DType::float64) / scale, wide.grad() / scale, 0.03);
  }
}

TEST(BatchNorm, OfHalvesGivenTheirStatisticsComputesInFloat) {
  const Tensor x = tensor_of({-1, 0, 1}, DType::float16).view({1, 3}), zero = zeros({3}, DType::float16);
  // eps is below the smallest half.
  const std::vector<double> got = batch_norm(x, {}, {}, zero, zero, 1e-8).to_vector();
  EXPECT_EQ(got, (std::vector<double>{-10000, 0, 10000}));
}

TEST(Normalize, OfHalvesComputesInFloat) {
  for (const DType dtype : {DType::float16, DType::bfloat16}) {
    SCOPED_TRACE(name(dtype));
    const Tensor x = cat({zeros({1, 4}, dtype), full({1, 4}, 60000, dtype), full({1, 4}, 0x1p-20, dtype)}, 0);  // eps, a norm
    const std::vector<double> want{0, 0, 0, 0, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5};                         // it has not
    EXPECT_EQ(normalize(x, 1).to_vector(), want);
    EXPECT_EQ(normalize(NestedTensor::from_lengths(x, {1, 2}), 2).values().to_vector(), want);
    const Tensor gradient = grad([](const Tensor& y) { return sum(normalize(y, 1)); }, slice(x, 0, 1, 2));
    testing::expect_close(gradient.to(DType::float64), zeros({1, 4}, DType::float64));
  }
  testing::expect_error([] { normalize(arange(3, DType::int64), 0); }, "normalize: self is int64 (expected a floating dtype)");
}

TEST(CosineSimilarity, DoesNotDependOnTheLengths) {
  const Tensor a = testing::random_tensor({5, 4}), b = testing::random_tensor({5, 4});
  const Tensor want = cosine_similarity(a, b, 1);
  for (const double size : {1e200, 1e-5}) {
    testing::expect_close(cosine_similarity(a * size, b * size, 1), want);
    const NestedTensor x = NestedTensor::from_lengths(a * size, {2, 3}), y = NestedTensor::from_lengths(b * size, {2, 3});
    testing::expect_close(cosine_similarity(x, y, 2).values(), want);
    const auto at = [&](const Tensor& of) { return sum(cosine_similarity(of, b * size, 1)); };
    testing::expect_close(grad(at, a * size) * size, grad([&](const Tensor& of) { return sum(cosine_similarity(of, b, 1)); }, a));
  }
  const Tensor whole = arange(3, DType::int64);
  testing::expect_error([&] { cosine_similarity(whole, whole, 0); },
                        "cosine_similarity: x1 is int64 (expected a floating dtype)");
}

TEST(Pointwise, InfinitiesAndNaNAreToldApartInEveryDType) {
  const double inf = std::numeric_limits<double>::infinity();
  const Tensor x = tensor_of({1, inf, -inf, std::nan(""), 0, -3});
  for (const DType dtype : {DType::float32, DType::float64, DType::bfloat16, DType::float16}) {
    const Tensor y = x.to(dtype);
    EXPECT_EQ(isnan(y).to_vector(), (std::vector<double>{0, 0, 0, 1, 0, 0})) << name(dtype);
    EXPECT_EQ(isinf(y).to_vector(), (std::vector<double>{0, 1, 1, 0, 0, 0})) << name(dtype);
    EXPECT_EQ(isfinite(y).to_vector(), (std::vector<double>{1, 0, 0, 0, 1, 1})) << name(dtype);
  }
  const Tensor n = tensor_of({std::ldexp(-1, 63), std::ldexp(1, 62), 0}).to(DType::int64);
  EXPECT_EQ(isinf(n).to_vector(), (std::vector<double>{0, 0, 0}));
  EXPECT_EQ(isnan(n).to_vector(), (std::vector<double>{0, 0, 0}));
  EXPECT_EQ(isfinite(n).to_vector(), (std::vector<double>{1, 1, 1}));
}

/// The largest number of a floating dtype.
double most_of(DType dtype) {
  if (dtype == DType::float16) return 65504;
  if (dtype == DType::bfloat16) return 0x1.fep127;
  return dtype == DType::float32 ? std::numeric_limits<float>::max() : std::numeric_limits<double>::max();
}

const DType kFloating[] = {DType::float16, DType::bfloat16, DType::float32, DType::float64};

/// lerp of one element among ordinary ones, which stay what they are, with the weight as a tensor and as a number, and in place.
double lerp_of(DType dtype, double self, double end, double weight) {
  constexpr int64_t kCount = 21, kPlace = 13;
  const auto with = [&](double others, double value) {
    std::vector<double> values(kCount, others);
    values[kPlace] = value;
    return tensor(values).to(dtype);
  };
  const Tensor x = with(1, self), y = with(3, end), w = with(weight, weight), once = x.clone();
  std::vector<double> found = lerp(x, y, with(0.25, weight)).to_vector();
  const double result = found[kPlace];
  found[kPlace] = 1.5;
  EXPECT_EQ(found, std::vector<double>(kCount, 1.5)) << name(dtype);
  once.lerp_(y, w);
  for (const double again : {lerp(x, y, weight).to_vector()[kPlace], once.to_vector()[kPlace]})
    EXPECT_TRUE(again == result || (std::isnan(again) && std::isnan(result)))
        << name(dtype) << ": " << again << " and " << result << " at " << self << ", " << end << ", " << weight;
  return result;
}

TEST(Lerp, TakesEndsWhoseDifferenceIsNoFiniteNumber) {
  const double inf = kInfinity, nan = std::nan("");
  for (const DType dtype : kFloating) {
    const double most = most_of(dtype);
    const std::tuple<double, double, double, double> points[] = {{most, -most, 0, most},
                                                                 {most, -most, 1, -most},
                                                                 {most, -most, 0.5, 0},
                                                                 {-most, most, 0.25, -most / 2},
                                                                 {most, -most, 0.75, -most / 2},
                                                                 {most, -most, -0.5, inf},
                                                                 {most, -most, 2, -inf},
                                                                 {1, inf, 0, 1},
                                                                 {1, inf, 1, inf},
                                                                 {1, inf, 0.25, inf},
                                                                 {1, inf, -30, -inf},
                                                                 {-most, inf, -4, -inf},
                                                                 {inf, 1, 0, inf},
                                                                 {inf, 1, 1, 1},
                                                                 {-inf, 1, 0.75, -inf},
                                                                 {-inf, 1, 3, inf},
                                                                 {inf, most, 0.5, inf},
                                                                 {inf, inf, 0.25, inf},
                                                                 {-inf, -inf, 1, -inf},
                                                                 {inf, inf, 2, nan},
                                                                 {inf, -inf, 0.5, nan},
                                                                 {inf, -inf, 0, inf},
                                                                 {inf, -inf, 1, -inf},
                                                                 {inf, -inf, 2, -inf},
                                                                 {nan, 1, 1, nan},
                                                                 {1, nan, 0, nan},
                                                                 {nan, inf, 1, nan},
                                                                 {-inf, nan, 0, nan},
                                                                 {most, -most, nan, nan},
                                                                 {1, inf, nan, nan},
                                                                 {1, 2, nan, nan},
                                                                 {1, 2, inf, inf}};
    for (const auto& [self, end, weight, want] : points) {
      SCOPED_TRACE(fmt::format("{} at {}, {}, {}", name(dtype), self, end, weight));
      const double got = lerp_of(dtype, self, end, weight);
      if (std::isnan(want))
        EXPECT_TRUE(std::isnan(got)) << got;
      else if (want == -most / 2)
        EXPECT_NEAR(got / want, 1, dtype == DType::float64 ? 1e-15 : 3e-7);
      else
        EXPECT_EQ(got, want);
    }
  }
}

TEST(Lerp, HasTheSlopesOfAMeanWhereTheDifferenceOfItsEndsIsNoFiniteNumber) {
  for (const DType dtype : kFloating) {
    const double most = most_of(dtype);
    for (const auto& [self, end] : {std::pair{most, -most}, {1.0, kInfinity}, {-kInfinity, 2.0}}) {
      SCOPED_TRACE(fmt::format("{} at {}, {}", name(dtype), self, end));
      const auto of = [&](double value) { return tensor({value, 1.0}).to(dtype); };
      const double step = end > self ? kInfinity : -kInfinity;
      for (const double weight : {-0.5, 0.25, 0.75, 1.5}) {
        const Tensors inputs = {of(self), of(end), of(weight)}, ends = {of(self), of(end)};
        const auto weighted = [](const Tensors& x) { return lerp(x[0], x[1], x[2]); };
        const auto mixed = [&](const Tensors& x) { return lerp(x[0], x[1], weight); };
        const Tensors slopes = grad([&](const Tensors& x) { return sum(weighted(x)); }, inputs);
        EXPECT_EQ(slopes[0].to_vector()[0], 1 - weight);
        EXPECT_EQ(slopes[1].to_vector()[0], weight);
        EXPECT_EQ(slopes[2].to_vector()[0], step);
        const Tensors of_ends = grad([&](const Tensors& x) { return sum(mixed(x)); }, ends);
        EXPECT_EQ(of_ends[0].to_vector()[0], 1 - weight);
        EXPECT_EQ(of_ends[1].to_vector()[0], weight);
        EXPECT_EQ(jvp(mixed, ends, {of(1), of(2)}).second.to_vector()[0], 1 + weight);
      }
    }
  }
}

TEST(Quantile, LiesBetweenNumbersAsFarApartAsTheyCanBe) {
  for (const DType dtype : kFloating) {
    SCOPED_TRACE(name(dtype));
    const double most = most_of(dtype);
    const Tensor two = tensor({-most, most}).to(dtype), three = tensor({most, -most, most}).to(dtype);
    EXPECT_EQ(quantile(two, 0.5).item(), 0);
    EXPECT_EQ(quantile(two, 0).item(), -most);
    EXPECT_EQ(quantile(two, 1).item(), most);
    EXPECT_EQ(quantile(three, 0.25).item(), 0);
    EXPECT_EQ(grad([](const Tensor& x) { return sum(quantile(x, 0.25)); }, two).to_vector(), (std::vector<double>{0.75, 0.25}));
  }
}

TEST(Losses, OfProbabilitiesRefuseWhatIsNone) {
  const Tensor half = full({3}, 0.5);
  for (const double wrong : {1.5, -0.1, std::numeric_limits<double>::quiet_NaN()})
    testing::expect_error(
        [&] {
          binary_cross_entropy(tensor({0.5, wrong, 0.5}).to(DType::float32), half);
        },
        "input has values outside of 0 to 1");
  EXPECT_TRUE(std::isfinite(binary_cross_entropy(tensor({0.0f, 1.0f, 0.5f}), half).item()));
}

TEST(Losses, RefuseATargetThatWouldBroadcast) {
  const Tensor x = testing::random_tensor({3, 1}), target = tensor_of({0, 0.5, 1});
  const std::string message = ": target has shape [3] (expected input's, [3, 1])";
  testing::expect_error([&] { binary_cross_entropy_with_logits(x, target); }, "binary_cross_entropy_with_logits" + message);
  testing::expect_error([&] { mse_loss(x, target); }, "mse_loss" + message);
  testing::expect_error([&] { l1_loss(x, target); }, "l1_loss" + message);
  testing::expect_error([&] { smooth_l1_loss(x, target); }, "smooth_l1_loss" + message);
  testing::expect_error([&] { huber_loss(x, target); }, "huber_loss" + message);
  testing::expect_error([&] { kl_div(x, target); }, "kl_div" + message);
}

}  // namespace
}  // namespace deckle
