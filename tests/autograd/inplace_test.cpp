#include <thread>

#include "deckle/autograd/backward.h"
#include "deckle/autograd/grad_mode.h"
#include "deckle/functional/gradcheck.h"
#include "deckle/functional/transforms.h"
#include "deckle/ops/generated/factory.h"
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
using testing::tensor_of;

TEST(Inplace, AWriteToAResultContinuesItsHistory) {
  const Tensor a = random_tensor({3}).requires_grad_(), b = random_tensor({3}).requires_grad_();
  const Tensor x = a * 2.0;
  x.mul_(b);
  sum(x).backward();
  expect_close(a.grad(), b.detach() * 2.0);
  expect_close(b.grad(), a.detach() * 2.0);
}

TEST(Inplace, ALeafThatRequiresGradRefusesWrites) {
  const Tensor a = random_tensor({3}).requires_grad_();
  expect_error([&] { a.mul_(a); }, "leaf");
  expect_error([&] { a.slice(0, 0, 1).zero_(); }, "view of a leaf");
  const NoGrad quiet;
  a.zero_();
  expect_equal(a.detach(), tensor_of({0, 0, 0}));
}

TEST(Inplace, AWriteToAViewReachesTheBase) {
  const Tensor a = random_tensor({2, 3}).requires_grad_(), b = random_tensor({3}).requires_grad_();
  const Tensor base = a * 1.0;
  base.select(0, 1).copy_(b);
  sum(base * base).backward();
  const Tensor expected = a.detach() * 2.0;
  expected.select(0, 1).zero_();
  expect_close(a.grad(), expected);
  expect_close(b.grad(), b.detach() * 2.0);
}

TEST(Inplace, AWriteToTheBaseReachesAnEarlierView) {
  const Tensor a = random_tensor({2, 3}).requires_grad_(), b = random_tensor({2, 3}).requires_grad_();
  const Tensor base = a * 1.0;
  const Tensor row = base.select(0, 0);
  base.mul_(b);
  sum(row).backward();
  const Tensor expected = b.detach().clone();
  expected.select(0, 1).zero_();
  expect_close(a.grad(), expected);
}

TEST(Inplace, AWriteToAViewReachesAnotherView) {
  const Tensor a = random_tensor({4}).requires_grad_();
  const Tensor base = a * 1.0;
  const Tensor first = base.slice(0, 0, 3), second = base.slice(0, 1, 4);
  first.mul_(tensor_of({2, 3, 4}));
  sum(second).backward();
  expect_close(a.grad(), tensor_of({0, 3, 4, 1}));
}

TEST(Inplace, AConstantBaseTakesHistoryFromAWriteToItsView) {
  const Tensor base = random_tensor({4});
  const Tensor a = random_tensor({2}).requires_grad_();
  base.slice(0, 1, 3).copy_(a);
  EXPECT_TRUE(base.requires_grad());
  sum(base * 3.0).backward();
  expect_equal(a.grad(), tensor_of({3, 3}));
}

TEST(Inplace, SecondOrderThroughAWriteToAView) {
  const Tensor a = random_tensor({3}).requires_grad_();
  const Tensor base = a * a;
  base.slice(0, 0, 2).mul_(a.slice(0, 1, 3));
  const Tensor first = grad(sum(base), {a}, {.create_graph = true})[0];
  const Tensor second = grad(sum(first), {a})[0];
  // f = a0^2 a1 + a1^2 a2 + a2^2
  const double a0 = a[0].item(), a1 = a[1].item(), a2 = a[2].item();
  expect_close(first.detach(), tensor_of({2 * a0 * a1, a0 * a0 + 2 * a1 * a2, a1 * a1 + 2 * a2}), 1e-5, 1e-5);
  expect_close(second, tensor_of({2 * a1 + 2 * a0, 2 * a0 + 2 * a2 + 2 * a1, 2 * a1 + 2}), 1e-5, 1e-5);
}

TEST(Inplace, SavedValuesThatWereOverwrittenAreAnError) {
  const Tensor a = random_tensor({3}).requires_grad_();
  const Tensor x = a * 1.0;
  const Tensor y = sum(x * x);
  x.mul_(tensor_of({2, 2, 2}));
  expect_error([&] { y.backward(); }, "changed in place");
}

TEST(Inplace, AnOutputOfAMultiOutputViewRefusesWrites) {
  const Tensor a = random_tensor({2, 3}).requires_grad_();
  const Tensor base = a * 1.0;
  const auto rows = unbind(base, 0);
  expect_error([&] { rows[0].zero_(); }, "several views");
}

