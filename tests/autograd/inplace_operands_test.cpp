// Operands of an in-place write that alias the written tensor; operands of other dtypes.

#include "deckle/functional/transforms.h"
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
using testing::tensor_of;

// With itself, or a view of itself, as the other operand. Inputs are positive, for pow.

struct Binary {
  const char* name;
  Tensor (*write)(const Tensor&, const Tensor&);
  Tensor (*call)(const Tensor&, const Tensor&);
};
const Binary kBinary[] = {{"add_", add_, add},
                          {"sub_", sub_, sub},
                          {"mul_", mul_, mul},
                          {"div_", div_, div},
                          {"pow_", pow_, pow},
                          {"maximum_", maximum_, maximum},
                          {"minimum_", minimum_, minimum},
                          {"swiglu_", swiglu_, swiglu}};

/// Both as functions of one tensor have equal values and derivatives, in all modes.
void expect_alike(const std::function<Tensor(const Tensor&)>& inplace, const std::function<Tensor(const Tensor&)>& functional,
                  const Tensor& x) {
  const Tensor t = random_tensor(x.sizes()), u = random_tensor(x.sizes());
  const auto weighted = [](const std::function<Tensor(const Tensor&)>& f) {
    return [f](const Tensor& v) {
      const Tensor y = f(v);
      return sum(y * y);
    };
  };
  expect_close(inplace(x), functional(x));
  expect_close(jvp(inplace, x, t).second, jvp(functional, x, t).second);
  expect_close(grad(weighted(inplace), x), grad(weighted(functional), x));
  const auto [g1, h1] = hvp(weighted(inplace), x, t);
  const auto [g2, h2] = hvp(weighted(functional), x, t);
  expect_close(h1, h2, 1e-8, 1e-8);
  const auto slope = [&](const auto& f) { return [f, u](const Tensor& v) { return sum(grad(f, v) * u); }; };
  expect_close(grad(slope(weighted(inplace)), x), grad(slope(weighted(functional)), x), 1e-8, 1e-8);
  const auto nested = [&](const auto& f) { return [f, t](const Tensor& v) { return jvp(f, v, t).second; }; };
  expect_close(jvp(nested(inplace), x, u).second, jvp(nested(functional), x, u).second, 1e-8, 1e-8);
  const auto reverse = [&](const auto& f) { return [f, t](const Tensor& v) { return sum(jvp(f, v, t).second); }; };
  expect_close(grad(reverse(inplace), x), grad(reverse(functional), x), 1e-8, 1e-8);
}

TEST(InplaceHistory, ATensorMayBeItsOwnOperand) {
  for (const Binary& op : kBinary) {
    SCOPED_TRACE(op.name);
    const Tensor x = exp(random_tensor({3}) * 0.3);
    expect_alike(
        [&](const Tensor& v) {
          const Tensor y = v * 1.0;
          op.write(y, y);
          return y;
        },
        [&](const Tensor& v) { return op.call(v, v); }, x);
  }
}

TEST(InplaceHistory, AViewOfATensorMayBeItsOperand) {
  for (const Binary& op : kBinary) {
    SCOPED_TRACE(op.name);
    const Tensor x = exp(random_tensor({3, 3}) * 0.3);
    expect_alike(
        [&](const Tensor& v) {
          const Tensor y = v * 1.0;
          op.write(y, y.t());
          return y;
        },
        [&](const Tensor& v) { return op.call(v, v.t()); }, x);
    expect_alike(
        [&](const Tensor& v) {
          const Tensor y = v * 1.0;
          op.write(y.select(0, 1), y.select(1, 0));
          return y;
        },
        [&](const Tensor& v) {
          const Tensor y = v * 1.0;
          y.select(0, 1).copy_(op.call(v.select(0, 1), v.select(1, 0)));
          return y;
        },
        x);
    expect_alike(
        [&](const Tensor& v) {
          const Tensor y = v * 1.0;
          op.write(y, y.select(0, 0).detach());
          return y;
        },
        [&](const Tensor& v) { return op.call(v, v.select(0, 0).detach()); }, x);
  }
}

TEST(InplaceHistory, ACopyOfAnOverlappingViewHasItsDerivatives) {
  const Tensor x = random_tensor({5});
  expect_alike(
      [](const Tensor& v) {
        const Tensor y = v * 1.0;
        y.slice(0, 1, 5).copy_(y.slice(0, 0, 4));
        return y;
      },
      [](const Tensor& v) {
        const Tensor y = v * 1.0;
        y.slice(0, 1, 5).copy_(v.slice(0, 0, 4));
        return y;
      },
      x);
}

// Mixed dtypes in forward mode.

TEST(MixedDtypes, ATangentHasTheDtypeOfItsTensor) {
  const Tensor x = random_tensor({3}, DType::float32), t = random_tensor({3}, DType::float32);
  const Tensor wide = random_tensor({3});
  for (const Binary& op : kBinary) {
    SCOPED_TRACE(op.name);
    const auto inplace = [&](const Tensor& v) {
      const Tensor y = square(v) + 0.5;
      op.write(y, square(wide) + 0.5);
      return y;
    };
    const auto [value, tangent] = jvp(inplace, x, t);
    EXPECT_EQ(tangent.dtype(), DType::float32);
    const auto functional = [&](const Tensor& v) {
      return to(op.call(to(square(v) + 0.5, DType::float64), square(wide) + 0.5), DType::float32);
    };
    expect_close(tangent, jvp(functional, x, t).second, 1e-5, 1e-5);
    const auto wider = jvp([&](const Tensor& v) { return op.call(square(v) + 0.5, square(wide) + 0.5); }, x, t);
    EXPECT_EQ(wider.second.dtype(), wider.first.dtype());
    const auto both = [&](const Tensor& v) {
      const Tensor y = square(v) + 0.5;
      op.write(y, to(v, DType::float64) * 0.1 + 2.0);
      return y;
    };
    EXPECT_EQ(jvp(both, x, t).second.dtype(), DType::float32);
    const auto over = jvp([&](const Tensor& v) { return grad([&](const Tensor& w) { return sum(inplace(w)); }, v); }, x, t);
    EXPECT_EQ(over.second.dtype(), DType::float32);
  }
}

// A condition chooses between values; it is not one of them.

TEST(MixedDtypes, AConditionDoesNotTakePartInPromotion) {
  const Tensor condition = tensor_of({1, 0, 1e-300}), a = tensor_of({1, 2, 3}, DType::float32),
               b = tensor_of({4, 5, 6}, DType::float32);
  const Tensor chosen = where(condition, a, b);
  EXPECT_EQ(chosen.dtype(), DType::float32);
  expect_equal(chosen, tensor_of({1, 5, 3}, DType::float32));  // 1e-300 is not zero, in whatever dtype the values are
  EXPECT_EQ(masked_fill(a, condition, 0).dtype(), DType::float32);
  EXPECT_EQ(where(condition, to(a, DType::int64), to(b, DType::int64)).dtype(), DType::int64);
  expect_equal(where(condition, to(a, DType::int64), to(b, DType::int64)), tensor_of({1, 5, 3}));
  EXPECT_EQ(where(condition, a, Scalar(0.0)).dtype(), DType::float32);
  EXPECT_EQ(where(to(condition, DType::int64), to(a, DType::bool_), to(b, DType::bool_)).dtype(), DType::bool_);
  const Tensor part = a.clone();
  masked_fill_(part, condition, 7);
  expect_equal(part, tensor_of({7, 2, 7}, DType::float32));
}

}  // namespace
}  // namespace deckle
