// What transforms return is differentiated by what their functions capture, and keeps a graph for nothing else.
#include <utility>

#include "deckle/autograd/backward.h"
#include "deckle/core/allocator.h"
#include "deckle/functional/checkpoint.h"
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
using testing::random_tensor;

/// Its derivative by x is 2wx, which has the derivative 2x by w.
Tensor scaled_square(const Tensor& w, const Tensor& x) { return sum(w * x * x); }

TEST(Captured, GradInsideGrad) {
  const Tensor w = random_tensor({4}), x = random_tensor({4});
  const auto slope = [&](const Tensor& of) { return grad([&](const Tensor& at) { return scaled_square(of, at); }, x); };
  expect_close(grad([&](const Tensor& of) { return sum(slope(of)); }, w), 2 * x);
  gradcheck(slope, w);
  gradgradcheck([&](const Tensor& of) { return slope(of * of * of); }, w);
  forward_gradcheck(slope, w);
}

TEST(Captured, ThreeDeep) {
  const Tensor u = random_tensor({3}), w = random_tensor({3}), x = random_tensor({3});
  const auto third = grad(
      [&](const Tensor& a) {
        return sum(
            grad([&](const Tensor& b) { return sum(grad([&](const Tensor& c) { return sum(a * a * b * b * c * c); }, x)); }, w));
      },
      u);
  expect_close(third, 8 * u * w * x);
  EXPECT_FALSE(third.requires_grad());
}

TEST(Captured, VjpByWhatIsCapturedAndByTheCotangent) {
  const Tensor w = random_tensor({4}), x = random_tensor({4}), c = random_tensor({4});
  const auto pulled = [&](const Tensor& of, const Tensor& along) {
    return vjp([&](const Tensor& at) { return of * at * at; }, x, along);
  };
  expect_close(grad([&](const Tensor& of) { return sum(pulled(of, c).second); }, w), 2 * x * c);
  expect_close(grad([&](const Tensor& of) { return sum(pulled(of, c).first); }, w), x * x);
  expect_close(grad([&](const Tensor& along) { return sum(pulled(w, along).second); }, c), 2 * w * x);
  gradcheck([&](const Tensor& of, const Tensor& along) { return pulled(of, along).second; }, std::tuple(w, c));
}

TEST(Captured, JvpByWhatIsCapturedAndByTheTangent) {
  const Tensor w = random_tensor({4}), x = random_tensor({4}), t = random_tensor({4});
  gradcheck(
      [&](const Tensor& of, const Tensor& along) { return jvp([&](const Tensor& at) { return of * at * at; }, x, along).second; },
      std::tuple(w, t));
}

TEST(Captured, HvpByWhatIsCapturedAndByTheTangent) {
  const Tensor w = random_tensor({4}), x = random_tensor({4}), v = random_tensor({4});
  const auto product = [&](const Tensor& of, const Tensor& along) {
    return hvp([&](const Tensor& at) { return sum(of * at * at * at); }, x, along);
  };
  expect_close(grad([&](const Tensor& of) { return sum(product(of, v).second); }, w), 6 * x * v);
  expect_close(grad([&](const Tensor& along) { return sum(product(w, along).second); }, v), 6 * w * x);
  gradcheck([&](const Tensor& of, const Tensor& along) { return product(of, along).first; }, std::tuple(w, v));
}

