// The general kernels against the definition in float64, in every derivative, on random combinations of features.
#include <fmt/format.h>

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "deckle/kernels/cpu/attention/reference.h"
#include "tests/kernels/general_attention/device_case.h"

namespace deckle::testing {
namespace {

namespace reference = kernels::cpu::reference;

/// `term`: the size of single terms, where results cancel.
void expect_close(const Operands& got, const Operands& expected, double limit, double term) {
  EXPECT_LT(relative_error(got.q, expected.q, term), limit);
  EXPECT_LT(relative_error(got.k, expected.k, term), limit);
  EXPECT_LT(relative_error(got.v, expected.v, term), limit);
  // Sums over many elements that nearly cancel: the error is relative to the terms.
  const double floor = 3.0 * term;
  EXPECT_LT(relative_error(got.bias, expected.bias, floor), 10 * limit);
  EXPECT_LT(relative_error(got.slopes, expected.slopes, floor), 10 * limit);
  EXPECT_LT(relative_error(got.sinks, expected.sinks, floor), 10 * limit);
  EXPECT_LT(relative_error(got.table, expected.table, floor), 10 * limit);
}

bool bit_equal(const Operands& a, const Operands& b) {
  return a.q == b.q && a.k == b.k && a.v == b.v && a.bias == b.bias && a.slopes == b.slopes && a.sinks == b.sinks &&
         a.table == b.table;
}

AttentionCase random_case(Random& random, DType dtype, int64_t longest) {
  AttentionCase c = random_plain_case(random, dtype, longest);
  if (chance(random, 0.8)) add_random_features(random, c);
  return c;
}

void drop_some(Random& random, Operands& t, Operands& wide) {
  const auto drop = [&](auto& data, auto& of_wide) {
    if (chance(random, 0.2)) data = of_wide = nullptr;
  };
  drop(t.view.q.data, wide.view.q.data), drop(t.view.k.data, wide.view.k.data), drop(t.view.v.data, wide.view.v.data);
  drop(t.view.bias.data, wide.view.bias.data), drop(t.view.slopes, wide.view.slopes);
  drop(t.view.sinks, wide.view.sinks), drop(t.view.table, wide.view.table);
}

int combinations(int few) {
  const char* const more = std::getenv("DECKLE_TEST_COMBINATIONS");
  return more != nullptr ? std::atoi(more) : few;
}

class GeneralAttention : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const std::string reason = general::why_not(); !reason.empty()) GTEST_SKIP() << reason;
  }
};

constexpr DType kDTypes[] = {DType::float64, DType::float32, DType::float64, DType::bfloat16, DType::float32, DType::float16};

TEST_F(GeneralAttention, ForwardAndBackwardMatchTheReference) {
  Random random(seed() + 1);
  DistinctCases cases;
  for (int i = 0; i < combinations(60); ++i) {
    const DType dtype = kDTypes[i % 6];
    AttentionCase c = cases.next([&] { return random_case(random, dtype, longest_of(i)); });
    c.layout();
    SCOPED_TRACE(fmt::format("combination {}: {}", i, describe(c)));
    const AttentionCase wide = c.wide();
    const Operands x = c.operands(dtype, c.normal(random)), wide_x = wide.widen(x);
    const Results dy = c.results(dtype, c.normal(random)), wide_dy = wide.widen(dy);
    Results expected = wide.results(DType::float64, AttentionCase::poisoned), got = c.results(dtype, AttentionCase::poisoned);
    reference::attention_forward(wide.problem, wide_x.view, expected.view);
    general::forward(c, x, got);
    const Tolerances& limit = tolerances(dtype);
    const double term = c.term();
    EXPECT_LT(noted(dtype, "out", relative_error(got.out, expected.out, 0.1 * term)), limit.result);
    EXPECT_LT(noted(dtype, "lse", relative_error(got.lse, expected.lse)), limit.statistics);

    Operands expected_gradient = wide.operands(DType::float64, AttentionCase::poisoned);
    reference::attention_backward(wide.problem, wide_x.view, wide_dy.view, expected_gradient.view);
    const Operands gradient = c.operands(dtype, AttentionCase::poisoned), again = c.operands(dtype, AttentionCase::poisoned);
    general::backward(c, x, got, dy, gradient);
    for (const auto& [a, b] :
         {std::pair(&gradient.q, &expected_gradient.q), {&gradient.k, &expected_gradient.k}, {&gradient.v, &expected_gradient.v}})
      noted(dtype, "dq, dk, dv", relative_error(*a, *b, term));
    expect_close(gradient, expected_gradient, limit.gradient, term);
    general::backward(c, x, got, dy, again);
    EXPECT_TRUE(bit_equal(gradient, again));
    if (HasFailure()) return;
  }
}

