// The first-order tangent alone, in every arithmetic of bfloat16; among all derivatives: derivatives_test.cpp.

#include <fmt/format.h>

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <optional>
#include <vector>

#include "deckle/base/parallel.h"
#include "deckle/kernels/cpu/attention/attention.h"
#include "deckle/kernels/cpu/attention/reference.h"
#include "tests/kernels/cpu/attention/drawn_operands.h"
#include "tests/kernels/cpu/attention/modelled_tiles.h"

namespace deckle::testing {
namespace {

using namespace kernels::cpu;

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

/// body() in what bfloat16 is computed in here, and on modelled tiles.
template <typename Body>
void in_every_arithmetic(const Body& body) {
  for (const bool tiles : {false, true}) {
    if (tiles && !has_vectors_of_tiles()) continue;
    const std::optional<ModelledTiles> model = tiles ? std::make_optional<ModelledTiles>() : std::nullopt;
    SCOPED_TRACE(tiles ? "on modelled tiles" : name(bf16_arithmetic()));
    body();
  }
}

AttentionCase one_sequence(int64_t rows, int64_t keys, int64_t dim, int64_t value_dim) {
  AttentionCase c;
  c.add_sequence(rows, keys);
  c.problem.dtype = DType::bfloat16;
  c.problem.heads = 2, c.problem.kv_heads = 1;
  c.problem.head_dim = dim, c.problem.value_dim = value_dim;
  c.problem.scale = 1 / std::sqrt(static_cast<double>(dim));
  c.layout();
  return c;
}

struct Outcome {
  Results result, tangent;
  bool operator==(const Outcome& o) const {
    return result.out == o.result.out && result.lse == o.result.lse && tangent.out == o.tangent.out &&
           tangent.lse == o.tangent.lse;
  }
};

Outcome run_jvp(const AttentionCase& c, const Operands& x, const Operands& t) {
  Outcome got{c.results(c.problem.dtype, AttentionCase::poisoned), c.results(c.problem.dtype, AttentionCase::poisoned)};
  attention_jvp({}, c.problem, x.view, t.view, got.result.view, got.tangent.view);
  return got;
}

void expect_matches_reference(const AttentionCase& c, const Operands& x, const Operands& t) {
  const AttentionCase wide = c.wide();
  const Operands wide_x = wide.widen(x);
  Operands wide_t = wide.widen(t);
  if (t.view.q.data == nullptr) wide_t.view.q = {};
  if (t.view.k.data == nullptr) wide_t.view.k = {};
  if (t.view.v.data == nullptr) wide_t.view.v = {};
  Results expected = wide.results(DType::float64, AttentionCase::poisoned),
          expected_tangent = wide.results(DType::float64, AttentionCase::poisoned);
  reference::attention_jvp(wide.problem, wide_x.view, wide_t.view, expected.view, expected_tangent.view);
  const Outcome got = run_jvp(c, x, t);
  const Tolerances& limit = tolerances(c.problem.dtype);
  EXPECT_LT(relative_error(got.result.out, expected.out), limit.result);
  EXPECT_LT(relative_error(got.result.lse, expected.lse), 3 * limit.statistics);
  EXPECT_LT(relative_error(got.tangent.out, expected_tangent.out), limit.result);
  EXPECT_LT(relative_error(got.tangent.lse, expected_tangent.lse, 1.0), 9 * limit.statistics);
}

/// Sizes off the tiles' and on them, several tiles of rows and keys, rows that see nothing.
TEST(AttentionJvp, MatchesTheReferenceWithoutAnyOfTheTangents) {
  Random random(seed() + 50);
  struct Size {
    int64_t rows, keys, dim, value_dim;
    bool causal;
  };
  in_every_arithmetic([&] {
    for (const Size& size :
         {Size{300, 530, 64, 40, false}, {70, 33, 24, 64, true}, {1, 257, 3, 96, true}, {33, 31, 128, 128, false}}) {
      AttentionCase c = one_sequence(size.rows, size.keys, size.dim, size.value_dim);
      c.problem.causal = size.causal;
      c.problem.alignment = AttentionAlignment::bottom_right;
      const Operands x = c.operands(DType::bfloat16, c.normal(random));
      for (int present = 0; present < 8; ++present) {
        SCOPED_TRACE(fmt::format("{} tangents {:03b}", describe(c), present));
        Operands t = c.operands(DType::bfloat16, c.normal(random));
        if ((present & 1) == 0) t.view.q = {};
        if ((present & 2) == 0) t.view.k = {};
        if ((present & 4) == 0) t.view.v = {};
        expect_matches_reference(c, x, t);
        if (::testing::Test::HasFailure()) return;
      }
    }
  });
}

/// Tangents of logits are 2^8 and more, and jump from tile to tile, while the scores rise so that late keys have all the weight:
/// what counts is how the tangents of these differ.
TEST(AttentionJvp, RoundsTangentsOfLogitsAfterTheirMeanIsSubtracted) {
  Random random(seed() + 51);
  AttentionCase c = one_sequence(40, 700, 32, 32);
  c.problem.scale = 1;
  Operands x = c.operands(DType::bfloat16, c.normal(random)), t = c.operands(DType::bfloat16, c.normal(random));
  for (int64_t i = 0; i < 40 * 2 * 32; ++i) x.q.put(i, i % 32 == 0 ? 1.0 : 0.0);
  for (int64_t j = 0; j < 700; ++j) {
    x.k.put(j * 32, static_cast<double>(j / 10));
    t.k.put(j * 32, j < 256 ? 512 : 2048);
    if (j >= 400) t.k.put(j * 32 + 1, 2.0);  // q is 0 there
  }
  for (int64_t i = 0; i < 40 * 2 * 32; ++i) t.q.put(i, i % 32 == 1 ? 1.0 : 0.0);
  in_every_arithmetic([&] { expect_matches_reference(c, x, t); });
}

/// Row i of a causal mask sees keys up to i; another sequence follows.
TEST(AttentionJvp, KeysThatARowDoesNotSeeDoNotReachIt) {
  Random random(seed() + 52);
  AttentionCase c;
  c.add_sequence(70, 70);
  c.add_sequence(9, 5);
  c.problem.dtype = DType::bfloat16;
  c.problem.heads = c.problem.kv_heads = 1;
  c.problem.head_dim = c.problem.value_dim = 16;
  c.problem.causal = true;
  c.problem.alignment = AttentionAlignment::bottom_right;  // the first 4 rows of the second sequence see nothing
  c.layout();
  Operands x = c.operands(DType::bfloat16, c.normal(random)), t = c.operands(DType::bfloat16, c.normal(random));
  in_every_arithmetic([&] {
    const Outcome expected = run_jvp(c, x, t);
    for (const double value : {kNaN, static_cast<double>(INFINITY), static_cast<double>(-INFINITY)}) {
      for (const bool in_tangent : {false, true}) {
        Operands spoiled_x = x, spoiled_t = t;
        c.bind(spoiled_x), c.bind(spoiled_t);
        Operands& spoiled = in_tangent ? spoiled_t : spoiled_x;
        for (int64_t d = 0; d < 16; ++d) {
          spoiled.k.put(69 * 16 + d, value), spoiled.q.put(72 * 16 + d, value);
          spoiled.k.put(74 * 16 + d, value), spoiled.v.put(74 * 16 + d, value);
        }
        const Outcome got = run_jvp(c, spoiled_x, spoiled_t);
        for (int64_t i = 0; i < 69 * 16; ++i) {
          ASSERT_EQ(got.result.out.get(i), expected.result.out.get(i)) << value << " " << i;
          ASSERT_EQ(got.tangent.out.get(i), expected.tangent.out.get(i)) << value << " " << i;
        }
        for (int64_t i = 70 * 16; i < 74 * 16; ++i) ASSERT_EQ(got.tangent.out.get(i), 0.0) << value << " " << i;
        EXPECT_TRUE(std::isnan(got.tangent.out.get(69 * 16))) << value << " " << in_tangent;
      }
    }
  });
}

TEST(AttentionJvp, HasTheSameBitsForAnyNumberOfThreadsAndOnHardware) {
  Random random(seed() + 53);
  AttentionCase c;
  for (int64_t length : {700, 0, 33, 300}) c.add_sequence(length, length / 2 + 300);
  c.problem.dtype = DType::bfloat16;
  c.problem.heads = 4, c.problem.kv_heads = 2;
  c.problem.head_dim = 24, c.problem.value_dim = 40;
  c.problem.scale = 0.2;
  c.problem.window_left = 350;
  c.has_sinks = true;
  c.layout();
  const Operands x = c.operands(DType::bfloat16, c.normal(random)), t = c.operands(DType::bfloat16, c.normal(random));
  const int before = num_threads();
  std::vector<Outcome> of_arithmetics;
  in_every_arithmetic([&] {
    set_num_threads(1);
    of_arithmetics.push_back(run_jvp(c, x, t));
    for (int threads : {2, 3, 16}) {
      set_num_threads(threads);
      EXPECT_TRUE(run_jvp(c, x, t) == of_arithmetics.back()) << threads;
    }
  });
  set_num_threads(before);
  if (bf16_arithmetic() == Bf16Arithmetic::tiles) {
    EXPECT_TRUE(of_arithmetics.front() == of_arithmetics.back());
  }
}

/// Weights are rounded, and multiplied, as the forward does.
TEST(AttentionJvp, ComputesOutAsTheForwardDoesOnTiles) {
  if (!has_vectors_of_tiles()) GTEST_SKIP() << "no AVX512-BF16";
  const ModelledTiles model;
  Random random(seed() + 56);
  AttentionCase c = one_sequence(300, 530, 64, 40);
  c.problem.causal = true;
  const Operands x = c.operands(DType::bfloat16, c.normal(random)), t = c.operands(DType::bfloat16, c.normal(random));
  Results forward = c.results(DType::bfloat16, AttentionCase::poisoned);
  attention_forward({}, c.problem, x.view, forward.view);
  const Outcome got = run_jvp(c, x, t);
  EXPECT_TRUE(got.result.out == forward.out && got.result.lse == forward.lse);
}

TEST(AttentionJvp, OfASequenceDoesNotDependOnTheOthers) {
  Random random(seed() + 54);
  AttentionCase c;
  for (int64_t length : {40, 7, 130, 600, 1}) c.add_sequence(length, length + 5);
  c.problem.dtype = DType::bfloat16;
  c.problem.heads = c.problem.kv_heads = 2;
  c.problem.head_dim = c.problem.value_dim = 16;
  c.problem.causal = true;
  c.layout();
  const Operands x = c.operands(DType::bfloat16, c.normal(random)), t = c.operands(DType::bfloat16, c.normal(random));
  in_every_arithmetic([&] {
    const Outcome all = run_jvp(c, x, t);
    for (int64_t b = 0; b < 5; ++b) {
      AttentionCase alone = c;
      alone.q_offsets = {c.q_offsets[b], c.q_offsets[b + 1]};
      alone.k_offsets = {c.k_offsets[b], c.k_offsets[b + 1]};
      alone.layout();
      Outcome got{c.results(DType::bfloat16, AttentionCase::poisoned), c.results(DType::bfloat16, AttentionCase::poisoned)};
      attention_jvp({}, alone.problem, x.view, t.view, got.result.view, got.tangent.view);
      for (int64_t i = c.q_offsets[b] * 32; i < c.q_offsets[b + 1] * 32; ++i)
        ASSERT_EQ(got.tangent.out.get(i), all.tangent.out.get(i)) << b << " " << i;
    }
  });
}

/// All scores of a row are one number, which float32 rounds by more than exponents hold, or does not hold once it is multiplied.
TEST(AttentionJvp, OfScoresFarFromZeroIsThatOfAMean) {
  Random random(seed() + 55);
  struct Far {
    double size, scale;
  };
  for (const Far& far : {Far{1e5, 0.125}, {1.5e18, 0.125}, {1.3125, 1e12}}) {
    AttentionCase c = one_sequence(40, 70, 64, 64);
    c.problem.scale = far.scale;
    Operands x = c.operands(DType::bfloat16, c.normal(random)), t = c.operands(DType::bfloat16, c.normal(random));
    for (int64_t i = 0; i < x.q.count(); ++i) x.q.put(i, far.size);
    for (int64_t i = 0; i < x.k.count(); ++i) x.k.put(i, far.size);
    t.view.q = t.view.k = {};
    in_every_arithmetic([&] {
      const Outcome got = run_jvp(c, x, t);
      Results forward = c.results(DType::bfloat16, AttentionCase::poisoned);
      attention_forward({}, c.problem, x.view, forward.view);
      for (int64_t d = 0; d < 64; ++d) {
        double mean = 0, mean_tangent = 0;
        for (int64_t j = 0; j < 70; ++j) mean += x.v.get(j * 64 + d) / 70, mean_tangent += t.v.get(j * 64 + d) / 70;
        for (int64_t i = 0; i < 80; ++i) {
          ASSERT_NEAR(forward.out.get(i * 64 + d), mean, 1e-2) << far.scale << " " << i << " " << d;
          ASSERT_NEAR(got.tangent.out.get(i * 64 + d), mean_tangent, 1e-2) << far.scale << " " << i << " " << d;
        }
      }
    });
  }
}

}  // namespace
}  // namespace deckle::testing
