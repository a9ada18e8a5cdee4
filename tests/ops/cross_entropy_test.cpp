// cross_entropy against the same loss written with logsumexp and gather, whose derivatives are checked on their own: values and
// derivatives up to the third order, in every mixture of modes.

#include "deckle/functional/transforms.h"
#include "deckle/ops/generated/factory.h"
#include "deckle/ops/generated/index.h"
#include "deckle/ops/generated/loss.h"
#include "deckle/ops/generated/pointwise.h"
#include "deckle/ops/generated/reduce.h"
#include "deckle/ops/generated/shape.h"
#include "tests/support/expect.h"
#include "tests/support/random.h"

namespace deckle {
namespace {

using testing::expect_close;
using testing::random_tensor;

constexpr int64_t kIgnored = -100;
constexpr double kSmoothing = 0.2;

Tensor random_targets(int64_t rows, int64_t classes) {
  const Tensor targets = empty({rows}, DType::int64);
  for (int64_t i = 0; i < rows; ++i) targets.data<int64_t>()[i] = i == 1 ? kIgnored : testing::random_integer(0, classes - 1);
  return targets;
}

/// The sum over the rows that count of lse(x) - (1 - s) x[target] - s mean(x).
Tensor composed(const Tensor& x, const Tensor& target) {
  const Tensor counts = convert(ne(target, kIgnored), x.dtype());
  const Tensor chosen = squeeze(gather(x, 1, unsqueeze(clamp_min(target, 0), 1)), 1);
  return sum(counts * (logsumexp(x, 1) - chosen * (1 - kSmoothing) - mean(x, 1) * kSmoothing));
}

Tensor fused(const Tensor& x, const Tensor& target) {
  return cross_entropy(x, target, {.ignore_index = kIgnored, .label_smoothing = kSmoothing, .reduction = Reduction::sum});
}

class CrossEntropy : public ::testing::Test {
 protected:
  const Tensor target = random_targets(5, 7), x = random_tensor({5, 7}), t = random_tensor({5, 7}), u = random_tensor({5, 7});

  template <typename F>
  auto along(F f, const Tensor& direction) {
    return [f, direction](const Tensor& point) { return jvp(f, point, direction).second; };
  }

  /// transform(f)(x) for both forms of the loss.
  template <typename Transform>
  void compare(Transform transform) {
    const auto ours = [this](const Tensor& point) { return fused(point, target); };
    const auto expected = [this](const Tensor& point) { return composed(point, target); };
    expect_close(transform(ours), transform(expected));
  }
};

TEST_F(CrossEntropy, Value) {
  compare([&](auto f) { return f(x); });
}

TEST_F(CrossEntropy, Gradient) {
  compare([&](auto f) { return grad(f, x); });
}

TEST_F(CrossEntropy, ForwardOverForward) {
  compare([&](auto f) { return along(along(f, t), u)(x); });
}

TEST_F(CrossEntropy, ForwardOverForwardOverForward) {
  compare([&](auto f) { return along(along(along(f, t), u), t)(x); });
}

TEST_F(CrossEntropy, ReverseOverForwardOverForward) {
  compare([&](auto f) { return grad(along(along(f, t), u), x); });
}

TEST_F(CrossEntropy, ForwardOverReverseOverForward) {
  compare([&](auto f) { return jvp([&](const Tensor& point) { return grad(along(f, t), point); }, x, u).second; });
}

TEST_F(CrossEntropy, ReverseOverForwardOverReverse) {
  compare([&](auto f) {
    const auto curved = [&](const Tensor& point) { return sum(hvp(f, point, t).second * u); };
    return grad(curved, x);
  });
}

/// Its logits have no part in the loss, whatever they are: not in any derivative either.
TEST_F(CrossEntropy, AnIgnoredRowMayHoldAnythingInEveryOrder) {
  for (const double value : {-double{INFINITY}, double{INFINITY}, double{NAN}, 0.0}) {
    const Tensor finite = clone(x), wild = clone(x);
    select(wild, 0, 1).fill_(value);
    if (value == 0) select(select(wild, 0, 1), 0, 3).fill_(-INFINITY);
    const auto ours = [this](const Tensor& point) { return fused(point, target); };
    const auto same = [&](const auto& transform) { expect_close(transform(wild), transform(finite)); };
    const auto first = [&](const Tensor& point) { return grad(ours, point); };
    same([&](const Tensor& at) { return first(at); });
    same([&](const Tensor& at) { return hvp(ours, at, t).second; });
    same([&](const Tensor& at) { return grad([&](const Tensor& point) { return sum(first(point) * t); }, at); });
    same([&](const Tensor& at) { return grad(along(ours, t), at); });
    same([&](const Tensor& at) { return along(along(ours, t), u)(at); });
    same([&](const Tensor& at) { return grad(along(along(ours, t), u), at); });
    same([&](const Tensor& at) { return along([&](const Tensor& point) { return grad(along(ours, t), point); }, u)(at); });
    same([&](const Tensor& at) { return grad([&](const Tensor& p) { return sum(hvp(ours, p, t).second * u); }, at); });
    const Tensor wild_t = clone(t);
    select(wild_t, 0, 1).fill_(value);
    expect_close(hvp(ours, wild, wild_t).second, hvp(ours, finite, t).second);
  }
}

/// 0 log 0 is 0, as the limit is.
TEST_F(CrossEntropy, AClassOfNoProbabilityMayBeImpossible) {
  const Tensor probabilities = softmax(random_tensor({5, 7}), 1), masked = clone(x);
  select(probabilities, 1, 2).fill_(0);
  select(masked, 1, 2).fill_(-INFINITY);
  const auto without = [](const Tensor& y) { return index_select(y, 1, tensor(std::vector<int64_t>{0, 1, 3, 4, 5, 6})); };
  const auto ours = [&](const Tensor& point) { return cross_entropy(point, probabilities); };
  const auto expected = [&](const Tensor& point) { return cross_entropy(without(point), without(probabilities)); };
  expect_close(ours(masked), expected(x));
  EXPECT_EQ(sum(abs(select(grad(ours, masked), 1, 2))).item(), 0);
  expect_close(without(grad(ours, masked)), without(grad(expected, x)));
  expect_close(jvp(ours, masked, t).second, jvp(expected, x, t).second);
  expect_close(without(hvp(ours, masked, t).second), without(hvp(expected, x, t).second));
}

/// Its two parts would have the gradient of their sum: whoever read one of them alone would get a wrong one.
TEST_F(CrossEntropy, LogSumExpOfTheRowsHasNoHistory) {
  const Tensor leaf = clone(x);
  leaf.requires_grad_();
  const auto [loss, lse] = cross_entropy_rows(leaf, target, kIgnored, kSmoothing);
  EXPECT_TRUE(loss.requires_grad());
  EXPECT_FALSE(lse.requires_grad());
}

}  // namespace
}  // namespace deckle