TEST_F(GeneralAttention, TangentsAndSecondOrderMatchTheReference) {
  Random random(seed() + 2);
  DistinctCases cases;
  for (int i = 0; i < combinations(60); ++i) {
    const DType dtype = kDTypes[i % 6];
    AttentionCase c = cases.next([&] { return random_case(random, dtype, longest_of(i)); });
    c.layout();
    SCOPED_TRACE(fmt::format("combination {}: {}", i, describe(c)));
    const AttentionCase wide = c.wide();
    const Operands x = c.operands(dtype, c.normal(random)), wide_x = wide.widen(x);
    Operands t = c.operands(dtype, c.normal(random)), wide_t = wide.widen(t), a = c.operands(dtype, c.normal(random)),
             wide_a = wide.widen(a), both = c.operands(dtype, c.normal(random)), wide_both = wide.widen(both);
    drop_some(random, t, wide_t), drop_some(random, a, wide_a), drop_some(random, both, wide_both);
    const Results dy = c.results(dtype, c.normal(random)), wide_dy = wide.widen(dy);
    Results tdy = c.results(dtype, c.normal(random)), wide_tdy = wide.widen(tdy);
    if (chance(random, 0.5)) tdy.view = wide_tdy.view = {};

    Results expected = wide.results(DType::float64, AttentionCase::poisoned), expected_tangent = expected;
    wide.bind(expected_tangent);
    reference::attention_jvp(wide.problem, wide_x.view, wide_t.view, expected.view, expected_tangent.view);
    Results result = c.results(dtype, AttentionCase::poisoned), tangent = result, again = result, mixed = result;
    c.bind(tangent), c.bind(again), c.bind(mixed);
    general::forward(c, x, result);
    general::jvp(c, x, t, tangent);
    const Tolerances& limit = tolerances(dtype);
    const double term = c.term();
    EXPECT_LT(noted(dtype, "tangent of out", relative_error(tangent.out, expected_tangent.out, term)), limit.result);
    EXPECT_LT(relative_error(tangent.lse, expected_tangent.lse, 1.0), 9 * limit.statistics);

    Results expected_mixed = expected;
    wide.bind(expected_mixed);
    reference::attention_mixed(wide.problem, wide_x.view, wide_t.view, wide_a.view, wide_both.view, expected_mixed.view);
    general::mixed(c, x, t, a, both, mixed);
    // The tangent of a slope is multiplied by distances of hundreds, and second order holds squares of that which cancel.
    const double cancelled = c.has_slopes && dtype == DType::float32 ? 4 : 1;
    EXPECT_LT(noted(dtype, "second order", relative_error(mixed.out, expected_mixed.out, term)), cancelled * limit.second);
    EXPECT_LT(relative_error(mixed.lse, expected_mixed.lse, 1.0), 90 * limit.statistics);

    Operands expected_second = wide.operands(DType::float64, AttentionCase::poisoned);
    reference::attention_second(wide.problem, wide_x.view, wide_t.view, wide_dy.view, wide_tdy.view, expected_second.view);
    const Operands second = c.operands(dtype, AttentionCase::poisoned), twice = c.operands(dtype, AttentionCase::poisoned);
    general::second(c, x, t, result, dy, tdy, second, again);
    EXPECT_TRUE(again.out == tangent.out && again.lse == tangent.lse);
    for (const auto& [got, wanted] :
         {std::pair(&second.q, &expected_second.q), {&second.k, &expected_second.k}, {&second.v, &expected_second.v}})
      noted(dtype, "second order", relative_error(*got, *wanted, term));
    expect_close(second, expected_second, limit.second, term);
    general::second(c, x, t, result, dy, tdy, twice, again);
    EXPECT_TRUE(bit_equal(second, twice));
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace deckle::testing
