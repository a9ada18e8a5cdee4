#include <gtest/gtest.h>

#include <any>
#include <cmath>
#include <functional>

#include "deckle/autograd/backward.h"
#include "deckle/autograd/grad_mode.h"
#include "deckle/autograd/saved_tensor_hooks.h"
#include "deckle/base/error.h"
#include "deckle/functional/transforms.h"
#include "deckle/ops/generated/factory.h"
#include "deckle/ops/generated/foreach.h"
#include "deckle/ops/generated/index.h"
#include "deckle/ops/generated/pointwise.h"
#include "deckle/ops/generated/random.h"
#include "deckle/ops/generated/reduce.h"
#include "deckle/ops/generated/shape.h"
#include "tests/support/expect.h"
#include "tests/support/random.h"

namespace deckle {
namespace {

TEST(Foreach, WritesTensorsThatAreNotContiguousAndBumpsVersions) {
  const Tensor base = zeros({3, 2});
  const Tensor x = transpose(base, 0, 1);
  const Tensor step = view(arange(6, DType::float32), {2, 3});
  const uint64_t version = x.version();
  foreach_add_({x}, {step}, 2.0);
  EXPECT_EQ(contiguous(x).to_vector(), (std::vector<double>{0, 2, 4, 6, 8, 10}));
  EXPECT_GT(base.version(), version);
}

TEST(Foreach, TakesExpandedGradients) {
  const Tensor x = zeros({2, 3});
  foreach_sgd_({x}, {expand(ones({1}), {2, 3})}, 0.5);
  EXPECT_EQ(x.to_vector(), std::vector<double>(6, -0.5));
}

TEST(Foreach, RefusesToRunWhereHistoryWouldBeLost) {
  const Tensor x = zeros({2});
  x.requires_grad_();
  EXPECT_THROW(foreach_scale_({x}, 2.0), Error);
  const NoGrad guard;
  EXPECT_NO_THROW(foreach_scale_({x}, 2.0));
}

TEST(Foreach, StepsRefuseTensorsWithTangents) {
  const Tensor x = ones({2});
  const auto with = [&](const auto& write) {
    return jvp(
        [&](const Tensor& y) {
          const NoGrad guard;
          const Tensor z = clone(y);
          write(z);
          return z;
        },
        x, x);
  };
  EXPECT_THROW(with([](const Tensor& z) { foreach_sgd_({z}, {ones({2})}, 1.0); }), Error);
  EXPECT_THROW(with([](const Tensor& z) { foreach_sgd_({ones({2})}, {z}, 1.0); }), Error);
}

using Tensors = std::vector<Tensor>;

/// What two functions of the same tensors say: values, gradients, tangents, and both of gradients.
void expect_alike(const std::function<Tensors(const Tensors&)>& got, const std::function<Tensors(const Tensors&)>& expected,
                  const Tensors& x) {
  const auto near = [](const Tensors& a, const Tensors& b) {
    ASSERT_EQ(a.size(), b.size());
    for (size_t i = 0; i < a.size(); ++i) testing::expect_close(a[i], b[i]);
  };
  const auto like = [](const Tensors& tensors) {
    Tensors result;
    for (const Tensor& tensor : tensors) result.push_back(testing::random_tensor(tensor.sizes()));
    return result;
  };
  const Tensors c = like(expected(x)), t = like(x);
  const auto gradient = [&](const auto& f) { return [&f, &c](const Tensors& at) { return vjp(f, at, c).second; }; };
  near(got(x), expected(x));
  near(vjp(got, x, c).second, vjp(expected, x, c).second);
  near(jvp(got, x, t).second, jvp(expected, x, t).second);
  near(vjp(gradient(got), x, t).second, vjp(gradient(expected), x, t).second);
  near(jvp(gradient(got), x, t).second, jvp(gradient(expected), x, t).second);
}

/// Written in place on tensors with history: `write` on lists, `one` on each.
void expect_recorded(const std::function<void(const Tensors&, const Tensors&)>& write,
                     const std::function<Tensor(const Tensor&, const Tensor&)>& one) {
  const auto lists = [&](const Tensors& x) {
    const Tensors self = {clone(x[0]), clone(x[1])};
    write(self, {x[2], x[3]});
    return self;
  };
  const auto each = [&](const Tensors& x) { return Tensors{one(x[0], x[2]), one(x[1], x[3])}; };
  const auto positive = [](Ints sizes) { return abs(testing::random_tensor(sizes)) + 0.5; };
  expect_alike(lists, each, {positive({3}), positive({2, 2}), positive({3}), positive({2, 2})});
}

TEST(Foreach, WhatIsWrittenInPlaceIsRecordedElementByElement) {
  expect_recorded([](const Tensors& x, const Tensors& y) { foreach_add_(x, y, 0.5); },
                  [](const Tensor& x, const Tensor& y) { return x + y * 0.5; });
  expect_recorded([](const Tensors& x, const Tensors& y) { foreach_mul_(x, y); },
                  [](const Tensor& x, const Tensor& y) { return x * y; });
  expect_recorded([](const Tensors& x, const Tensors&) { foreach_scale_(x, 3); },
                  [](const Tensor& x, const Tensor&) { return x * 3; });
  const Tensor factor = full({}, 3, DType::float64);
  expect_recorded([&](const Tensors& x, const Tensors&) { foreach_scale_(x, factor); },
                  [](const Tensor& x, const Tensor&) { return x * 3; });
  expect_recorded([](const Tensors& x, const Tensors& y) { foreach_addcmul_(x, y, y, 0.5); },
                  [](const Tensor& x, const Tensor& y) { return x + y * y * 0.5; });
  expect_recorded(
      [](const Tensors& x, const Tensors& y) {
        foreach_addcdiv_(x, y, {ones({3}, DType::float64), y[1]}, 0.5);
      },
      [](const Tensor& x, const Tensor& y) { return y.dim() == 1 ? x + y * 0.5 : x + y / y * 0.5; });
  expect_recorded([](const Tensors& x, const Tensors&) { foreach_sqrt_(x); },
                  [](const Tensor& x, const Tensor&) { return sqrt(x); });
  expect_recorded([](const Tensors& x, const Tensors&) { foreach_zero_(x); },
                  [](const Tensor& x, const Tensor&) { return x * 0; });
}

TEST(Foreach, AFactorMayBeATensor) {
  expect_alike(
      [](const Tensors& x) {
        const Tensors self = {clone(x[0]), clone(x[1])};
        foreach_scale_(self, x[2]);
        return self;
      },
      [](const Tensors& x) {
        return Tensors{x[0] * x[2], x[1] * x[2]};
      },
      {testing::random_tensor({3}), testing::random_tensor({2, 2}), testing::random_tensor({})});
  for (const DType of_factor : {DType::float64, DType::float32, DType::bfloat16}) {
    const Tensor factor = full({1}, 0.7, of_factor);
    Tensors by_tensor, by_number;
    for (int64_t i = 0; i < 100; ++i) {
      const DType dtypes[] = {DType::float32, DType::float64, DType::bfloat16, DType::float16};
      const Tensor x = testing::random_tensor({i % 7, 5}).to(dtypes[i % 4]);
      by_tensor.push_back(transpose(x.clone(), 0, 1));
      by_number.push_back(x);
    }
    foreach_scale_(by_tensor, factor);
    foreach_scale_(by_number, factor.item());
    for (size_t i = 0; i < by_number.size(); ++i) testing::expect_equal(transpose(by_tensor[i], 0, 1), by_number[i]);
  }
  const Tensor own = tensor({2.0, 3.0, 5.0});  // the factor is one of the elements
  foreach_scale_({own}, slice(own, 0, 1, 2));
  EXPECT_EQ(own.to_vector(), (std::vector<double>{6, 9, 15}));
  using testing::expect_error;
  expect_error([&] { foreach_scale_({own}, own); }, "foreach_scale_: factor is float64 [3] (expected one floating number)");
  expect_error([&] { foreach_scale_({own}, tensor({int64_t{2}})); }, "factor is int64 [1] (expected one floating number)");
}

TEST(Foreach, ElementsThatShareMemoryGoOneByOne) {
  for (int run = 0; run < 200; ++run) {
    const Tensor x = ones({3}) * 3, factor = ones({3}) * 2;
    foreach_mul_({x, x}, {factor, x});
    ASSERT_EQ(x.to_vector(), std::vector<double>(3, 36));
    foreach_sgd_({x, x}, {factor, x}, 1.0);
    ASSERT_EQ(x.to_vector(), std::vector<double>(3, 0));
    const Tensor base = ones({3, 2}), turned = transpose(base, 0, 1), step = ones({2, 3});
    foreach_add_({turned, turned}, {step, turned});
    ASSERT_EQ(base.to_vector(), std::vector<double>(6, 4));
    const Tensor row = view(arange(6, DType::float32), {6}) + 1;
    foreach_mul_({slice(row, 0, 0, 5)}, {slice(row, 0, 1, 6)});
    ASSERT_EQ(row.to_vector(), (std::vector<double>{2, 6, 12, 20, 30, 6}));
  }
}

// Two lists that a step writes: what the second write makes of the first is nobody's wish.
TEST(Foreach, StepsRefuseATensorThatTheyWouldWriteTwice) {
  const Tensor p = ones({3}), g = ones({3}), m = ones({3}), base = ones({5});
  const std::string shared = "share memory (expected their own)";
  using testing::expect_error;
  expect_error([&] { foreach_adamw_({p}, {g}, {m}, {m}, 0.1, 0.9, 0.99, 1e-8, 0, 1); }, shared);
  expect_error([&] { foreach_adamw_({p}, {g}, {p}, {m}, 0.1, 0.9, 0.99, 1e-8, 0, 1); }, shared);
  expect_error([&] { foreach_sgd_momentum_({p}, {g}, {p}, 0.1, 0.9, 0, 0, false); }, shared);
  expect_error(
      [&] {
        foreach_sgd_momentum_({p, slice(base, 0, 0, 3)}, {g, g}, {m, slice(base, 0, 2, 5)}, 0.1, 0.9, 0, 0, false);
      },
      shared);
  const Tensor counter = zeros({2}, DType::float64);
  expect_error([&] { foreach_adamw_counted_({p}, {g}, {m}, {m}, counter, Tensor(), 0.9, 0.99, 1e-8, 0); }, shared);
  for (const Tensor& tensor : {p, g, m, base})
    EXPECT_EQ(sum(tensor).item(), static_cast<double>(tensor.numel()));  // before any write
  foreach_sgd_momentum_({p}, {p}, {m}, 1.0, 0.5, 0, 0, false);           // what is read may be what is written
  EXPECT_EQ(p.to_vector(), std::vector<double>(3, -0.5));
}

TEST(Foreach, ColumnsOfOneMatrixAreStepped) {
  const Tensor state = testing::random_tensor({5, 4}), gradients = testing::random_tensor({5, 2});
  const auto column = [](const Tensor& of, int64_t i) { return select(of, 1, i); };
  const Tensor squares = square(state);
  const auto step = [&](const std::vector<Tensor>& p, const std::vector<Tensor>& m, const std::vector<Tensor>& v) {
    const std::vector<Tensor> g{column(gradients, 0), column(gradients, 1)};
    foreach_sgd_momentum_(p, g, m, 0.1, 0.9, 0.01, 0, true);
    foreach_adamw_(p, g, m, v, 0.1, 0.9, 0.99, 1e-8, 0.01, 1);
    const Tensor counter = testing::tensor_of({0.1, 1});
    foreach_adamw_counted_(p, g, m, v, counter, Tensor(), 0.9, 0.99, 1e-8, 0.01);
  };
  const auto apart = [](const Tensor& of, std::initializer_list<int64_t> columns) {
    std::vector<Tensor> result;
    for (const int64_t i : columns) result.push_back(clone(select(of, 1, i)));
    return result;
  };
  const std::vector<Tensor> p = apart(state, {0, 2}), m = apart(state, {1, 3}), v = apart(squares, {0, 2});
  step({column(state, 0), column(state, 2)}, {column(state, 1), column(state, 3)}, {column(squares, 0), column(squares, 2)});
  step(p, m, v);
  testing::expect_equal(state, stack({p[0], m[0], p[1], m[1]}, 1));
  testing::expect_equal(select(squares, 1, 2), v[1]);
  EXPECT_THROW(foreach_sgd_momentum_({column(state, 0)}, {column(gradients, 0)}, {column(state, 0)}, 0.1, 0.9), Error);
  const Tensor rows = slice(state, 0, 0, 4), below = slice(state, 0, 1, 5);  // whose columns meet
  EXPECT_THROW(foreach_sgd_momentum_({column(rows, 0)}, {ones({4}, DType::float64)}, {column(below, 0)}, 0.1, 0.9), Error);
}

TEST(Foreach, RefusesUndefinedTensors) {
  const Tensor x = ones({2});
  EXPECT_THROW(foreach_norm({x, Tensor()}), Error);
  EXPECT_THROW(foreach_dot({x, Tensor()}, {x, Tensor()}), Error);
}

TEST(Foreach, RefusesBeforeAnyIsWritten) {
  const Tensor x = ones({2}), leaf = ones({2});
  leaf.requires_grad_();
  EXPECT_THROW(foreach_scale_({x, leaf}, 2.0), Error);
  EXPECT_THROW(foreach_zero_({x, leaf}), Error);
  EXPECT_EQ(x.to_vector(), (std::vector<double>{1, 1}));
}

TEST(Foreach, NormHasDerivativesAndIsZeroWhereTheNormIs) {
  const auto lists = [](const Tensors& x) { return Tensors{foreach_norm(x)}; };
  const auto each = [](const Tensors& x) { return Tensors{stack({norm(x[0]), norm(x[1])}, 0)}; };
  expect_alike(lists, each, {testing::random_tensor({3, 2}), testing::random_tensor({4})});
  expect_alike(lists, each, {zeros({3, 2}, DType::float64), testing::random_tensor({4})});
  const Tensor x = zeros({2});
  x.requires_grad_();
  EXPECT_TRUE(foreach_norm({x}).requires_grad());
}

/// Where products of two elements are infinite, or 0.
TEST(Foreach, TheForwardDerivativeOfHugeAndTinyNormsIsAsLargeAsThey) {
  using Tensors = std::vector<Tensor>;
  const auto lists = [](const Tensors& at) { return Tensors{foreach_norm(at)}; };
  for (const double size : {0x1p700, 0x1p-700, 0x1p-1030}) {
    SCOPED_TRACE(size);
    const Tensor x = testing::random_tensor({40}) * size, y = testing::random_tensor({3, 2}) * size;
    const Tensor t = testing::random_tensor({40}) * size, u = testing::random_tensor({3, 2}) * size;
    const Tensor got = jvp(lists, Tensors{x, y}, Tensors{t, u}).second[0];
    // The derivative does not change with the size of x, and is proportional to that of t.
    const Tensor expected = jvp(lists, Tensors{x / size, y / size}, Tensors{t / size, u / size}).second[0];
    testing::expect_close(got / size, expected, 1e-12, size < 1e-300 ? 1e-9 : 1e-12);
    const Tensor one = ones({3, 2}), beside = jvp(lists, Tensors{one, x}, Tensors{one, t}).second[0];  // float32 and float64
    EXPECT_NEAR(beside.to_vector()[0], std::sqrt(6.0), 1e-6);
    EXPECT_EQ(beside.to_vector()[1], got.to_vector()[0]);
  }
  const Tensor x = testing::random_tensor({5}, DType::float32), t = testing::random_tensor({5}, DType::float32);
  const auto one = [](const Tensors& at) { return Tensors{norm(at[0])}; };
  EXPECT_NEAR(jvp(lists, Tensors{x}, Tensors{t}).second[0].to_vector()[0], jvp(one, Tensors{x}, Tensors{t}).second[0].item(),
              1e-5);
}

TEST(Foreach, GradientsOfSmallNormsInFloat16DoNotOverflow) {
  const Tensor x = to(full({4}, std::ldexp(1.0, -18)), DType::float16).requires_grad_();
  sum(foreach_norm({x})).backward();  // 1 / norm is 2^17, more than float16 has
  EXPECT_EQ(x.grad().dtype(), DType::float16);
  EXPECT_EQ(x.grad().to_vector(), std::vector<double>(4, 0.5));
  const Tensor a = to(full({2}, 0.25), DType::float16).requires_grad_(),
               b = to(full({2}, 0.125), DType::float16).requires_grad_();
  sum(foreach_dot({a}, {b}) * 131'072.0).backward();
  EXPECT_EQ(a.grad().to_vector(), std::vector<double>(2, 16'384));
  EXPECT_EQ(b.grad().to_vector(), std::vector<double>(2, 32'768));
}

/// Counts what is packed and unpacked.
struct Counted {
  int packed = 0;
  int unpacked = 0;
  SavedTensorHooks hooks{[this](const Tensor& tensor) {
                           ++packed;
                           return std::any(tensor);
                         },
                         [this](const std::any& value) {
                           ++unpacked;
                           return std::any_cast<Tensor>(value);
                         }};
};

TEST(Foreach, KeepsAndComputesOnlyWhatItsElementsWant) {
  const Tensor x = ones({2}), y = ones({2});
  x.requires_grad_();
  const Tensors self = {x, ones({3}), ones({2})}, other = {ones({2}), ones({3}), y};
  Tensors result;
  {
    const Counted counted;
    result = foreach_mul(self, other);
    EXPECT_EQ(counted.packed, 1) << "other[0], for the gradient of self[0]";
  }
  EXPECT_TRUE(result[0].requires_grad());
  EXPECT_FALSE(result[1].requires_grad()) << "nothing that it depends on requires a gradient";
  y.requires_grad_();
  const Counted counted;
  result = foreach_mul(self, other);
  EXPECT_EQ(counted.packed, 2);
  result[2].backward(ones({2}));
  EXPECT_EQ(y.grad().to_vector(), (std::vector<double>{1, 1}));
  EXPECT_EQ(counted.unpacked, 1) << "no gradient arrived at the first element";
}

TEST(Foreach, NamesTheListsThatDoNotMatch) {
  try {
    foreach_add_({zeros({2})}, {zeros({3})});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.message(),
              "foreach_add_: tensor 0 of list 1 is float32 [3], that of list 0 is float32 [2] (expected the same)");
  }
}

}  // namespace
}  // namespace deckle
