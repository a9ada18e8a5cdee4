#include <fmt/format.h>

#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "deckle/base/parallel.h"
#include "deckle/kernels/cpu/attention/attention.h"
#include "deckle/kernels/cpu/attention/reference.h"
#include "tests/kernels/cpu/attention/drawn_operands.h"
#include "tests/kernels/cpu/attention/modelled_tiles.h"

namespace deckle::testing {
namespace {

using namespace kernels::cpu;

double inner(const Buffer& a, const Buffer& b) {
  double sum = 0;
  for (int64_t i = 0; i < a.count(); ++i) {
    if (std::isfinite(a.get(i)) && std::isfinite(b.get(i))) sum += a.get(i) * b.get(i);
  }
  return sum;
}
double inner(const Results& a, const Results& b) { return inner(a.out, b.out) + inner(a.lse, b.lse); }
double inner(const Operands& a, const Operands& b) {
  return inner(a.q, b.q) + inner(a.k, b.k) + inner(a.v, b.v) + inner(a.bias, b.bias) + inner(a.slopes, b.slopes) +
         inner(a.sinks, b.sinks) + inner(a.table, b.table);
}

void add_scaled(Buffer& to, const Buffer& from, double factor) {
  for (int64_t i = 0; i < to.count(); ++i) to.put(i, to.get(i) + factor * from.get(i));
}
Operands moved(const AttentionCase& c, Operands x, const Operands& t, double step) {
  add_scaled(x.q, t.q, step), add_scaled(x.k, t.k, step), add_scaled(x.v, t.v, step), add_scaled(x.bias, t.bias, step);
  add_scaled(x.slopes, t.slopes, step), add_scaled(x.sinks, t.sinks, step), add_scaled(x.table, t.table, step);
  c.bind(x);
  return x;
}
Results moved(const AttentionCase& c, Results r, const Results& t, double step) {
  add_scaled(r.out, t.out, step), add_scaled(r.lse, t.lse, step);
  c.bind(r);
  return r;
}

/// (after - before) / (2 step); 0 where both are infinite, NaN where nothing was written.
Buffer slope(const Buffer& after, const Buffer& before, double step) {
  Buffer result = after;
  for (int64_t i = 0; i < after.count(); ++i) {
    result.put(i, std::isinf(after.get(i)) ? 0.0 : (after.get(i) - before.get(i)) / (2 * step));
  }
  return result;
}

TEST(AttentionReference, AgreesWithCentralDifferencesOfItself) {
  Random random(seed() + 20);
  for (int i = 0; i < 30; ++i) {
    AttentionCase c = random_case(random, DType::float64, 25);
    SCOPED_TRACE(describe(c));
    const Operands x = c.operands(DType::float64, c.normal(random)), t = c.operands(DType::float64, c.normal(random));
    const Results g = c.results(DType::float64, c.normal(random)), tg = c.results(DType::float64, c.normal(random));
    const double step = 1e-5;
    const Operands up = moved(c, x, t, step), down = moved(c, x, t, -step);

    Results high = c.results(DType::float64, AttentionCase::poisoned), low = high, result = high, tangent = high;
    c.bind(low), c.bind(result), c.bind(tangent);
    reference::attention_forward(c.problem, up.view, high.view);
    reference::attention_forward(c.problem, down.view, low.view);
    reference::attention_jvp(c.problem, x.view, t.view, result.view, tangent.view);
    EXPECT_LT(relative_error(tangent.out, slope(high.out, low.out, step), 1.0), 1e-7);
    EXPECT_LT(relative_error(tangent.lse, slope(high.lse, low.lse, step), 1.0), 1e-7);

    const Operands a = c.operands(DType::float64, c.normal(random)), along = c.operands(DType::float64, c.normal(random));
    Results high_tangent = tangent, low_tangent = tangent, mixed = tangent;
    c.bind(high_tangent), c.bind(low_tangent), c.bind(mixed);
    reference::attention_jvp(c.problem, up.view, moved(c, a, along, step).view, high.view, high_tangent.view);
    reference::attention_jvp(c.problem, down.view, moved(c, a, along, -step).view, low.view, low_tangent.view);
    reference::attention_mixed(c.problem, x.view, a.view, t.view, along.view, mixed.view);
    EXPECT_LT(relative_error(mixed.out, slope(high_tangent.out, low_tangent.out, step), 1.0), 1e-6);
    EXPECT_LT(relative_error(mixed.lse, slope(high_tangent.lse, low_tangent.lse, step), 1.0), 1e-6);

    Operands gradient = c.operands(DType::float64, AttentionCase::poisoned), high_gradient = gradient, low_gradient = gradient,
             second = gradient;
    c.bind(high_gradient), c.bind(low_gradient), c.bind(second);
    reference::attention_backward(c.problem, x.view, g.view, gradient.view);
    const double adjoint = inner(gradient, t);
    EXPECT_NEAR(inner(g, tangent), adjoint, 1e-9 * (1 + std::abs(adjoint)));
    reference::attention_backward(c.problem, up.view, moved(c, g, tg, step).view, high_gradient.view);
    reference::attention_backward(c.problem, down.view, moved(c, g, tg, -step).view, low_gradient.view);
    reference::attention_second(c.problem, x.view, t.view, g.view, tg.view, second.view);
    EXPECT_LT(relative_error(second.q, slope(high_gradient.q, low_gradient.q, step), 1.0), 1e-6);
    EXPECT_LT(relative_error(second.k, slope(high_gradient.k, low_gradient.k, step), 1.0), 1e-6);
    EXPECT_LT(relative_error(second.v, slope(high_gradient.v, low_gradient.v, step), 1.0), 1e-6);
    EXPECT_LT(relative_error(second.bias, slope(high_gradient.bias, low_gradient.bias, step), 1.0), 1e-6);
    EXPECT_LT(relative_error(second.slopes, slope(high_gradient.slopes, low_gradient.slopes, step), 1.0), 1e-6);
    EXPECT_LT(relative_error(second.sinks, slope(high_gradient.sinks, low_gradient.sinks, step), 1.0), 1e-6);
    EXPECT_LT(relative_error(second.table, slope(high_gradient.table, low_gradient.table, step), 1.0), 1e-6);
    if (HasFailure()) return;
  }
}

/// Tangents, mixed derivatives and second order of drawn operands, tangents and cotangents.
void expect_derivatives_match_the_reference(const AttentionCase& c, Random& random) {
  const DType dtype = c.problem.dtype;
  const AttentionCase wide = c.wide();
  const Operands x = c.operands(dtype, c.normal(random)), wide_x = wide.widen(x);
  Operands t = c.operands(dtype, c.normal(random)), wide_t = wide.widen(t);
  drop_some(random, t, wide_t);
  const Results g = c.results(dtype, c.normal(random)), wide_g = wide.widen(g);
  Results tg = c.results(dtype, c.normal(random)), wide_tg = wide.widen(tg);
  if (chance(random, 0.5)) tg.view = wide_tg.view = {};

  Results expected = wide.results(DType::float64, AttentionCase::poisoned), expected_tangent = expected;
  wide.bind(expected_tangent);
  reference::attention_jvp(wide.problem, wide_x.view, wide_t.view, expected.view, expected_tangent.view);
  Results result = c.results(dtype, AttentionCase::poisoned), tangent = result, again = result;
  c.bind(tangent), c.bind(again);
  attention_jvp({}, c.problem, x.view, t.view, result.view, tangent.view);
  const auto& [type, value, gradient, statistics, second_order] = tolerances(dtype);
  const double term = c.term();
  EXPECT_LT(relative_error(result.out, expected.out, 0.1 * term), value);
  EXPECT_LT(relative_error(result.lse, expected.lse), 3 * statistics);
  EXPECT_LT(noted(dtype, "tangent of out", relative_error(tangent.out, expected_tangent.out, term)), value);
  EXPECT_LT(relative_error(tangent.lse, expected_tangent.lse, 1.0), 9 * statistics);

  Operands a = c.operands(dtype, c.normal(random)), wide_a = wide.widen(a), both = c.operands(dtype, c.normal(random)),
           wide_both = wide.widen(both);
  drop_some(random, a, wide_a);
  drop_some(random, both, wide_both);
  Results expected_mixed = expected, mixed = result;
  wide.bind(expected_mixed), c.bind(mixed);
  reference::attention_mixed(wide.problem, wide_x.view, wide_t.view, wide_a.view, wide_both.view, expected_mixed.view);
  attention_mixed({}, c.problem, x.view, t.view, a.view, both.view, mixed.view);
  // The tangent of a slope is multiplied by distances of hundreds, and second order holds squares of that which cancel.
  const double cancelled = c.has_slopes && dtype == DType::float32 ? 4 : 1;
  EXPECT_LT(noted(dtype, "second order", relative_error(mixed.out, expected_mixed.out, term)), cancelled * second_order);
  EXPECT_LT(relative_error(mixed.lse, expected_mixed.lse, 1.0), 90 * statistics);

  Operands expected_second = wide.operands(DType::float64, AttentionCase::poisoned);
  reference::attention_second(wide.problem, wide_x.view, wide_t.view, wide_g.view, wide_tg.view, expected_second.view);
  Operands second = c.operands(dtype, AttentionCase::poisoned);
  attention_second({}, c.problem, x.view, t.view, result.view, g.view, tg.view, second.view, again.view);
  EXPECT_TRUE(again.out == tangent.out && again.lse == tangent.lse);
  for (const auto& [got, wanted] :
       {std::pair(&second.q, &expected_second.q), {&second.k, &expected_second.k}, {&second.v, &expected_second.v}}) {
    noted(dtype, "second order", relative_error(*got, *wanted, term));
  }
  expect_close(c, second, expected_second, second_order);
}

TEST(AttentionDerivatives, TangentAndSecondOrderMatchTheReference) {
  Random random(seed() + 21);
  DistinctCases cases;
  for (int i = 0; i < combinations(200); ++i) {
    AttentionCase c = cases.next([&] { return random_case(random, kDrawnDTypes[i % 6], longest_of(i)); });
    c.layout();
    SCOPED_TRACE(fmt::format("combination {}: {}", i, describe(c)));
    expect_derivatives_match_the_reference(c, random);
    if (HasFailure()) return;
  }
}

TEST(AttentionOnTiles, TangentAndSecondOrderMatchTheReference) {
  if (!has_vectors_of_tiles()) GTEST_SKIP() << "no AVX512-BF16";
  const ModelledTiles model;
  Random random(seed() + 45);
  DistinctCases cases;
  for (int i = 0; i < combinations(60); ++i) {
    AttentionCase c = cases.next([&] { return random_case(random, DType::bfloat16, longest_of(i)); });
    c.layout();
    SCOPED_TRACE(fmt::format("combination {}: {}", i, describe(c)));
    expect_derivatives_match_the_reference(c, random);
    if (HasFailure()) return;
  }
  for (int64_t dim : {64, 128, 96}) {  // whole tiles, several tiles of rows and blocks of keys, no features
    AttentionCase c;
    c.add_sequence(160, 290);
    c.problem.dtype = DType::bfloat16;
    c.problem.heads = 2, c.problem.kv_heads = 1;
    c.problem.head_dim = c.problem.value_dim = dim;
    c.problem.scale = 1 / std::sqrt(static_cast<double>(dim));
    c.problem.causal = dim == 64;
    c.layout();
    SCOPED_TRACE(describe(c));
    expect_derivatives_match_the_reference(c, random);
    if (HasFailure()) return;
  }
}

TEST(AttentionOnTiles, SecondOrderOfRowsThatSeeNothingIgnoresWhateverArrives) {
  if (!has_vectors_of_tiles()) GTEST_SKIP() << "no AVX512-BF16";
  const ModelledTiles model;
  Random random(seed() + 46);
  AttentionCase c;
  c.add_sequence(60, 20);  // bottom-right causal: the first 40 rows see nothing
  c.problem.dtype = DType::bfloat16;
  c.problem.heads = c.problem.kv_heads = 1;
  c.problem.head_dim = c.problem.value_dim = 8;
  c.problem.causal = true;
  c.layout();
  const Operands x = c.operands(DType::bfloat16, c.normal(random));
  Operands t = c.operands(DType::bfloat16, c.normal(random));
  Results g = c.results(DType::bfloat16, c.normal(random)), tg = c.results(DType::bfloat16, c.normal(random));
  Results result = c.results(DType::bfloat16, AttentionCase::poisoned);
  attention_forward({}, c.problem, x.view, result.view);
  const auto second = [&] {
    Operands got = c.operands(DType::bfloat16, AttentionCase::poisoned);
    attention_second({}, c.problem, x.view, t.view, result.view, g.view, tg.view, got.view, {});
    return got;
  };
  const Operands expected = second();
  for (int64_t i = 0; i < 40 * 8; ++i) {
    for (Buffer* of : {&t.q, &g.out, &tg.out}) of->put(i, std::nan(""));
  }
  for (int64_t i = 0; i < 40; ++i) {
    for (Buffer* of : {&g.lse, &tg.lse}) of->put(i, INFINITY);
  }
  const Operands got = second();
  EXPECT_TRUE(got.q == expected.q && got.k == expected.k && got.v == expected.v);
  for (int64_t i = 0; i < 40 * 8; ++i) EXPECT_EQ(got.q.get(i), 0.0);
  for (const Buffer* of : {&got.q, &got.k, &got.v}) {
    for (int64_t i = 0; i < of->count(); ++i) ASSERT_TRUE(std::isfinite(of->get(i))) << i;
  }
}

TEST(AttentionOnTiles, ComputesOnlyTheSecondOrderThatIsWanted) {
  if (!has_vectors_of_tiles()) GTEST_SKIP() << "no AVX512-BF16";
  const ModelledTiles model;
  Random random(seed() + 47);
  AttentionCase c;
  c.add_sequence(90, 70);
  c.problem.dtype = DType::bfloat16;
  c.problem.heads = c.problem.kv_heads = 2;
  c.problem.head_dim = 16, c.problem.value_dim = 24;
  c.layout();
  const Operands x = c.operands(DType::bfloat16, c.normal(random)), t = c.operands(DType::bfloat16, c.normal(random));
  const Results g = c.results(DType::bfloat16, c.normal(random)), tg = c.results(DType::bfloat16, c.normal(random));
  Results result = c.results(DType::bfloat16, AttentionCase::poisoned);
  attention_forward({}, c.problem, x.view, result.view);
  Operands all = c.operands(DType::bfloat16, AttentionCase::poisoned);
  attention_second({}, c.problem, x.view, t.view, result.view, g.view, tg.view, all.view, {});
  for (int wanted = 0; wanted < 8; ++wanted) {
    Operands some = c.operands(DType::bfloat16, AttentionCase::poisoned);
    const Operands untouched = some;
    if (!(wanted & 1)) some.view.q.data = nullptr;
    if (!(wanted & 2)) some.view.k.data = nullptr;
    if (!(wanted & 4)) some.view.v.data = nullptr;
    attention_second({}, c.problem, x.view, t.view, result.view, g.view, tg.view, some.view, {});
    EXPECT_TRUE(some.q == (wanted & 1 ? all.q : untouched.q)) << wanted;
    EXPECT_TRUE(some.k == (wanted & 2 ? all.k : untouched.k)) << wanted;
    EXPECT_TRUE(some.v == (wanted & 4 ? all.v : untouched.v)) << wanted;
  }
}

TEST(AttentionDerivatives, AreSymmetricAndAdjoint) {
  Random random(seed() + 22);
  for (int i = 0; i < 40; ++i) {
    AttentionCase c = random_case(random, DType::float64, 60);
    SCOPED_TRACE(describe(c));
    const Operands x = c.operands(DType::float64, c.normal(random)), t = c.operands(DType::float64, c.normal(random)),
                   w = c.operands(DType::float64, c.normal(random));
    const Results g = c.results(DType::float64, c.normal(random));
    Results result = c.results(DType::float64, AttentionCase::poisoned), tangent = result;
    c.bind(tangent);
    attention_jvp({}, c.problem, x.view, t.view, result.view, tangent.view);
    Operands gradient = c.operands(DType::float64, AttentionCase::poisoned), along_t = gradient, along_w = gradient;
    c.bind(along_t), c.bind(along_w);
    attention_backward({}, c.problem, x.view, result.view, g.view, gradient.view);
    const double expected = inner(gradient, t);
    EXPECT_NEAR(inner(g, tangent), expected, 1e-10 * (1 + std::abs(expected)));
    attention_second({}, c.problem, x.view, t.view, result.view, g.view, {}, along_t.view, {});
    attention_second({}, c.problem, x.view, w.view, result.view, g.view, {}, along_w.view, {});
    const double curvature = inner(w, along_t);
    EXPECT_NEAR(inner(t, along_w), curvature, 1e-9 * (1 + std::abs(curvature)));
    if (HasFailure()) return;
  }
}

void expect_equal_bits_for_any_number_of_threads(DType dtype) {
  Random random(seed() + 23);
  AttentionCase c;
  c.problem.dtype = dtype;
  for (int64_t length : {300, 0, 33, 700}) c.add_sequence(length, length / 2 + 300);
  c.problem.heads = 4;
  c.problem.kv_heads = 2;
  c.problem.head_dim = c.problem.value_dim = 24;
  c.problem.scale = 0.2;
  c.has_slopes = c.has_table = c.has_sinks = c.has_bias = true;
  c.problem.table_reach = 7;
  c.bias = {nullptr, 0, 0, 650, 1};
  c.bias_size = 700 * 650;
  c.layout();
  const int before = num_threads();
  const Operands x = c.operands(dtype, c.normal(random)), t = c.operands(dtype, c.normal(random));
  const Results g = c.results(dtype, c.normal(random));
  Operands first;
  for (int threads : {1, 2, 3, 8, 16}) {
    set_num_threads(threads);
    Results result = c.results(dtype, AttentionCase::poisoned);
    attention_forward({}, c.problem, x.view, result.view);
    Operands second = c.operands(dtype, AttentionCase::poisoned);
    attention_second({}, c.problem, x.view, t.view, result.view, g.view, {}, second.view, {});
    if (threads == 1) {
      first = second;
    } else {
      EXPECT_TRUE(second.q == first.q && second.k == first.k && second.v == first.v && second.bias == first.bias &&
                  second.slopes == first.slopes && second.table == first.table && second.sinks == first.sinks)
          << threads;
    }
  }
  set_num_threads(before);
}

TEST(AttentionDerivatives, BitEqualForAnyNumberOfThreads) {
  for (const DType dtype : {DType::float32, DType::bfloat16}) expect_equal_bits_for_any_number_of_threads(dtype);
  if (!has_vectors_of_tiles() || bf16_arithmetic() == Bf16Arithmetic::tiles) return;
  const ModelledTiles model;
  expect_equal_bits_for_any_number_of_threads(DType::bfloat16);
}

}  // namespace
}  // namespace deckle::testing