TEST(Inplace, AViewMadeUnderNoGradRefusesWritesWithRecordingOn) {
  const Tensor a = random_tensor({3}).requires_grad_();
  const Tensor base = a * 1.0;
  Tensor part;
  {
    const NoGrad quiet;
    part = base.slice(0, 0, 2);
  }
  expect_error([&] { part.zero_(); }, "NoGrad");
}

TEST(Inplace, AViewMadeUnderNoGradIsNotReadWhereItsBaseHasGotHistory) {
  const Tensor w = tensor_of({2, 3}).requires_grad_(), base = tensor_of({0, 0});
  Tensor part, of_part;
  {
    const NoGrad quiet;
    part = base.slice(0, 0, 1);
  }
  of_part = part.view({1, 1});
  expect_equal(part * 2.0, tensor_of({0}));  // a constant so far
  base.copy_(w);
  for (const Tensor& view : {part, of_part}) {
    expect_error([&] { sum(view); }, "made under NoGrad");
    expect_error([&] { w + view; }, "made under NoGrad");
    expect_equal(sum(view.detach()), tensor_of({2}).view({}));
    EXPECT_FALSE(view.requires_grad());
    EXPECT_TRUE(view.is_leaf());
    const NoGrad quiet;
    expect_equal(sum(view), tensor_of({2}).view({}));
  }
  // What is written to the same history's base under NoGrad changes nothing: the view was and is a constant.
  {
    const NoGrad quiet;
    part = base.slice(0, 1, 2);
    base.add_(tensor_of({1, 1}));
  }
  sum(part * w).backward();
  expect_equal(w.grad(), tensor_of({4, 4}));
}

TEST(Inplace, TangentsFollowAWriteToAView) {
  const Tensor x = random_tensor({4}), t = random_tensor({4});
  const auto f = [](const Tensor& v) {
    const Tensor base = v * 1.0;
    base.slice(0, 1, 3).mul_(base.slice(0, 1, 3) * 1.0);
    return base;
  };
  const auto [value, tangent] = jvp(f, x, t);
  const Tensor expected = t.clone();
  expected.slice(0, 1, 3).mul_(x.slice(0, 1, 3) * 2.0);
  expect_close(tangent, expected);
}

TEST(Inplace, AnEarlierViewSeesTheTangentOfTheWrittenBase) {
  const Tensor x = random_tensor({4}), t = random_tensor({4});
  const auto f = [](const Tensor& v) {
    const Tensor base = v * 1.0;
    const Tensor part = base.slice(0, 1, 3);
    base.mul_(v);
    return part * 1.0;
  };
  expect_close(jvp(f, x, t).second, (x * t * 2.0).slice(0, 1, 3));
}

TEST(Inplace, AConstantBaseTakesTheTangentOfAWriteToItsView) {
  const Tensor x = random_tensor({2}), t = random_tensor({2});
  const auto f = [](const Tensor& v) {
    const Tensor base = tensor_of({1, 2, 3, 4});
    base.slice(0, 1, 3).copy_(v);
    return base * base;
  };
  const Tensor tangent = jvp(f, x, t).second;
  expect_close(tangent, tensor_of({0, 2 * x[0].item() * t[0].item(), 2 * x[1].item() * t[1].item(), 0}), 1e-6, 1e-6);
}

/// Every order and mode.
template <typename F>
void expect_derivatives(F&& f, const std::vector<Tensor>& inputs) {
  gradcheck(f, inputs);
  forward_gradcheck(f, inputs);
  gradgradcheck(f, inputs);
  forward_gradgradcheck(f, inputs);
}

TEST(Inplace, OpsThatSaveTheirResultWorkOnViewsInEveryMode) {
  for (const auto op : {exp_, tanh_, sigmoid_, sqrt_}) {
    const auto f = [op](const std::vector<Tensor>& x) {
      const Tensor y = x[0] * 1.0;
      op(y.slice(0, 0, 2));
      return y * y * x[0];
    };
    expect_derivatives(f, {exp(random_tensor({3}))});
  }
}