TEST(Captured, JacobianOfBothShapesAndHessian) {
  const Tensor w = random_tensor({2, 3}), x = random_tensor({3}), y = random_tensor({2});
  const auto by_rows = [&](const Tensor& of) { return jacobian([&](const Tensor& at) { return square(matmul(of, at)); }, x); };
  const auto by_columns = [&](const Tensor& of) { return jacobian([&](const Tensor& at) { return square(matmul(at, of)); }, y); };
  const auto second = [&](const Tensor& of) {
    return hessian([&](const Tensor& at) { return sum(square(square(matmul(of, at)))); }, x);
  };
  gradcheck(by_rows, w);
  gradcheck(by_columns, w);
  gradcheck(second, w);
  EXPECT_FALSE(by_rows(w).requires_grad());
  EXPECT_FALSE(by_columns(w).requires_grad());
  const Tensor leaf = random_tensor({2, 3}).requires_grad_();
  const NoGrad quiet;
  EXPECT_FALSE(by_rows(leaf).requires_grad());
  EXPECT_FALSE(by_columns(leaf).requires_grad());
  EXPECT_FALSE(second(leaf).requires_grad());
}

TEST(Captured, AGradientPenaltyReachesTheWeights) {
  const Tensor first = random_tensor({3, 4}).requires_grad_(), second = random_tensor({4}).requires_grad_();
  const Tensor x = random_tensor({2, 3});
  const auto loss_of = [&](const Tensor& a, const Tensor& b) {
    const auto critic = [&](const Tensor& at) { return sum(matmul(tanh(matmul(at, a)), b)); };
    return critic(x) + sum(square(grad(critic, x)));
  };
  gradcheck(loss_of, std::tuple(first, second));
  const auto [by_first, by_second] =
      grad([&](const Tensor& a, const Tensor& b) { return loss_of(a, b); }, std::tuple(first, second));
  loss_of(first, second).backward();
  expect_equal(first.grad(), by_first);
  expect_equal(second.grad(), by_second);
}

TEST(Captured, WeightsOfACheckpointAndTransformsInsideOne) {
  const Tensor w = random_tensor({4}), x = random_tensor({4});
  const auto around = [&](const Tensor& of) {
    return grad([&](const Tensor& at) { return sum(checkpoint([of](const Tensor& y) { return of * y * y * y; }, at)); }, x);
  };
  const auto inside = [&](const Tensor& of) {
    return checkpoint([of](const Tensor& at) { return grad([&](const Tensor& y) { return sum(of * y * y * y); }, at); }, x * of);
  };
  gradcheck(around, w);
  gradcheck(inside, w);
  gradgradcheck(inside, w);
}

// The function is called again when the outer transform, whose variable it captures, has returned.
TEST(Captured, ATransformInsideACheckpointByTheVariableOfOneThatHasReturned) {
  const Tensor v = random_tensor({4}), x = random_tensor({4}), w = random_tensor({4});
  // The second result, for whose sake nothing is called again before the transform returns.
  const auto beside = [&](bool again, bool nested, const Tensor& by) {
    const auto both = [&](const Tensor& of) {
      const auto scaled = [&, of](const Tensor& at) {
        return grad([&](const Tensor& y) { return sum(of * y * y * y); }, x) * sin(at);
      };
      const auto around = [=](const Tensor& at) { return checkpoint(scaled, at * 1.0) * at; };
      return std::pair(of * of, nested  ? (again ? checkpoint(around, by) : scaled(by) * by)
                                : again ? checkpoint(scaled, by)
                                        : scaled(by));
    };
    return vjp(both, v, std::pair(x, Tensor())).first.second;
  };
  for (const bool nested : {false, true}) {
    const auto kept = [&](const Tensor& by) { return beside(true, nested, by); };
    const auto plain = [&](const Tensor& by) { return beside(false, nested, by); };
    const auto slope = [&](const auto& f) { return grad([&](const Tensor& by) { return sum(square(f(by))); }, w); };
    expect_close(slope(kept), slope(plain));
    const Tensor leaf = w.detach().requires_grad_();
    sum(square(kept(leaf))).backward();
    expect_close(leaf.grad(), slope(plain));
    gradcheck(kept, w);
    gradgradcheck(kept, w);
  }
}

