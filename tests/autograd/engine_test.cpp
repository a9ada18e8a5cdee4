#include "deckle/autograd/engine.h"

#include <optional>

#include "deckle/autograd/backward.h"
#include "deckle/autograd/grad_mode.h"
#include "deckle/autograd/history.h"
#include "deckle/ops/generated/index.h"
#include "deckle/ops/generated/pointwise.h"
#include "deckle/ops/generated/reduce.h"
#include "deckle/ops/generated/shape.h"
#include "tests/support/expect.h"
#include "tests/support/random.h"
#include "tests/support/sanitizers.h"

namespace deckle {
namespace {

using testing::expect_close;
using testing::expect_equal;
using testing::expect_error;
using testing::random_tensor;
using testing::tensor_of;

/// It has not run: another output can still ask it.
TEST(Engine, ANodeThatNoGradientReachesKeepsWhatItSaved) {
  const Tensor x = tensor_of({1.5, 2.5}).requires_grad_();
  const Tensor square = x * x;
  sum(floor(square) + x).backward();
  expect_equal(x.grad(), tensor_of({1, 1}));
  sum(square).backward();
  expect_equal(x.grad(), tensor_of({4, 6}));
  expect_error([&] { sum(square).backward(); }, "retain_graph");
}

TEST(Engine, GradientsOfAProductReachBothFactors) {
  const Tensor a = random_tensor({3, 4}).requires_grad_(), b = random_tensor({3, 4}).requires_grad_();
  sum(a * b).backward();
  expect_equal(a.grad(), b.detach());
  expect_equal(b.grad(), a.detach());
}

TEST(Engine, LeavesAccumulateOverSeveralBackwards) {
  const Tensor a = random_tensor({5}).requires_grad_();
  sum(a * 2.0).backward();
  sum(a * 3.0).backward();
  expect_equal(a.grad(), tensor_of({5, 5, 5, 5, 5}));
}

TEST(Engine, AValueUsedTwiceGetsBothGradients) {
  const Tensor a = tensor_of({1.5, -2}).requires_grad_();
  const Tensor b = exp(a);
  sum(b * b + b).backward();
  const Tensor e = exp(a.detach());
  expect_close(a.grad(), e * e * 2.0 + e);
}

TEST(Engine, GradReturnsWithoutAccumulating) {
  const Tensor a = random_tensor({4}).requires_grad_(), b = random_tensor({4}).requires_grad_();
  const auto gradients = grad(sum(a * b), {b});
  expect_equal(gradients[0], a.detach());
  EXPECT_FALSE(a.grad().defined());
  EXPECT_FALSE(b.grad().defined());
}

TEST(Engine, GradOfAnIntermediateAndOfALeafAtOnce) {
  const Tensor a = random_tensor({4}).requires_grad_();
  const Tensor b = a * 3.0;
  const auto gradients = grad(sum(square(b)), {a, b});
  expect_close(gradients[1], b.detach() * 2.0);
  expect_close(gradients[0], b.detach() * 6.0);
}

TEST(Engine, UnusedInputsAreAnErrorUnlessAllowed) {
  const Tensor a = random_tensor({2}).requires_grad_(), b = random_tensor({2}).requires_grad_();
  expect_error([&] { grad(sum(a), {a, b}); }, "no output depends on input 1");
  const auto gradients = grad(sum(a), {a, b}, {.allow_unused = true});
  EXPECT_TRUE(gradients[0].defined());
  EXPECT_FALSE(gradients[1].defined());
}

TEST(Engine, HigherOrdersOfACube) {
  const Tensor x = tensor_of({2.0}).requires_grad_();
  const Tensor y = sum(x * x * x);
  const Tensor first = grad(y, {x}, {.create_graph = true})[0];
  const Tensor second = grad(sum(first), {x}, {.create_graph = true})[0];
  const Tensor third = grad(sum(second), {x})[0];
  EXPECT_DOUBLE_EQ(first.item(), 12);
  EXPECT_DOUBLE_EQ(second.item(), 12);
  EXPECT_DOUBLE_EQ(third.item(), 6);
}

TEST(Engine, ASecondBackwardNeedsRetainGraph) {
  const Tensor a = random_tensor({3}).requires_grad_();
  const Tensor kept = sum(exp(a));
  kept.backward({}, /*retain_graph=*/true);
  kept.backward();
  expect_close(a.grad(), exp(a.detach()) * 2.0);
  expect_error([&] { kept.backward(); }, "second time");
}

TEST(Engine, NothingIsRecordedUnderNoGrad) {
  const Tensor a = random_tensor({3}).requires_grad_();
  const NoGrad quiet;
  EXPECT_FALSE((a * 2.0).requires_grad());
}

TEST(Engine, AChainOfAMillionNodesRunsAndIsDestroyed) {
  const Tensor a = tensor_of({1.0}).requires_grad_();
  Tensor x = a;
  for (int i = 0; i < testing::repetitions(1'000'000); ++i) x = neg(x);
  sum(x).backward();
  EXPECT_DOUBLE_EQ(a.grad().item(), 1.0);
  Tensor y = neg(a);
  const std::weak_ptr<autograd::Node> first = autograd::gradient_edge(y).node;
  for (int i = 1; i < testing::repetitions(1'000'000); ++i) y = neg(y);
  EXPECT_FALSE(first.expired());
  y = Tensor();  // destroyed without having run
  EXPECT_TRUE(first.expired());
}

TEST(Engine, HooksSeeAndReplaceGradients) {
  const Tensor a = random_tensor({3}).requires_grad_();
  const Tensor b = a * 2.0;
  int calls = 0;
  register_hook(b, [&](const Tensor& gradient) {
    ++calls;
    return gradient * 10.0;
  });
  register_hook(a, [&](const Tensor&) {
    ++calls;
    return Tensor();
  });
  sum(b).backward();
  EXPECT_EQ(calls, 2);
  expect_equal(a.grad(), tensor_of({20, 20, 20}));
}

TEST(Engine, AMillionViewsOfViewsCostNoMoreThanTheirNumber) {
  const Tensor a = tensor_of({1, 2}).requires_grad_();
  const Tensor base = a * 1.0;
  Tensor x = base;
  for (int i = 0; i < testing::repetitions(500'000); ++i) x = x.unsqueeze(0).squeeze(0);
  x.mul_(tensor_of({3, 5}));
  sum(base).backward();
  expect_equal(a.grad(), tensor_of({3, 5}));
}

TEST(Engine, ARemovedHookIsNotCalled) {
  const Tensor a = random_tensor({3}).requires_grad_();
  const auto tenfold = [](const Tensor& gradient) { return gradient * 10.0; };
  const Tensor b = a * 2.0;
  HookHandle on_leaf = register_hook(a, tenfold), on_result = register_hook(b, tenfold);
  const auto gradient = [&] { return grad(sum(b), {a}, {.retain_graph = true})[0]; };
  expect_equal(gradient(), tensor_of({200, 200, 200}));
  on_result.remove();
  expect_equal(gradient(), tensor_of({20, 20, 20}));
  on_leaf.remove();
  on_leaf.remove();
  expect_equal(gradient(), tensor_of({2, 2, 2}));
  expect_equal(grad(sum(a * 3.0), {a})[0], tensor_of({3, 3, 3}));
}

TEST(Engine, AHookMayRemoveItself) {
  const Tensor a = random_tensor({1}).requires_grad_();
  std::optional<HookHandle> handle;
  int calls = 0;
  handle = register_hook(a, [&](const Tensor&) {
    ++calls;
    handle->remove();
    return Tensor();
  });
  sum(a * 2.0).backward();
  sum(a * 2.0).backward();
  EXPECT_EQ(calls, 1);
}

TEST(Engine, AHookMayNotChangeShapeOrDtype) {
  const Tensor a = random_tensor({3}).requires_grad_();
  HookHandle handle = register_hook(a, [](const Tensor& gradient) { return gradient.to(DType::float32); });
  expect_error([&] { sum(a * 2.0).backward(); },
               "float32 tensor of shape [3] on " + to_string(a.device()) + " for a float64 gradient");
  handle.remove();
  register_hook(a, [](const Tensor& gradient) { return gradient.slice(0, 0, 2); });
  expect_error([&] { sum(a * 2.0).backward(); }, "shape [2]");
}

TEST(Engine, RetainGradKeepsTheGradientOfAResult) {
  const Tensor a = random_tensor({3}).requires_grad_();
  const Tensor b = a * 2.0;
  retain_grad(b);
  retain_grad(b);  // once is enough
  sum(b * 4.0).backward({}, /*retain_graph=*/true);
  expect_equal(b.grad(), tensor_of({4, 4, 4}));
  sum(b * 4.0).backward();
  expect_equal(b.grad(), tensor_of({8, 8, 8}));
}

TEST(Engine, RetainGradSeesWhatHooksLeaveAndOwnsItsMemory) {
  for (const bool create_graph : {false, true}) {
    const Tensor a = random_tensor({3}).requires_grad_();
    const Tensor b = a * 1.0, given = tensor_of({1, 1, 1});
    retain_grad(b);
    register_hook(b, [](const Tensor& gradient) { return gradient * 10.0; });
    b.backward(given, false, create_graph);
    expect_equal(b.grad().detach(), tensor_of({10, 10, 10}));
    b.grad().detach().zero_();
    expect_equal(a.grad().detach(), tensor_of({10, 10, 10}));
  }
}

TEST(Engine, RetainGradFollowsInplaceWrites) {
  const Tensor a = random_tensor({3}).requires_grad_();
  const Tensor b = a * 1.0;
  const Tensor part = b.slice(0, 1, 3);
  retain_grad(b);
  retain_grad(part);
  b.mul_(tensor_of({5, 6, 7}));
  sum(b * 2.0 + 0.0).backward({}, /*retain_graph=*/true);
  expect_equal(b.grad(), tensor_of({2, 2, 2}));
  EXPECT_FALSE(part.grad().defined());
  sum(part * 3.0).backward();
  expect_equal(part.grad(), tensor_of({3, 3}));
  expect_equal(b.grad(), tensor_of({2, 5, 5}));
}

TEST(Engine, GradLeavesRetainedGradientsAlone) {
  const Tensor a = random_tensor({3}).requires_grad_();
  const Tensor b = a * 2.0;
  retain_grad(b);
  grad(sum(b), {a});
  EXPECT_FALSE(b.grad().defined());
}

TEST(Engine, UndefinedTensorsAreErrors) {
  const Tensor none;
  expect_error([&] { none.detach(); }, "undefined");
  expect_error([&] { none.set_grad({}); }, "undefined");
  expect_error([&] { none.requires_grad_(); }, "undefined");
  expect_error([&] { register_hook(none, [](const Tensor&) { return Tensor(); }); }, "does not require grad");
  expect_error([&] { retain_grad(tensor_of({1})); }, "retain_grad: the tensor does not require grad");
}

TEST(Engine, AGradientOfTheWrongShapeIsRefused) {
  const Tensor a = random_tensor({3}).requires_grad_();
  expect_error([&] { (a * 2.0).backward(random_tensor({2})); }, "gradient of shape [2] for an output of shape [3]");
  expect_error([&] { (a * 2.0).backward(); }, "needs a gradient");
}

TEST(Engine, DistinctLeavesDoNotShareGradientMemory) {
  for (const bool create_graph : {false, true}) {
    const Tensor a = random_tensor({3}).requires_grad_(), b = random_tensor({3}).requires_grad_(), given = tensor_of({1, 2, 3});
    (a + b).backward(given, false, create_graph);
    a.grad().detach().zero_();
    expect_equal(b.grad().detach(), tensor_of({1, 2, 3}));
    expect_equal(given, tensor_of({1, 2, 3}));
  }
}

TEST(Engine, AGradientThatNobodyElseSeesIsKeptWithoutACopy) {
  const auto place_of_gradient = [](const Tensor& leaf, bool keep) {
    const void* place = nullptr;
    Tensor kept;
    register_hook(leaf, [&](const Tensor& gradient) {
      place = address(gradient);
      if (keep) kept = gradient;
      return Tensor();
    });
    sum(leaf * 2.0).backward();
    if (keep) leaf.grad().fill_(7);
    if (keep) expect_equal(kept, tensor_of({2, 2, 2}));
    return place;
  };
  const Tensor alone = random_tensor({3}).requires_grad_(), seen = random_tensor({3}).requires_grad_();
  const void *const of_alone = place_of_gradient(alone, false), *const of_seen = place_of_gradient(seen, true);
  EXPECT_EQ(address(alone.grad()), of_alone);
  EXPECT_NE(address(seen.grad()), of_seen);
  const Tensor row = random_tensor({3}).requires_grad_();  // its gradient is a view of a sum with kept dims
  const void* of_row = nullptr;
  register_hook(row, [&](const Tensor& gradient) {
    of_row = address(gradient);
    return Tensor();
  });
  (random_tensor({4, 3}) + row).backward(random_tensor({4, 3}));
  EXPECT_EQ(address(row.grad()), of_row);
  const Tensor given = random_tensor({3}), leaf = random_tensor({3}).requires_grad_();
  (leaf + 0.0).backward(given);
  EXPECT_NE(address(leaf.grad()), address(given));
  const Tensor part = random_tensor({2}).requires_grad_();
  cat({part, random_tensor({5})}).backward(random_tensor({7}));
  EXPECT_EQ(part.grad().storage()->bytes(), part.nbytes());
}

TEST(GradientSink, AListOfTheWrongLengthIsAnError) {
  autograd::GradientSink sink({true, true, true});
  const Tensor one = tensor_of({1});
  expect_error([&] { sink.put_list(1, {one, one, one}); }, "3 gradients");
  expect_error([&] { sink.put_list(0, 2, {one, one, one}); }, "3 gradients for a list of 2 tensors");
  expect_error([&] { sink.put_list(0, 2, {one}); }, "1 gradients for a list of 2 tensors");
  sink.put_list(1, 2, {one, one});
  EXPECT_TRUE(sink.values()[2].defined());
}

}  // namespace
}  // namespace deckle
