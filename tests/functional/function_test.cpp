// Functions with derivatives of the user's own, jacobian and hessian.
#include "deckle/functional/function.h"

#include <gtest/gtest.h>

#include "deckle/functional/gradcheck.h"
#include "deckle/functional/jacobian.h"
#include "deckle/functional/transforms.h"
#include "deckle/ops/generated/factory.h"
#include "deckle/ops/generated/matmul.h"
#include "deckle/ops/generated/pointwise.h"
#include "deckle/ops/generated/reduce.h"
#include "deckle/ops/generated/shape.h"
#include "tests/support/expect.h"
#include "tests/support/random.h"

namespace deckle {
namespace {

using testing::expect_close;
using testing::expect_equal;
using testing::expect_error;
using testing::random_tensor;
using Tensors = Function::Tensors;

/// x³ and x y, with the factor of the first derivative of x³ as a parameter: 3 is right.
Function cube_and_product(double factor, double tangent_factor) {
  return {.name = "cube_and_product",
          .forward =
              [](const Tensors& in) {
                return Tensors{in[0] * in[0] * in[0], in[0] * in[1]};
              },
          .backward =
              [factor](const Tensors& in, const Tensors&, const Tensors& d) {
                return Tensors{factor * in[0] * in[0] * d[0] + in[1] * d[1], in[0] * d[1]};
              },
          .tangent =
              [tangent_factor](const Tensors& in, const Tensors&, const Tensors& t) {
                return Tensors{tangent_factor * in[0] * in[0] * t[0], t[0] * in[1] + in[0] * t[1]};
              }};
}

TEST(Function, HasTheUsersDerivativesOfBothOrdersInBothModes) {
  const Function f = cube_and_product(3, 3);
  const Tensors x = {random_tensor({2, 3}), random_tensor({2, 3})};
  const auto call = [&](const Tensors& in) { return f(in); };
  gradcheck(call, x);
  forward_gradcheck(call, x);
  gradgradcheck(call, x);
  forward_gradgradcheck(call, x);
}

TEST(Function, GradcheckRefusesAWrongDerivative) {
  const Tensors x = {random_tensor({2, 3}), random_tensor({2, 3})};
  const Function wrong = cube_and_product(2, 3), wrong_tangent = cube_and_product(3, 2);
  EXPECT_THROW(gradcheck([&](const Tensors& in) { return wrong(in); }, x), Error);
  EXPECT_THROW(forward_gradcheck([&](const Tensors& in) { return wrong_tangent(in); }, x), Error);
  EXPECT_NO_THROW(gradcheck([&](const Tensors& in) { return wrong_tangent(in); }, x));
}

TEST(Function, SaysWhatItLacks) {
  Function f = cube_and_product(3, 3);
  const Tensor x = random_tensor({2});
  f.tangent = nullptr;
  expect_error(
      [&] {
        jvp([&](const Tensor& at) { return f({at, at})[0]; }, x, x);
      },
      "cube_and_product: it has no rule for forward mode (expected `tangent`)");
  f.backward = [](const Tensors& in, const Tensors&, const Tensors&) { return Tensors{in[0]}; };
  expect_error(
      [&] {
        grad([&](const Tensor& at) { return sum(f({at, at})[0]); }, x);
      },
      "cube_and_product: 1 gradients were returned (expected 2)");
  f.backward = [](const Tensors& in, const Tensors&, const Tensors&) { return Tensors{sum(in[0]), in[1]}; };
  expect_error(
      [&] {
        grad([&](const Tensor& at) { return sum(f({at, at})[0]); }, x);
      },
      "cube_and_product: gradient 0 is [] float64 (expected [2] float64)");
  f.forward = nullptr;
  expect_error([&] { f({x, x}); }, "forward is missing");
}

TEST(Function, AResultThatIsAnInputIsACopy) {
  const Function same{.name = "same",
                      .forward = [](const Tensors& in) { return in; },
                      .backward = [](const Tensors&, const Tensors&, const Tensors& d) { return d; }};
  const Tensor x = random_tensor({3});
  const Tensor y = same({x})[0];
  expect_equal(y, x);
  EXPECT_NE(address(y), address(x));
}

TEST(Jacobian, OfManyResultsAndOfManyArguments) {
  const Tensor a = random_tensor({4, 3}), x = random_tensor({3});
  expect_close(jacobian([&](const Tensor& at) { return matmul(a, at); }, x), a);
  const Tensor b = random_tensor({2, 3});
  expect_close(jacobian([&](const Tensor& at) { return matmul(b, at); }, x), b);
  const Tensor m = random_tensor({2, 3});
  const Tensor squares = jacobian([](const Tensor& at) { return at * at; }, m);
  EXPECT_EQ(to_string(squares.sizes()), "[2, 3, 2, 3]");
  for (int64_t i = 0; i < 6; ++i) {
    for (int64_t j = 0; j < 6; ++j)
      EXPECT_NEAR(squares.reshape(6, 6)[i][j].item(), i == j ? 2 * m.flatten()[i].item() : 0, 1e-12);
  }
  expect_equal(jacobian([](const Tensor&) { return ones({2}, DType::float64); }, x), zeros({2, 3}, DType::float64));
}

TEST(Jacobian, OfAnEmptyTensorHasItsShape) {
  EXPECT_EQ(to_string(jacobian([](const Tensor& at) { return at; }, zeros({0})).sizes()), "[0, 0]");
  EXPECT_EQ(to_string(hessian([](const Tensor& at) { return sum(at); }, zeros({0})).sizes()), "[0, 0]");
}

TEST(Jacobian, CanBeDifferentiatedAgain) {
  const auto f = [](const Tensor& at) { return sum(jacobian([](const Tensor& x) { return x * x * x; }, at)); };
  gradcheck(f, random_tensor({3}));
  forward_gradcheck(f, random_tensor({3}));
}

TEST(Hessian, IsThatOfAQuadraticForm) {
  const Tensor a = random_tensor({3, 3}), x = random_tensor({3});
  const Tensor h = hessian([&](const Tensor& at) { return sum(at * matmul(a, at)); }, x);
  expect_close(h, a + a.t());
  expect_error([&] { hessian([](const Tensor& at) { return at; }, x); }, "expected a tensor of one element");
}

}  // namespace
}  // namespace deckle