TEST(Captured, ATangentThatIsDifferentiated) {
  const Tensor w = random_tensor({4}), x = random_tensor({4}), t = random_tensor({4});
  const auto slope = [&](const Tensor& of) { return grad([&](const Tensor& at) { return scaled_square(of, at); }, x); };
  expect_close(grad([&](const Tensor& along) { return sum(jvp(slope, w, along).second); }, t), 2 * x);
}

// Each view's tangent is made while the history of the results is searched.
TEST(Captured, TangentsOfViewsAreAllSearched) {
  const Tensor x = random_tensor({2}), one = ones({}, DType::float64);
  const auto pulled = [&](const Tensor& p, const Tensor& q) {
    return vjp([&](const Tensor& t) { return std::pair(select(t * t * p, 0, 0), select(t * q, 0, 1)); }, x, std::pair(one, one))
        .second;
  };
  const auto along = [&](const Tensor& tau) {
    return jvp(pulled, std::tuple(random_tensor({2}), random_tensor({2})), std::tuple(random_tensor({2}), tau)).second;
  };
  expect_close(grad([&](const Tensor& tau) { return sum(along(tau)); }, random_tensor({2})), tensor(std::vector<double>{0, 1}));
}

TEST(Captured, AResultThatIsTheVariableHasNoHistory) {
  const Tensor y = vjp([](const Tensor& t) { return t; }, random_tensor({2}), random_tensor({2})).first;
  EXPECT_FALSE(y.requires_grad());
}

TEST(Captured, UnderNoGradResultsAreConstants) {
  const Tensor w = random_tensor({4}).requires_grad_(), x = random_tensor({4}).requires_grad_();
  const auto f = [&](const Tensor& at) { return w * at * at; };
  const auto total = [&](const Tensor& at) { return sum(f(at)); };
  {
    const NoGrad quiet;
    const auto [y, gradient] = vjp(f, x, w.detach());
    expect_close(gradient, 2 * w * x * w);
    EXPECT_FALSE(y.requires_grad() || gradient.requires_grad());
    EXPECT_FALSE(grad(total, x).requires_grad());
    EXPECT_FALSE(hvp(total, x, w).second.requires_grad());
  }
  const auto quietly = [&](const Tensor& of) {
    const NoGrad quiet;
    return sum(grad([&](const Tensor& at) { return scaled_square(of, at); }, x));
  };
  expect_close(grad([&](const Tensor& of) { return quietly(of) + sum(of * 3); }, w), x.detach() * 0 + 3);
}

TEST(Captured, NoGraphIsKeptThatNobodyCouldAskFor) {
  constexpr int64_t kRows = 100'000, kBytes = kRows * 8;
  const Tensor x = random_tensor({kRows}), w = random_tensor({kRows});
  const auto deep = [&](const Tensor& at) { return sum(tanh(tanh(tanh(at * w)))); };
  const int64_t before = memory_stats().in_use;
  const Tensor gradient = grad(deep, x);
  const auto [value, pulled] = vjp(deep, x, random_tensor({}));
  const auto [slope, product] = hvp(deep, x, w);
  const Tensor nested =
      grad([&](const Tensor& of) { return sum(grad([&](const Tensor& at) { return sum(tanh(at * of)); }, x)); }, w);
  for (const Tensor& result : {gradient, value, pulled, slope, product, nested}) EXPECT_FALSE(result.requires_grad());
  EXPECT_LT(memory_stats().in_use - before, 6 * kBytes);  // the five results
}

TEST(Captured, VariablesOfATransformThatHasReturnedTakeNoGradient) {
  const Tensor x = random_tensor({5}), w = random_tensor({}).requires_grad_();
  Tensor kept;
  const Tensor gradient = grad([&](const Tensor& at) { return kept = at, sum(at * at * w); }, x);
  ASSERT_TRUE(gradient.requires_grad());
  sum(gradient).backward();
  expect_close(w.grad(), sum(2 * x));
  EXPECT_FALSE(kept.grad().defined());
}

}  // namespace
}  // namespace deckle
