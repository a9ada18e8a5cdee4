#include "deckle/autograd/forward_mode.h"

#include "deckle/autograd/backward.h"
#include "deckle/autograd/grad_mode.h"
#include "deckle/functional/gradcheck.h"
#include "deckle/functional/transforms.h"
#include "deckle/ops/generated/pointwise.h"
#include "deckle/ops/generated/reduce.h"
#include "deckle/ops/generated/shape.h"
#include "tests/support/expect.h"
#include "tests/support/random.h"

namespace deckle {
namespace {

using testing::expect_close;
using testing::expect_error;
using testing::random_tensor;

Tensor cubic(const Tensor& x) { return sum(x * x * x); }

TEST(ForwardMode, JvpIsTheGradientTimesTheTangent) {
  const Tensor x = random_tensor({5}), t = random_tensor({5});
  const auto [value, tangent] = jvp(cubic, x, t);
  expect_close(value, cubic(x));
  expect_close(tangent, sum(x * x * t) * 3.0);
}

TEST(ForwardMode, ForwardOverForward) {
  const Tensor x = random_tensor({5}), t = random_tensor({5}), u = random_tensor({5});
  const auto inner = [&](const Tensor& y) { return jvp(cubic, y, t).second; };
  expect_close(jvp(inner, x, u).second, sum(x * t * u) * 6.0);
}

TEST(ForwardMode, ThreeLevels) {
  const Tensor x = random_tensor({5}), t = random_tensor({5});
  const auto second = [&](const Tensor& y) { return jvp([&](const Tensor& z) { return jvp(cubic, z, t).second; }, y, t).second; };
  expect_close(jvp(second, x, t).second, sum(t * t * t) * 6.0);
}

TEST(ForwardMode, ForwardOverReverse) {
  const Tensor x = random_tensor({5}), t = random_tensor({5});
  const auto [gradient, product] = hvp(cubic, x, t);
  expect_close(gradient, x * x * 3.0);
  expect_close(product, x * t * 6.0);
}

TEST(ForwardMode, ReverseOverForward) {
  const Tensor x = random_tensor({5}).requires_grad_(), t = random_tensor({5}).requires_grad_();
  const Tensor tangent = jvp(cubic, x, t).second;
  const auto gradients = grad(tangent, {x, t});
  expect_close(gradients[0], (x * t * 6.0).detach());
  expect_close(gradients[1], (x * x * 3.0).detach());
}

TEST(ForwardMode, ReverseOverReverse) {
  const Tensor x = random_tensor({5}), t = random_tensor({5});
  const auto inner = [&](const Tensor& y) { return sum(grad(cubic, y) * t); };
  expect_close(grad(inner, x), x * t * 6.0);
}

TEST(ForwardMode, TangentsOfViews) {
  const Tensor x = random_tensor({3, 4}), t = random_tensor({3, 4});
  const auto f = [](const Tensor& y) { return y.t().select(0, 2) * y.select(1, 1); };
  const auto [value, tangent] = jvp(f, x, t);
  expect_close(tangent, t.select(1, 2) * x.select(1, 1) + x.select(1, 2) * t.select(1, 1));
}

TEST(ForwardMode, TangentsEndWithTheirLevel) {
  const Tensor x = random_tensor({3});
  Tensor escaped;
  jvp([&](const Tensor& y) { return escaped = y * y; }, x, x);
  EXPECT_TRUE(autograd::tangent_levels(escaped).empty());
  const autograd::LevelScope scope;
  EXPECT_TRUE(autograd::tangent_levels(escaped).empty());
}

TEST(ForwardMode, AResultOfAnInnerLevelWorksInALaterOne) {
  const Tensor x = random_tensor({3}), t = random_tensor({3});
  const Tensor first = jvp([](const Tensor& y) { return y * y; }, x, t).second;  // 2 x t
  const Tensor base = first * 1.0;
  const auto f = [&](const Tensor& y) {
    const Tensor copy = first.clone();
    copy.mul_(y);
    return copy;
  };
  expect_close(jvp(f, x, t).second, first * t);
}

TEST(ForwardMode, AConstantHasAZeroTangent) {
  const Tensor x = random_tensor({3});
  const Tensor tangent = jvp([](const Tensor&) { return testing::tensor_of({1, 2}); }, x, x).second;
  expect_close(tangent, testing::tensor_of({0, 0}));
}

TEST(ForwardMode, ATangentOfAnotherShapeOrDtypeIsRefused) {
  const Tensor x = random_tensor({3});
  expect_error([&] { jvp(cubic, x, random_tensor({2})); }, "tangent of shape [2]");
  expect_error([&] { jvp(cubic, x, random_tensor({3}, DType::float32)); }, "float32");
}

TEST(Gradcheck, PassesAndFailsWhereItShould) {
  const Tensor x = random_tensor({3});
  const auto good = [](const Tensor& y) { return tanh(y) * y; };
  gradcheck(good, x);
  forward_gradcheck(good, x);
  gradgradcheck(good, x);
  forward_gradgradcheck(good, x);
  const auto detached = [](const Tensor& y) { return tanh(y) * y.detach(); };  // half of the derivative is missing
  expect_error([&] { gradcheck(detached, x); }, "central differences");
  expect_error([&] { forward_gradcheck(detached, x); }, "central differences");
  expect_error([&] { gradgradcheck(detached, x); }, "central differences");
  expect_error([&] { forward_gradgradcheck(detached, x); }, "central differences");
}

struct Affine {
  Tensor scale, shift;
  static constexpr auto fields = std::tuple(&Affine::scale, &Affine::shift);
};

TEST(Functional, TransformsTakeStructsAndTuples) {
  const Affine parameters{random_tensor({3}), random_tensor({3})};
  const Tensor x = random_tensor({3});
  const Affine gradient = grad([&](const Affine& p) { return sum(p.scale * x + p.shift); }, parameters);
  expect_close(gradient.scale, x);
  expect_close(gradient.shift, testing::tensor_of({1, 1, 1}));

  const auto [value, tangent] =
      jvp([](const Tensor& a, const Tensor& b) { return a * b; }, std::tuple(x, parameters.scale), std::tuple(x, x));
  expect_close(tangent, x * parameters.scale + x * x);
  const auto [y, pulled] = vjp([](const Tensor& a) { return std::tuple(a * 2.0, a * a); }, x, std::tuple(x, x));
  expect_close(pulled, x * 2.0 + x * x * 2.0);
}

}  // namespace
}  // namespace deckle
