// The general kernels against the definition in float64, in every derivative, on random combinations of features.
#include <fmt/format.h>

#include <gtest/gtest.h>

#include <string>

#include "deckle/kernels/cpu/attention/reference.h"
#include "tests/kernels/cpu/attention/drawn_operands.h"
#include "tests/kernels/general_attention/device_case.h"

namespace deckle::testing {
namespace {

namespace reference = kernels::cpu::reference;

bool bit_equal(const Operands& a, const Operands& b) {
  return a.q == b.q && a.k == b.k && a.v == b.v && a.bias == b.bias && a.slopes == b.slopes && a.sinks == b.sinks &&
         a.table == b.table;
}

class GeneralAttention : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const std::string reason = general::why_not(); !reason.empty()) GTEST_SKIP() << reason;
  }
};

TEST_F(GeneralAttention, ForwardAndBackwardMatchTheReference) {
  Random random(seed() + 1);
  DistinctCases cases;
  for (int i = 0; i < combinations(60); ++i) {
    const DType dtype = kDrawnDTypes[i % 6];
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
    expect_close(c, gradient, expected_gradient, limit.gradient);
    general::backward(c, x, got, dy, again);
    EXPECT_TRUE(bit_equal(gradient, again));
    if (HasFailure()) return;
  }
}

TEST_F(GeneralAttention, TangentsAndSecondOrderMatchTheReference) {
  Random random(seed() + 2);
  DistinctCases cases;
  for (int i = 0; i < combinations(60); ++i) {
    const DType dtype = kDrawnDTypes[i % 6];
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
    expect_close(c, second, expected_second, limit.second);
    general::second(c, x, t, result, dy, tdy, twice, again);
    EXPECT_TRUE(bit_equal(second, twice));
    if (HasFailure()) return;
  }
}

TEST_F(GeneralAttention, LengthsThatTheDeviceAloneKnowsGiveTheSameBits) {
  Random random(seed() + 5);
  DistinctCases cases;
  int served = 0;
  for (int i = 0; i < combinations(60); ++i) {
    const DType dtype = kDrawnDTypes[i % 6];
    AttentionCase c = cases.next([&] { return random_case(random, dtype, longest_of(i)); });
    c.layout();
    const AttentionProblem& p = c.problem;
    if (p.q_lengths != nullptr || p.k_lengths != nullptr || p.bias_offsets != nullptr || p.ranges.bounds != nullptr ||
        p.mask.data != nullptr)
      continue;
    ++served;
    SCOPED_TRACE(fmt::format("combination {}: {}", i, describe(c)));
    const Operands x = c.operands(dtype, c.normal(random));
    const Results dy = c.results(dtype, c.normal(random)), y = c.results(dtype, AttentionCase::poisoned),
                  got = c.results(dtype, AttentionCase::poisoned);
    const Operands dx = c.operands(dtype, AttentionCase::poisoned), got_dx = c.operands(dtype, AttentionCase::poisoned);
    general::forward(c, x, y);
    general::backward(c, x, y, dy, dx);
    const general::LengthsOnDevice there;
    general::forward(c, x, got);
    general::backward(c, x, got, dy, got_dx);
    EXPECT_TRUE(got.out == y.out && got.lse == y.lse);
    EXPECT_TRUE(got_dx.q == dx.q && got_dx.k == dx.k && got_dx.v == dx.v && got_dx.sinks == dx.sinks);
    // These are added up in parts that the number of tasks decides, and in a room there are more.
    EXPECT_LT(relative_error(got_dx.slopes, dx.slopes, c.term()), tolerances(dtype).gradient);
    EXPECT_LT(relative_error(got_dx.table, dx.table, c.term()), tolerances(dtype).gradient);
    if (HasFailure()) return;
  }
  EXPECT_GT(served, 0);
}

/// A batch with rows that see nothing: more queries than keys, causal from the last of both on.
AttentionCase with_dead_rows() {
  AttentionCase c;
  for (const auto& [rows, keys] : {std::pair(90, 30), {5, 0}, {70, 130}}) c.add_sequence(rows, keys);
  AttentionProblem& p = c.problem;
  p.dtype = DType::float64;
  p.heads = 4, p.kv_heads = 2, p.head_dim = 20, p.value_dim = 9, p.scale = 0.3;
  p.causal = true, p.alignment = AttentionAlignment::bottom_right;
  c.has_slopes = c.has_table = true;
  p.table_reach = 5;
  c.layout();
  return c;
}