TEST(Inplace, ViewsOfBasesInAnyMemoryOrderWorkInEveryMode) {
  const auto layouts = {
      +[] {
        return zeros({4, 3}, DType::float64);
      },
      +[] {
        return zeros({3, 4}, DType::float64).transpose(0, 1).detach();
      },
      +[] {
        return zeros({9, 6}, DType::float64).slice(0, 1, 9, 2).slice(1, 0, 6, 2).detach();
      },
  };
  for (const auto base_of_layout : layouts) {
    const auto f = [base_of_layout](const std::vector<Tensor>& x) {
      const Tensor base = base_of_layout();
      const Tensor earlier = base.transpose(0, 1).select(0, 1), expanded = base.select(1, 2).unsqueeze(0).expand({2, 4});
      base.slice(0, 1, 3).copy_(x[0] * x[0]);
      base.transpose(0, 1).slice(0, 1, 3).mul_(x[1]);
      exp_(base.select(0, 2));
      return std::vector<Tensor>{base * base, earlier * earlier, expanded * x[1].select(0, 0)};
    };
    expect_derivatives(f, {tanh(random_tensor({2, 3})), tanh(random_tensor({2, 4}))});  // small: f has exponentials of products
  }
}

TEST(Inplace, AViewThatBecameALeafIsAVariableOfItsOwn) {
  const Tensor base = tensor_of({1, 2, 3, 4});
  const Tensor x = base.slice(0, 0, 2);
  x.requires_grad_();
  expect_error([&] { x.mul_(tensor_of({3, 3})); }, "leaf");
  const Tensor w = tensor_of({5, 6}).requires_grad_();
  base.slice(0, 0, 2).mul_(w);  // x has these values now, but not this history
  sum(x * x).backward();
  expect_equal(x.grad(), tensor_of({10, 24}));
  EXPECT_FALSE(w.grad().defined());
}

TEST(Inplace, AViewThatBecameALeafKeepsItsTangent) {
  const Tensor x = random_tensor({4}), t = random_tensor({4});
  const auto f = [](const Tensor& v) {
    const NoGrad quiet;
    const Tensor part = v.slice(0, 1, 3);
    part.requires_grad_();
    const EnableGrad loud;
    return part * part;
  };
  expect_close(jvp(f, x, t).second.detach(), (x * t * 2.0).slice(0, 1, 3));
}

TEST(Inplace, ViewsOfConstantsRefuseARecordedWriteThatWouldBeLost) {
  const Tensor w = tensor_of({2, 2}).requires_grad_(), base = tensor_of({1, 2, 3, 4});
  Tensor quiet_view;
  {
    const NoGrad quiet;
    quiet_view = base.slice(0, 0, 2);
  }
  const std::vector<Tensor> pieces = split(base, 2, 0);
  expect_error([&] { quiet_view.mul_(w); }, "NoGrad");
  expect_error([&] { pieces[0].add_(w); }, "several views");
  quiet_view.mul_(tensor_of({2, 2}));  // constants are free to go anywhere
  pieces[1].add_(tensor_of({1, 1}));
  expect_equal(base, tensor_of({2, 4, 4, 5}));
}

TEST(Inplace, AViewOfOverlappingElementsRefusesARecordedWrite) {
  const Tensor w = tensor_of({2}).requires_grad_();
  const Tensor base = tensor_of({1}).expand({3}).detach();
  expect_error([&] { base.slice(0, 0, 1).mul_(w); }, "share a place");
}

TEST(Inplace, TangentsOfAnExpandedInputAreTheElementsOwn) {
  const Tensor x = random_tensor({1}).expand({3}), t = random_tensor({3});
  const auto f = [](const Tensor& v) { return v.slice(0, 1, 3) * v.slice(0, 0, 2); };
  expect_close(jvp(f, x, t).second, (t.slice(0, 1, 3) + t.slice(0, 0, 2)) * x.slice(0, 0, 2));
  expect_close(vjp(f, x, t.slice(0, 0, 2)).second, tensor_of({t[0].item(), t[0].item() + t[1].item(), t[1].item()}) * x);
}

TEST(Inplace, ThreadsMayLookAtAStaleViewTogether) {
  const Tensor a = random_tensor({4}).requires_grad_();
  const Tensor base = a * 1.0;
  const Tensor part = base.slice(0, 0, 2);
  for (int round = 0; round < 50; ++round) {
    base.mul_(tensor_of({1, 1, 1, 1}));
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t) threads.emplace_back([&] { EXPECT_TRUE(part.requires_grad()); });
    for (std::thread& thread : threads) thread.join();
  }
  sum(part).backward();
  expect_equal(a.grad(), tensor_of({1, 1, 0, 0}));
}

}  // namespace
}  // namespace deckle
