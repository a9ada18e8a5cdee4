// What samples do not say of reductions, norms and elementwise ops: messages, dtypes, ties, zeros.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

#include "deckle/base/error.h"
#include "deckle/core/from_data.h"
#include "deckle/core/tensor_impl.h"
#include "deckle/functional/transforms.h"
#include "deckle/nested/generated/reduce.h"
#include "deckle/ops/generated/factory.h"
#include "deckle/ops/generated/foreach.h"
#include "deckle/ops/generated/index.h"
#include "deckle/ops/generated/norm.h"
#include "deckle/ops/generated/pointwise.h"
#include "deckle/ops/generated/reduce.h"
#include "deckle/ops/generated/shape.h"
#include "tests/support/expect.h"

namespace deckle {
namespace {

using testing::error_of;
using Values = std::vector<double>;

Tensor integers() { return view(arange(6), {2, 3}); }
Tensor floats() { return to(integers(), DType::float32); }

Tensor vector_of(const Values& values) { return tensor(values); }

TEST(Reductions, NameWhatIsWrong) {
  EXPECT_EQ(error_of([] { softmax(floats(), 3); }), "softmax: dim 3 is out of range for shape [2, 3] (expected -2..1)");
  EXPECT_EQ(error_of([] { sum(floats(), Ints{1, -1}); }), "sum: dim -1 is given twice in [1, -1] (expected different dims)");
  EXPECT_EQ(error_of([] {
              amax(zeros({2, 0}), Ints{1});
            }),
            "amax: self of shape [2, 0] has no elements to choose from (expected one or more)");
  EXPECT_EQ(error_of([] {
              argmax(zeros({2, 0}), 1);
            }),
            "argmax: self is [2, 0], and a row of no elements has no largest one (expected one or more)");
  EXPECT_EQ(error_of([] { softmax(integers(), 1); }), "softmax: self is int64 (expected a floating dtype)");
  EXPECT_EQ(error_of([] { mean(integers()); }), "mean: self is int64 (expected a floating dtype)");
  EXPECT_EQ(error_of([] { layer_norm(floats(), zeros({4})); }),
            "layer_norm: weight has shape [4] (expected [3], the last dim of self [2, 3])");
  EXPECT_EQ(error_of([] { rms_norm(zeros({})); }), "rms_norm: self has shape [] (expected a last dim to normalise)");
}

TEST(Reductions, OfIntegersAndBoolAddUpToInt64) {
  const Tensor flags = gt(integers(), 2);
  EXPECT_EQ(sum(flags).dtype(), DType::int64);
  EXPECT_EQ(sum(flags).to_vector(), (Values{3}));
  EXPECT_EQ(cumsum(flags, 1).to_vector(), (Values{0, 0, 0, 1, 2, 3}));
  EXPECT_EQ(prod(integers(), Ints{1}).to_vector(), (Values{0, 60}));
  EXPECT_EQ(all(integers(), Ints{0}).to_vector(), (Values{0, 1, 1}));
  EXPECT_EQ(any(integers()).dtype(), DType::bool_);
}

TEST(Reductions, OfNothing) {
  EXPECT_EQ(sum(zeros({2, 0}), Ints{1}).to_vector(), (Values{0, 0}));
  EXPECT_EQ(prod(zeros({2, 0}), Ints{1}).to_vector(), (Values{1, 1}));
  EXPECT_TRUE(std::isnan(mean(zeros({2, 0}), Ints{1}).to_vector()[0]));
  EXPECT_EQ(logsumexp(zeros({2, 0}), 1).to_vector()[0], -std::numeric_limits<double>::infinity());
  EXPECT_EQ(amax(zeros({0, 2}), Ints{1}).numel(), 0);
}

TEST(Reductions, SumsThatLeaveFloatOnTheWayComeBack) {
  const float large = 3e38f;
  for (const int64_t n : {1, 3, 40, 600}) {  // of rows, and of each layout of columns
    const Tensor x = reshape(tensor({large, large, -large, -large}), {4, 1}).expand({4, n}).contiguous();
    for (const double value : sum(x, Ints{0}).to_vector()) EXPECT_EQ(value, 0) << n;
    for (const double value : mean(x.slice(0, 0, 2), Ints{0}).to_vector()) EXPECT_EQ(value, large) << n;
    const Tensor rows = x.t().contiguous();
    for (const double value : sum(rows, Ints{1}).to_vector()) EXPECT_EQ(value, 0) << n;
    for (const double value : mean(rows.slice(1, 0, 2), Ints{1}).to_vector()) EXPECT_EQ(value, large) << n;
    EXPECT_EQ(mean(x.slice(0, 0, 2)).item(), large) << n;
    EXPECT_EQ(mean(x.to(DType::bfloat16).slice(0, 0, 2)).item(), x.to(DType::bfloat16)[0][0].item()) << n;
    EXPECT_EQ(sum(x.slice(0, 0, 2)).item(), INFINITY) << n;
    const NestedTensor nested = NestedTensor::from_lengths(x, {2, 0, 2});
    EXPECT_EQ(mean(nested, Ints{1}).values().to_vector()[0], large) << n;
  }
  const Tensor infinite = tensor({1.0f, INFINITY, 3.0f, -INFINITY});
  EXPECT_EQ(sum(infinite.slice(0, 0, 3)).item(), INFINITY);
  EXPECT_TRUE(std::isnan(sum(infinite).item()));
}

TEST(Reductions, MeansOfDoublesWhoseSumLeavesTheRange) {
  const double large = 1.7e308;
  for (const int64_t n : {1, 3, 40, 600}) {  // of rows, and of each layout of columns
    for (const int64_t times : {1, 30, 3000}) {
      const Tensor x = contiguous(vector_of({large, large, -large, large}).unsqueeze(1).repeat({times, n}));
      for (const Tensor& means : {mean(x, Ints{0}), mean(contiguous(x.t()), Ints{1}), mean(x.t(), Ints{1}),
                                  mean(NestedTensor::from_lengths(x, {4 * times}), Ints{1}).values()}) {
        for (const double value : flatten(means).to_vector()) EXPECT_NEAR(value / large, 0.5, 1e-14) << n << " x " << times;
      }
    }
  }
  EXPECT_EQ(mean(vector_of({large, large, INFINITY})).item(), INFINITY);
  EXPECT_TRUE(std::isnan(mean(vector_of({large, INFINITY, -INFINITY})).item()));
}

TEST(Reductions, EqualLargestElementsShareTheGradient) {
  const Tensor x = vector_of({1, 4, 2, 4}).requires_grad_();
  EXPECT_EQ(grad(amax(x), {x})[0].to_vector(), (Values{0, 0.5, 0, 0.5}));
  const auto [values, indices] = max(x, 0);
  EXPECT_EQ(indices.to_vector(), (Values{1}));
  EXPECT_EQ(grad(values, {x})[0].to_vector(), (Values{0, 1, 0, 0}));
}

TEST(Norms, OfGradientsWhoseSumLeavesFloat) {
  const Tensor x = tensor({{0.0f, 1.0f}}), g = tensor({{3e38f, 3e38f}});
  const Tensor dx = std::get<0>(layer_norm_backward(g, x, Tensor(), 1e-5));
  for (const double value : dx.to_vector()) EXPECT_LE(std::abs(value), 1e33);
}

Tensor halves(const Values& values) { return to(vector_of(values), DType::float16); }

TEST(Reductions, OfHalvesDoNotOverflowOnTheWay) {
  EXPECT_NEAR(norm(halves({300, 300, 300, 300, 300})).item(), 670.8, 0.3);
  EXPECT_NEAR(deckle::std(halves({300, -300, 300, -300})).item(), 346.4, 0.2);
  for (const DType dtype : {DType::float16, DType::bfloat16}) {
    const Tensor equal = to(zeros({100'000}), dtype).requires_grad_();
    EXPECT_NEAR(sum(to(grad(amax(equal), {equal})[0], DType::float64)).item(), 1, 0.005)
        << name(dtype) << ": ties share the gradient";
    EXPECT_EQ(jvp([](const Tensor& x) { return amin(x); }, equal.detach(), ones_like(equal.detach())).second.item(), 1);
  }
}

TEST(Reductions, HaveNoSlopeWhereTheirRootIsZero) {
  for (const auto& [f, x] : {std::pair(
                                 +[](const Tensor& t) { return norm(t); }, vector_of({0, 0, 0})),
                             std::pair(
                                 +[](const Tensor& t) { return deckle::std(t); }, vector_of({7, 7, 7}))}) {
    const Tensor input = x.detach().requires_grad_();
    const Tensor slope = grad(f(input), {input}, {.create_graph = true})[0];
    EXPECT_EQ(slope.to_vector(), (Values{0, 0, 0}));
    EXPECT_EQ(grad(sum(slope * vector_of({1, 2, 3})), {input})[0].to_vector(), (Values{0, 0, 0}));
    EXPECT_EQ(jvp(f, x, vector_of({1, 2, 3})).second.item(), 0);
  }
}

TEST(Cumsum, KeepsWhatLargeTermsWouldAbsorb) {
  const Values terms = {1e16, 1, -1e16, 1e16, 1, -1e16};
  for (const DType dtype : {DType::float32, DType::float64}) {
    const Tensor x = to(vector_of(terms), dtype);
    const auto last = [](const Tensor& running, int64_t at) { return select(running, 0, at).item(); };
    EXPECT_EQ(last(cumsum(x, 0), 5), 2) << name(dtype);
    EXPECT_EQ(last(cumsum(x, 0), 2), 1) << name(dtype);
    EXPECT_EQ(last(cumsum(x, 0, true), 0), 2) << name(dtype);
    for (const int64_t columns : {3, 16, 1000}) {
      const Tensor side_by_side = contiguous(expand(view(x, {6, 1}), {6, columns}));
      for (const bool reverse : {false, true})
        EXPECT_EQ(select(cumsum(side_by_side, 0, reverse), 0, reverse ? 0 : 5).to_vector(), Values(columns, 2)) << columns;
      const NestedTensor ragged = NestedTensor::from_lengths(cat({side_by_side, side_by_side}, 0), {6, 0, 6});
      EXPECT_EQ(select(cumsum(ragged, 1).values(), 0, 11).to_vector(), Values(columns, 2)) << columns;
    }
    const Tensor many =
        expand(view(to(vector_of({1e16, 1, -1e16}), dtype), {1, 3}), {40'000, 3}).reshape({120'000});  // several pieces
    EXPECT_EQ(last(cumsum(many, 0), -1), 40'000) << name(dtype);
    EXPECT_EQ(last(cumsum(many, 0, true), 0), 40'000) << name(dtype);
  }
}

TEST(Cumsum, OfAnyLengthIsThatOfIntegers) {
  for (const int64_t length : {0, 1, 63, 64, 65, 128, 200, 40'000}) {
    const Tensor x = sub(mul(arange(length), 3), length);
    for (const bool reverse : {false, true}) {
      const Values expected = cumsum(x, 0, reverse).to_vector();
      EXPECT_EQ(cumsum(to(x, DType::float64), 0, reverse).to_vector(), expected) << length;
      EXPECT_EQ(cumsum(contiguous(to(x, DType::float64)), 0, reverse).to_vector(), expected) << length;
      const Tensor columns = contiguous(expand(view(to(x, DType::float64), {length, 1}), {length, 17}));
      EXPECT_EQ(select(cumsum(columns, 0, reverse), 1, 16).to_vector(), expected) << length;
    }
  }
  const double inf = std::numeric_limits<double>::infinity();
  EXPECT_EQ(cumsum(vector_of({1, inf, 2, 3}), 0).to_vector(), (Values{1, inf, inf, inf}));
  EXPECT_TRUE(std::isnan(cumsum(vector_of({1, inf, -inf, 3}), 0).to_vector()[3]));
}

/// Of {3 u, 4 u}: the value, the slopes in both modes, dense and ragged.
void expect_norm_of(double u, DType dtype) {
  const Tensor x = to(vector_of({3 * u, 4 * u}), dtype);
  const double precision = std::max(dtype == DType::float32 ? 1e-6 : 1e-14, (dtype == DType::float32 ? 0x1p-149 : 0x1p-1074) / u);
  const auto check = [&](const char* what, const std::function<Tensor(const Tensor&)>& f) {
    EXPECT_NEAR(f(x).item() / u, 5, 5 * precision) << what << " " << u;
    const Values slope = grad([&](const Tensor& y) { return sum(f(y)); }, x).to_vector();
    EXPECT_NEAR(slope[0], 0.6, precision) << what << " " << u;
    EXPECT_NEAR(slope[1], 0.8, precision) << what << " " << u;
    EXPECT_NEAR(jvp(f, x, to(vector_of({1, 1}), dtype)).second.item(), 1.4, 2 * precision) << what << " " << u;
  };
  check("norm", [](const Tensor& y) { return norm(y); });
  check("norm of rows", [](const Tensor& y) { return norm(view(y, {1, 2}), {1}, true); });
  check("foreach_norm", [](const Tensor& y) { return foreach_norm({y}); });
  check("ragged", [](const Tensor& y) { return norm(NestedTensor::from_lengths(y, {2}), {1}).values(); });
}

TEST(Norms, OfNumbersOfAnySizeHaveTheirSlope) {
  for (const double u : {1e37, 1e20, 1.0, 1e-20, 1e-37, 1e-39, 1e-42}) expect_norm_of(u, DType::float32);
  for (const double u : {1e200, 1e100, 1e-100, 1e-150, 1e-200, 1e-300}) expect_norm_of(u, DType::float64);
  const Tensor x = to(vector_of({1e-39, 3e-39}), DType::float32);
  const auto spread = [](const Tensor& y) { return deckle::std(y, std::nullopt, {.correction = 0}); };
  const Values slope = grad(spread, x).to_vector();
  EXPECT_NEAR(slope[0], -0.5, 1e-5);
  EXPECT_NEAR(slope[1], 0.5, 1e-5);
}

/// Of {u, 3 u}, whose squares leave float64: the value and the slopes in both modes, of rows, columns and components.
TEST(Spread, OfNumbersOfAnySizeHasItsSlope) {
  for (const double u : {5.9e307, 1e307, 1e200, 1e155, 1e-155, 1e-200, 1e-300}) {
    const Tensor x = vector_of({u, 3 * u});
    const auto check = [&](const char* what, const std::function<Tensor(const Tensor&)>& f) {
      SCOPED_TRACE(::testing::Message() << what << " of " << u);
      for (const double value : flatten(f(x)).to_vector()) EXPECT_NEAR(value / u, 1, 1e-14);
      const double copies = static_cast<double>(f(x).numel());
      const Values slope = grad([&](const Tensor& y) { return sum(f(y)); }, x).to_vector();
      EXPECT_NEAR(slope[0] / copies, -0.5, 1e-14);
      EXPECT_NEAR(slope[1] / copies, 0.5, 1e-14);
      EXPECT_NEAR(sum(jvp(f, x, vector_of({1, 3})).second).item() / copies, 1, 1e-14);
    };
    const StdOptions whole{.correction = 0};
    check("std", [&](const Tensor& y) { return deckle::std(y, std::nullopt, whole); });
    check("rows", [&](const Tensor& y) { return deckle::std(y.unsqueeze(0).expand({40, 2}), {1}, whole); });
    check("columns", [&](const Tensor& y) { return deckle::std(y.unsqueeze(1).expand({2, 40}), {0}, whole); });
    check("dense columns", [&](const Tensor& y) { return deckle::std(contiguous(y.unsqueeze(1).expand({2, 40})), {0}, whole); });
    check("ragged", [&](const Tensor& y) { return deckle::std(NestedTensor::from_lengths(y, {2}), {1}, whole).values(); });
    const auto variance = [&](const Tensor& y) { return var(y, std::nullopt, {.correction = 0}); };
    EXPECT_NEAR(grad(variance, x).to_vector()[1] / u, 1, 1e-14) << u;
  }
  EXPECT_NEAR(var(vector_of({1.3e154, -1.3e154}), std::nullopt, {.correction = 0}).item(), 1.69e308, 1e294);
}

TEST(Norms, CurvatureOfHalvesStaysFinite) {
  // 1 / rms reaches 316 (eps is 1e-5), and its cube 3e7.
  const auto curvature = [](DType dtype) {
    const Tensor x = full({1, 4}, 0.01, DType::float64);
    return rms_norm_curvature(to(x, dtype), to(x, dtype), to(x, dtype), 1e-5).to_vector()[0];
  };
  const double exact = curvature(DType::float64);
  EXPECT_NEAR(curvature(DType::float16), exact, 2e-3 * std::abs(exact));
  EXPECT_NEAR(curvature(DType::bfloat16), exact, 2e-2 * std::abs(exact));
}

TEST(Elementwise, APowerOfZeroHasNoSlopeInItsExponent) {
  const Tensor exponent = vector_of({0, 1, 2}).requires_grad_();
  EXPECT_EQ(grad(sum(pow(zeros({3}, DType::float64), exponent)), {exponent})[0].to_vector(), (Values{0, 0, 0}));
}

TEST(Reductions, EveryDerivativeOfAProductWithZerosIsRight) {
  const Tensor x = vector_of({0, 2, 0, 3}).requires_grad_();
  const Tensor first = grad(prod(x), {x}, {.create_graph = true})[0];
  EXPECT_EQ(first.to_vector(), (Values{0, 0, 0, 0}));
  EXPECT_EQ(grad(sum(first * vector_of({1, 0, 0, 0})), {x})[0].to_vector(), (Values{0, 0, 6, 0}));
}

TEST(Elementwise, PromotesAsPyTorchDoes) {
  EXPECT_EQ(add(integers(), 1.5).dtype(), DType::float32);
  EXPECT_EQ(mul(integers(), 2).dtype(), DType::int64);
  EXPECT_EQ(div(integers(), 2).to_vector(), (Values{0, 0.5, 1, 1.5, 2, 2.5}));
  EXPECT_EQ(add(to(floats(), DType::float64), floats()).dtype(), DType::float64);
  EXPECT_EQ(add(to(floats(), DType::bfloat16), to(floats(), DType::float16)).dtype(), DType::float32);
  EXPECT_EQ(masked_fill(integers(), gt(integers(), 2), 7).to_vector(), (Values{0, 1, 2, 7, 7, 7}));
  const Tensor flags = gt(integers(), 2);
  EXPECT_EQ(add(flags, flags).dtype(), DType::bool_);
  EXPECT_EQ(error_of([&] { sub(flags, flags); }),
            "sub: the operands are bool, which has no arithmetic (expected a numeric dtype)");
  EXPECT_EQ(error_of([] {
              const Tensor x = clone(integers());
              add_(x, 0.5);
            }),
            "add_: the result is float32 and cannot be written into int64 (expected a dtype that holds it)");
  EXPECT_EQ(error_of([] { add(floats(), zeros({4})); }), "add: shapes [2, 3] and [4] do not broadcast (dim -1: 3 against 4)");
}

TEST(Elementwise, TakesNumbersThatAreNoIntegers) {
  const double inf = std::numeric_limits<double>::infinity();
  EXPECT_EQ(masked_fill(floats(), gt(floats(), 1), -inf).to_vector(), (Values{0, 1, -inf, -inf, -inf, -inf}));
  EXPECT_EQ(clamp_max(integers(), 1e30).to_vector(), integers().to_vector());
}

TEST(Elementwise, WritesThroughViewsInPlace) {
  const Tensor x = sub(floats(), 2);
  relu_(transpose(x, 0, 1));
  EXPECT_EQ(x.to_vector(), (Values{0, 0, 0, 1, 2, 3}));
}

TEST(Prod, OfAnyNumberOfElementsIsTheProduct) {
  for (const int64_t n : {0, 1, 3, 15, 16, 17, 511, 512, 513, 1030, 40'000}) {
    const Tensor x = empty({2, n}, DType::float64);
    long double expected[2] = {1, 1};
    for (int64_t i = 0; i < 2 * n; ++i)
      expected[i / n] *= x.data<double>()[i] = (i % 3 == 0 ? -1 : 1) * (1 + 0.3 * std::sin(static_cast<double>(i)));
    for (const double tolerance : {1e-12, 1e-4}) {
      const Tensor y = tolerance < 1e-6 ? x : x.to(DType::float32), rows = prod(y, {1}), columns = prod(y.T(), {0});
      for (int64_t r = 0; r < 2; ++r) {
        const auto value = static_cast<double>(expected[r]);
        EXPECT_NEAR(rows.to_vector()[static_cast<size_t>(r)], value, tolerance * (std::abs(value) + 1)) << n;
        EXPECT_NEAR(columns.to_vector()[static_cast<size_t>(r)], value, tolerance * (std::abs(value) + 1)) << n;
      }
    }
  }
}

/// Whether they stand in a row, in columns, in pieces of a long row or in components.
TEST(Prod, HasOneAccuracyInEveryLayout) {
  const Tensor x = tensor(Values{1e200, 1e200, 1e-200, 1e-200, 3}).to(DType::float64), rows = x.unsqueeze(0).expand({40, 5});
  const Tensor columns = contiguous(x.unsqueeze(1).expand({5, 40})), few = contiguous(x.unsqueeze(1).expand({5, 2}));
  const Tensor long_row = cat({full({200'000}, 1e3, DType::float64), full({200'000}, 1e-3, DType::float64), x});
  for (const Tensor& result : {prod(rows, {1}), prod(columns, {0}), prod(few, {0}), prod(columns.T(), {1}), prod(long_row),
                               prod(NestedTensor::from_lengths(columns, {5, 0}), {1}).values().slice(0, 0, 1),
                               prod(NestedTensor::from_lengths(x, {5}), {1}).values()}) {
    for (const double value : flatten(result).to_vector()) EXPECT_NEAR(value, 3, 1e-9);
  }
  EXPECT_EQ(prod(cat({x, full({1}, 1e300, DType::float64), full({1}, 1e300, DType::float64)})).item(),
            std::numeric_limits<double>::infinity());
}

TEST(Sum, OfIntegersIsModulo2To64) {
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max(), kLeast = std::numeric_limits<int64_t>::min();
  const Tensor row = empty({2}, DType::int64);
  row.data<int64_t>()[0] = kMost, row.data<int64_t>()[1] = 1;
  const Tensor columns = contiguous(row.unsqueeze(1).expand({2, 40}));
  for (const Tensor& result : {sum(row), sum(columns, {0}), sum(columns.T(), {1}), select(cumsum(row, 0), 0, 1),
                               select(cumsum(columns, 0), 0, 1), sum(NestedTensor::from_lengths(columns, {2}), {1}).values(),
                               slice(cumsum(NestedTensor::from_lengths(columns, {2}), 1).values(), 0, 1, 2)}) {
    const Tensor flat = contiguous(flatten(result));
    for (int64_t i = 0; i < flat.numel(); ++i) EXPECT_EQ(flat.data<int64_t>()[i], kLeast);
  }
}

/// Large elements are not multiplied with large ones only because of where they stand.
TEST(Prod, OfElementsAtTheBoundsOfAChainIsTheProduct) {
  std::vector<float> numbers(2040, 1);
  for (size_t i = 0; i < 1016; ++i) {
    numbers[i] = 0x1p31f;
    numbers[2039 - i] = 0x1p-31f;
  }
  EXPECT_EQ(prod(tensor(numbers)).item(), 1);
}

TEST(Prod, NeitherOverflowsNorVanishesOnItsWay) {
  for (const double large : {1e37, 1e200}) {
    const Tensor x = empty({3000}, large > 1e100 ? DType::float64 : DType::float32);
    visit_floating(x.dtype(), [&]<typename T>(TypeTag<T>) {
      for (int64_t i = 0; i < 3000; ++i) {
        if constexpr (sizeof(T) >= 4) x.data<T>()[i] = static_cast<T>(i % 2 == 0 ? large : 1 / large);
      }
    });
    EXPECT_NEAR(prod(x).item(), 1, 1e-3);
    fill_(x.select(0, 5), 0.0);
    EXPECT_EQ(prod(x).item(), 0);
    EXPECT_EQ(prod(slice(x, 0, 0, 40)).item(), 0);
    fill_(x.select(0, 700), std::numeric_limits<double>::infinity());
    EXPECT_TRUE(std::isnan(prod(x).item()));
  }
}

}  // namespace
}  // namespace deckle