TEST_F(GeneralAttention, RowsThatSeeNothingIgnoreWhateverArrives) {
  Random random(seed() + 3);
  const AttentionCase c = with_dead_rows();
  const Operands x = c.operands(DType::float64, c.normal(random)), t = c.operands(DType::float64, c.normal(random));
  const Results dy = c.results(DType::float64, c.normal(random)), tdy = c.results(DType::float64, c.normal(random));
  Operands spoilt = x, spoilt_t = t;
  Results spoilt_dy = dy, spoilt_tdy = tdy;
  c.bind(spoilt), c.bind(spoilt_t), c.bind(spoilt_dy), c.bind(spoilt_tdy);
  const auto spoil = [](Buffer& buffer, int64_t width) {  // rows 0..59 of the first sequence, and the second sequence
    for (int64_t row = 0; row < 95; ++row) {
      for (int64_t n = 0; n < width && (row < 60 || row >= 90); ++n) buffer.put(row * width + n, std::nan(""));
    }
  };
  for (Operands* one : {&spoilt, &spoilt_t}) spoil(one->q, 4 * 20);
  for (Results* one : {&spoilt_dy, &spoilt_tdy}) spoil(one->out, 4 * 9), spoil(one->lse, 4);
  Results clean_y = c.results(DType::float64, AttentionCase::poisoned), y = clean_y, clean_ty = clean_y, ty = clean_y;
  c.bind(y), c.bind(clean_ty), c.bind(ty);
  general::forward(c, x, clean_y), general::forward(c, spoilt, y);
  EXPECT_TRUE(y.out == clean_y.out && y.lse == clean_y.lse);
  Operands clean = c.operands(DType::float64, AttentionCase::poisoned), got = clean;
  c.bind(got);
  general::backward(c, x, clean_y, dy, clean), general::backward(c, spoilt, y, spoilt_dy, got);
  EXPECT_TRUE(bit_equal(clean, got));
  general::second(c, x, t, clean_y, dy, tdy, clean, clean_ty),
      general::second(c, spoilt, spoilt_t, y, spoilt_dy, spoilt_tdy, got, ty);
  EXPECT_TRUE(bit_equal(clean, got));
  EXPECT_TRUE(ty.out == clean_ty.out && ty.lse == clean_ty.lse);
}

TEST_F(GeneralAttention, ANanInOneSequenceReachesNoOther) {
  Random random(seed() + 4);
  AttentionCase c = with_dead_rows();
  c.has_slopes = c.has_table = false;  // their gradients are of all sequences
  const Operands x = c.operands(DType::float64, c.normal(random));
  const Results dy = c.results(DType::float64, c.normal(random));
  Operands spoilt = x;
  c.bind(spoilt);
  for (int64_t n = 95 * 80; n < 165 * 80; ++n) spoilt.q.put(n, std::nan(""));
  for (int64_t n = 30 * 40; n < 160 * 40; ++n) spoilt.k.put(n, std::nan(""));
  for (int64_t n = 30 * 18; n < 160 * 18; ++n) spoilt.v.put(n, std::nan(""));
  Results clean_y = c.results(DType::float64, AttentionCase::poisoned), y = clean_y;
  c.bind(y);
  Operands clean = c.operands(DType::float64, AttentionCase::poisoned), got = clean;
  c.bind(got);
  general::forward(c, x, clean_y), general::forward(c, spoilt, y);
  general::backward(c, x, clean_y, dy, clean), general::backward(c, spoilt, y, dy, got);
  const auto expect_same = [](const Buffer& a, const Buffer& b, int64_t count) {
    for (int64_t n = 0; n < count; ++n) ASSERT_EQ(a.get(n), b.get(n)) << n;
  };
  expect_same(y.out, clean_y.out, 95 * 36);
  expect_same(got.q, clean.q, 95 * 80);
  expect_same(got.k, clean.k, 30 * 40);
  expect_same(got.v, clean.v, 30 * 18);
  EXPECT_TRUE(std::isnan(got.q.get(100 * 80)) && std::isnan(got.k.get(40 * 40)) && std::isnan(got.v.get(40 * 18)));
}

}  // namespace
}  // namespace deckle::testing
