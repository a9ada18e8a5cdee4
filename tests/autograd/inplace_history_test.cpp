// The history of an in-place write whose op does not read the old value.

#include "deckle/autograd/backward.h"
#include "deckle/autograd/history.h"
#include "deckle/autograd/node.h"
#include "deckle/functional/transforms.h"
#include "deckle/ops/generated/pointwise.h"
#include "deckle/ops/generated/reduce.h"
#include "deckle/ops/generated/shape.h"
#include "tests/support/expect.h"
#include "tests/support/random.h"

namespace deckle {
namespace {

using testing::expect_equal;
using testing::random_tensor;
using testing::tensor_of;

/// where(self > 0, other, 0) in place, with `self` declared without a derivative: what the generator writes for such an entry.
struct GatedBackward final : autograd::Node {
  Tensor condition;
  std::string_view name() const override { return "gated"; }
  void backward(const autograd::Gradients& grads, autograd::GradientSink& sink) override {
    if (sink.wants(0)) sink.put(0, where(condition, grads[0], Scalar(0.0)));
  }
};
const Tensor& gated_(const Tensor& self, const Tensor& other) {
  autograd::check_inplace(self, autograd::records(other));
  std::shared_ptr<GatedBackward> node;
  if (autograd::records(other)) {
    node = std::make_shared<GatedBackward>();
    node->connect(other);
    node->condition = gt(self.detach(), Scalar(0.0));
  }
  {
    const NoGrad quiet;
    self.detach().copy_(where(gt(self, Scalar(0.0)), other.detach(), Scalar(0.0)));
  }
  autograd::rebase(self, node, autograd::kNoSlot);
  return self;
}

TEST(InplaceHistory, AnOtherOperandIsNotTakenForSelf) {
  const Tensor r = tensor_of({1, -1, 1, 5}).requires_grad_(), o = random_tensor({3}).requires_grad_();
  const Tensor b = r * 1.0;
  gated_(b.slice(0, 0, 3), o);
  sum(b).backward();
  expect_equal(r.grad(), tensor_of({0, 0, 0, 1}));
  expect_equal(o.grad(), tensor_of({1, 0, 1}));
}

TEST(InplaceHistory, AnOtherOperandOfAWholeTensorIsNotTakenForSelf) {
  const Tensor r = tensor_of({1, -1, 1}).requires_grad_(), o = random_tensor({3}).requires_grad_();
  const Tensor b = r * 1.0;
  gated_(b, o);
  sum(b).backward();
  expect_equal(o.grad(), tensor_of({1, 0, 1}));
  EXPECT_FALSE(r.grad().defined());  // declared, not derived: the result does not depend on self
}

TEST(InplaceHistory, AConstantOperandDropsTheEarlierHistory) {
  const Tensor r = tensor_of({1, -1, 1}).requires_grad_(), o = random_tensor({3});
  const Tensor b = r * 3.0, c = r * 3.0;
  gated_(b, o);
  expect_equal(grad(sum(b), {r})[0], tensor_of({0, 0, 0}));
  gated_(c.slice(0, 0, 2), o.slice(0, 0, 2));
  expect_equal(grad(sum(c), {r})[0], tensor_of({0, 0, 3}));
}

TEST(InplaceHistory, AWriteToAViewThatSavesItsResultHasASecondOrder) {
  const Tensor x = random_tensor({2, 3}).requires_grad_(), u = random_tensor({2, 3});
  const auto f = [](const Tensor& v) {
    const Tensor y = v * 1.0;
    exp_(y.select(0, 1));
    return sum(y * y);
  };
  const Tensor first = grad(f(x), {x}, {.create_graph = true})[0];
  const Tensor second = grad(sum(first * u), {x})[0];  // of x^2 and exp(x)^2
  const Tensor expected = (u * 2.0).detach();
  expected.select(0, 1).mul_(exp(x.detach().select(0, 1) * 2.0) * 2.0);
  testing::expect_close(second, expected);
}

TEST(InplaceHistory, AnIntegerTensorTakesNoHistory) {
  const Tensor x = random_tensor({2}).requires_grad_();
  const Tensor n = to(tensor_of({1, 2}), DType::int64);
  n.copy_(x);
  EXPECT_FALSE(n.requires_grad());
  const auto [value, tangent] = jvp(
      [&](const Tensor& v) {
        const Tensor m = to(tensor_of({1, 2}), DType::int64);
        m.copy_(v);
        return m * v;
      },
      x.detach(), tensor_of({1, 1}));
  expect_equal(tangent, trunc(x.detach()));
}

}  // namespace
}  // namespace deckle
