#include <fmt/format.h>

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "deckle/base/parallel.h"
#include "deckle/kernels/args/attention_candidates.h"
#include "deckle/kernels/cpu/attention/attention.h"
#include "deckle/kernels/cpu/attention/reference.h"
#include "deckle/kernels/cpu/simd/targets.h"
#include "tests/kernels/cpu/attention/drawn_operands.h"
#include "tests/kernels/cpu/attention/modelled_tiles.h"
#include "tests/kernels/cpu/support/refuse_tiles.h"
#include "tests/support/sanitizers.h"

namespace deckle::testing {
namespace {

using namespace kernels::cpu;

Results run_forward(const AttentionCase& c, const Operands& x) {
  Results got = c.results(c.problem.dtype, AttentionCase::poisoned);
  attention_forward({}, c.problem, x.view, got.view);
  return got;
}

Operands run_backward(const AttentionCase& c, const Operands& x, const Results& result, const Results& cotangent) {
  Operands got = c.operands(c.problem.dtype, AttentionCase::poisoned);
  attention_backward({}, c.problem, x.view, result.view, cotangent.view, got.view);
  return got;
}

void expect_matches_reference(const AttentionCase& c, Random& random) {
  const DType dtype = c.problem.dtype;
  const Operands x = c.operands(dtype, c.normal(random));
  const Results cotangent = c.results(dtype, c.normal(random));
  const AttentionCase wide = c.wide();
  const Operands wide_x = wide.widen(x);
  const Results wide_cotangent = wide.widen(cotangent);

  Results expected = wide.results(DType::float64, AttentionCase::poisoned);
  reference::attention_forward(wide.problem, wide_x.view, expected.view);
  const Results got = run_forward(c, x);
  const Tolerances& limit = tolerances(dtype);
  const double term = c.term();
  EXPECT_LT(noted(dtype, "out", relative_error(got.out, expected.out, 0.1 * term)), limit.result);
  EXPECT_LT(noted(dtype, "lse", relative_error(got.lse, expected.lse)), limit.statistics);

  Operands expected_gradient = wide.operands(DType::float64, AttentionCase::poisoned);
  reference::attention_backward(wide.problem, wide_x.view, wide_cotangent.view, expected_gradient.view);
  const Operands gradient = run_backward(c, x, got, cotangent);
  EXPECT_LT(noted(dtype, "dq, dk, dv", relative_error(gradient.q, expected_gradient.q, term)), limit.gradient);
  EXPECT_LT(noted(dtype, "dq, dk, dv", relative_error(gradient.k, expected_gradient.k, term)), limit.gradient);
  EXPECT_LT(noted(dtype, "dq, dk, dv", relative_error(gradient.v, expected_gradient.v, term)), limit.gradient);
  const double sums = 10 * limit.gradient;
  EXPECT_LT(relative_error(gradient.bias, expected_gradient.bias, term), sums);
  EXPECT_LT(relative_error(gradient.slopes, expected_gradient.slopes, c.slope_term()), sums);
  EXPECT_LT(relative_error(gradient.sinks, expected_gradient.sinks, term), sums);
  EXPECT_LT(relative_error(gradient.table, expected_gradient.table, term), sums);
}

TEST(Attention, ForwardAndBackwardMatchTheReference) {
  Random random(seed());
  for (int64_t target : simd::usable_targets()) {
    simd::force_target(target);
    for (int i = 0; i < 16; ++i) {
      const DType dtypes[] = {DType::float32, DType::float64, DType::bfloat16, DType::float16};
      const AttentionCase c = random_plain_case(random, dtypes[i % 4], i % 8 == 0 ? 200 : 60);
      SCOPED_TRACE(fmt::format("{} {}", hwy::TargetName(target), describe(c)));
      expect_matches_reference(c, random);
      if (HasFailure()) return;
    }
  }
}

TEST(Attention, SharedBiasOfSeveralBlocksOfKeysMatchesTheReference) {
  Random random(seed() + 31);
  for (int share = 1; share < 4; ++share) {
    for (int64_t dim : {8, 64}) {  // the wide one adds up in several copies
      AttentionCase c;
      const std::vector<std::pair<int64_t, int64_t>> lengths = {
          {70, 530}, {0, 40}, {233, 290}, {65, 7}};  // the longest rows are not of the longest keys
      for (auto [rows, keys] : lengths) c.add_sequence(rows, keys);
      AttentionProblem& p = c.problem;
      p.dtype = pick(random, std::vector<DType>{DType::float64, DType::float32, DType::bfloat16, DType::float16});
      p.heads = 8, p.kv_heads = 4;
      p.head_dim = p.value_dim = dim;
      p.scale = 1 / std::sqrt(static_cast<double>(dim));
      p.causal = chance(random, 0.5);
      p.alignment = AttentionAlignment::bottom_right;
      if (chance(random, 0.5)) p.window_left = 150;
      const bool over_heads = (share & 1) != 0, over_sequences = (share & 2) != 0;
      const int64_t plane = 233 * 530, heads = over_heads ? 1 : p.heads;
      c.has_bias = true;
      c.bias = {nullptr, over_sequences ? 0 : heads * plane, over_heads ? 0 : plane, 530, 1};
      c.bias_size = plane * heads * (over_sequences ? 1 : 4);
      c.layout();
      SCOPED_TRACE(describe(c));
      expect_matches_reference(c, random);
      if (HasFailure()) return;
    }
  }
}

TEST(Attention, RandomCombinationsOfFeaturesMatchTheReference) {
  Random random(seed() + 9);
  const int count = combinations(200);
  DistinctCases cases;
  for (int i = 0; i < count; ++i) {
    AttentionCase c = cases.next([&] {
      AttentionCase drawn = random_plain_case(random, kDrawnDTypes[i % 6], longest_of(i));
      add_random_features(random, drawn);
      return drawn;
    });
    c.layout();
    SCOPED_TRACE(fmt::format("combination {}: {}", i, describe(c)));
    expect_matches_reference(c, random);
    if (HasFailure()) return;
  }
}

TEST(AttentionOnTiles, MatchesTheReference) {
  if (!has_vectors_of_tiles()) GTEST_SKIP() << "no AVX512-BF16";
  const ModelledTiles model;
  Random random(seed() + 40);
  for (int i = 0; i < 24; ++i) {
    const AttentionCase c = random_plain_case(random, DType::bfloat16, i % 4 == 0 ? 300 : 60);
    SCOPED_TRACE(describe(c));
    expect_matches_reference(c, random);
    if (HasFailure()) return;
  }
  for (int64_t dim : {64, 128, 96}) {  // whole tiles, several tiles of keys and rows
    AttentionCase c;
    c.add_sequence(300, 530);
    c.problem.dtype = DType::bfloat16;
    c.problem.heads = 2, c.problem.kv_heads = 1;
    c.problem.head_dim = c.problem.value_dim = dim;
    c.problem.scale = 1 / std::sqrt(static_cast<double>(dim));
    c.problem.causal = dim == 64;
    c.layout();
    SCOPED_TRACE(describe(c));
    expect_matches_reference(c, random);
    if (HasFailure()) return;
  }
}

TEST(AttentionOnTiles, CombinationsOfFeaturesMatchTheReference) {
  if (!has_vectors_of_tiles()) GTEST_SKIP() << "no AVX512-BF16";
  const ModelledTiles model;
  Random random(seed() + 41);
  const int count = combinations(60);
  DistinctCases cases;
  for (int i = 0; i < count; ++i) {
    AttentionCase c = cases.next([&] {
      AttentionCase drawn = random_plain_case(random, DType::bfloat16, longest_of(i));
      add_random_features(random, drawn);
      return drawn;
    });
    c.layout();
    SCOPED_TRACE(fmt::format("combination {}: {}", i, describe(c)));
    expect_matches_reference(c, random);
    if (HasFailure()) return;
  }
}

/// The scores of row i rise from key to key by more than the lag allowed for the softmax reference.
TEST(AttentionOnTiles, RisingScoresRescaleWhatWasAddedUp) {
  if (!has_vectors_of_tiles()) GTEST_SKIP() << "no AVX512-BF16";
  const ModelledTiles model;
  AttentionCase c;
  c.add_sequence(40, 700);
  c.problem.dtype = DType::bfloat16;
  c.problem.heads = c.problem.kv_heads = 1;
  c.problem.head_dim = c.problem.value_dim = 32;
  c.problem.scale = 1;
  c.layout();
  Random random(seed() + 42);
  Operands x = c.operands(DType::bfloat16, c.normal(random));
  for (int64_t i = 0; i < 40 * 32; ++i) x.q.put(i, i % 32 == 0 ? 1.0 : 0.0);
  for (int64_t j = 0; j < 700; ++j) x.k.put(j * 32, static_cast<double>(j / 10));
  const AttentionCase wide = c.wide();
  Results expected = wide.results(DType::float64, AttentionCase::poisoned);
  const Operands wide_x = wide.widen(x);
  reference::attention_forward(wide.problem, wide_x.view, expected.view);
  const Results got = run_forward(c, x);
  EXPECT_LT(relative_error(got.out, expected.out), 1.5e-2);
  EXPECT_LT(relative_error(got.lse, expected.lse), 1e-6);
}

/// All scores of a row are one number, which times log2 e float32 rounds by more than exponents hold, or does not hold at all:
/// the forward gives means, and the backward is finite, as L holds that number alone.
TEST(AttentionOnTiles, TakesScoresFarFromZero) {
  if (!has_vectors_of_tiles()) GTEST_SKIP() << "no AVX512-BF16";
  const ModelledTiles model;
  Random random(seed() + 44);
  for (const double size : {3e4, 1e5, 1e12, 1.5e18}) {
    for (const double sign : {1.0, -1.0}) {
      AttentionCase c;
      c.add_sequence(40, 70);
      c.problem.dtype = DType::bfloat16;
      c.problem.heads = c.problem.kv_heads = 1;
      c.problem.head_dim = c.problem.value_dim = 64;
      c.problem.scale = 0.125;
      c.layout();
      SCOPED_TRACE(fmt::format("{}", size * sign));
      Operands x = c.operands(DType::bfloat16, c.normal(random));
      for (int64_t i = 0; i < 40 * 64; ++i) x.q.put(i, size);
      for (int64_t i = 0; i < 70 * 64; ++i) x.k.put(i, size * sign);
      const Results cotangent = c.results(DType::bfloat16, c.normal(random));
      const Results got = run_forward(c, x);
      const double score = 0.125 * 64 * x.q.get(0) * x.k.get(0);
      for (int64_t i = 0; i < 40; ++i) EXPECT_NEAR(got.lse.get(i) / score, 1, 1e-6) << i;
      for (int64_t d = 0; d < 64; ++d) {
        double mean = 0;
        for (int64_t j = 0; j < 70; ++j) mean += x.v.get(j * 64 + d) / 70;
        for (int64_t i = 0; i < 40; ++i) ASSERT_NEAR(got.out.get(i * 64 + d), mean, 1e-2) << i << " " << d;
      }
      const Operands gradient = run_backward(c, x, got, cotangent);
      double most = 0;
      for (int64_t i = 0; i < 70 * 64; ++i) {
        ASSERT_TRUE(std::isfinite(gradient.v.get(i))) << i;
        most = std::max(most, std::abs(gradient.v.get(i)));
      }
      EXPECT_GT(most, 0);
    }
  }
}

/// Hardware tiles and the software model are bit-equal: forward, backward and second order.
TEST(AttentionOnTiles, TheModelRoundsAsTheHardware) {
  if (bf16_arithmetic() != Bf16Arithmetic::tiles) GTEST_SKIP() << "bfloat16 is not on tiles here: " << name(bf16_arithmetic());
  Random random(seed() + 43);
  AttentionCase c;
  c.add_sequence(100, 260);
  c.problem.dtype = DType::bfloat16;
  c.problem.heads = c.problem.kv_heads = 2;
  c.problem.head_dim = 64, c.problem.value_dim = 40;
  c.problem.scale = 0.125;
  c.problem.causal = true;
  c.layout();
  const Operands x = c.operands(DType::bfloat16, c.normal(random));
  const Results cotangent = c.results(DType::bfloat16, c.normal(random));
  const Operands t = c.operands(DType::bfloat16, c.normal(random));
  const auto run_second = [&](const Results& result) {
    Operands got = c.operands(DType::bfloat16, AttentionCase::poisoned);
    attention_second({}, c.problem, x.view, t.view, result.view, cotangent.view, cotangent.view, got.view, {});
    return got;
  };
  const Results hardware = run_forward(c, x);
  const Operands hardware_gradient = run_backward(c, x, hardware, cotangent), hardware_second = run_second(hardware);
  const ModelledTiles model;
  const Results modelled = run_forward(c, x);
  const Operands gradient = run_backward(c, x, modelled, cotangent), second = run_second(modelled);
  EXPECT_TRUE(modelled.out == hardware.out && modelled.lse == hardware.lse);
  EXPECT_TRUE(gradient.q == hardware_gradient.q && gradient.k == hardware_gradient.k && gradient.v == hardware_gradient.v);
  EXPECT_TRUE(second.q == hardware_second.q && second.k == hardware_second.k && second.v == hardware_second.v);
}

#if defined(__x86_64__) && defined(__linux__)
/// In a process of its own, before the arithmetic has been chosen.
TEST(AttentionOnTiles, WhereTheSystemRefusesThemTheNextArithmeticServes) {
  ::testing::GTEST_FLAG(death_test_style) = "threadsafe";
  const auto run_refused = [] {
    refuse_tiles();
    Random random(1);
    expect_matches_reference(random_plain_case(random, DType::bfloat16, 60), random);
    std::exit(HasFailure() ? 5 : 0);
  };
  EXPECT_EXIT(run_refused(), ::testing::ExitedWithCode(0), "");
}
#endif

/// Bits do not depend on threads or neighbours in any of these.
struct Arithmetic {
  DType dtype;
  bool tiles;
};
std::vector<Arithmetic> arithmetics() {
  std::vector<Arithmetic> all{{DType::float32, false}, {DType::bfloat16, false}};
  if (has_vectors_of_tiles()) all.push_back({DType::bfloat16, true});
  return all;
}

void expect_equal_bits_for_any_number_of_threads(DType dtype) {
  Random random(seed() + 1);
  const int before = num_threads();
  for (bool shared_bias : {false, true}) {
    AttentionCase c;
    c.problem.dtype = dtype;
    for (int64_t length : {700, 0, 33, 1100}) c.add_sequence(length, length / 2 + 300);
    c.problem.heads = 4;
    c.problem.kv_heads = 2;
    c.problem.head_dim = c.problem.value_dim = 24;
    c.problem.scale = 0.2;
    c.problem.causal = true;
    c.has_bias = shared_bias;
    c.bias = {nullptr, 0, 0, 850, 1};
    c.bias_size = 1100 * 850;
    c.layout();
    const Operands x = c.operands(dtype, c.normal(random));
    const Results cotangent = c.results(dtype, c.normal(random));
    set_num_threads(1);
    const Results one = run_forward(c, x);
    const Operands one_gradient = run_backward(c, x, one, cotangent);
    for (int threads : {2, 3, 16}) {
      set_num_threads(threads);
      const Results many = run_forward(c, x);
      EXPECT_TRUE(many.out == one.out && many.lse == one.lse) << threads;
      const Operands gradient = run_backward(c, x, many, cotangent);
      EXPECT_TRUE(gradient.q == one_gradient.q && gradient.k == one_gradient.k && gradient.v == one_gradient.v &&
                  gradient.bias == one_gradient.bias)
          << threads;
    }
  }
  set_num_threads(before);
}

TEST(Attention, BitEqualForAnyNumberOfThreads) {
  for (const Arithmetic& arithmetic : arithmetics()) {
    SCOPED_TRACE(fmt::format("{}{}", name(arithmetic.dtype), arithmetic.tiles ? " on tiles" : ""));
    const std::optional<ModelledTiles> model = arithmetic.tiles ? std::make_optional<ModelledTiles>() : std::nullopt;
    expect_equal_bits_for_any_number_of_threads(arithmetic.dtype);
  }
}

void expect_packed_sequences_equal_those_alone(DType dtype) {
  Random random(seed() + 2);
  AttentionCase c;
  for (int64_t length : {40, 7, 130, 700, 1}) c.add_sequence(length, length + 5);
  c.problem.dtype = dtype;
  c.problem.heads = c.problem.kv_heads = 2;
  c.problem.head_dim = c.problem.value_dim = 16;
  c.problem.causal = true;
  c.problem.window_left = 300;
  c.layout();
  const Operands x = c.operands(dtype, c.normal(random));
  const Results all = run_forward(c, x);
  for (int64_t b = 0; b < 5; ++b) {
    AttentionCase alone = c;
    alone.q_offsets = {c.q_offsets[b], c.q_offsets[b + 1]};
    alone.k_offsets = {c.k_offsets[b], c.k_offsets[b + 1]};
    alone.layout();
    Results got = c.results(dtype, AttentionCase::poisoned);
    attention_forward({}, alone.problem, x.view, got.view);
    for (int64_t i = c.q_offsets[b] * 32; i < c.q_offsets[b + 1] * 32; ++i)
      ASSERT_EQ(got.out.get(i), all.out.get(i)) << b << " " << i;
  }
}

TEST(Attention, PackedSequencesEqualSequencesOneByOne) {
  for (const Arithmetic& arithmetic : arithmetics()) {
    SCOPED_TRACE(fmt::format("{}{}", name(arithmetic.dtype), arithmetic.tiles ? " on tiles" : ""));
    const std::optional<ModelledTiles> model = arithmetic.tiles ? std::make_optional<ModelledTiles>() : std::nullopt;
    expect_packed_sequences_equal_those_alone(arithmetic.dtype);
  }
}

TEST(Attention, OneRowOnManyKeysMatchesTheReference) {
  Random random(seed() + 5);
  for (int i = 0; i < 40; ++i) {
    AttentionCase c;
    const DType dtypes[] = {DType::float32, DType::float64, DType::bfloat16, DType::float16};
    c.problem.dtype = dtypes[i % 4];
    for (int64_t b = draw(random, 1, 4); b > 0; --b)
      c.add_sequence(draw(random, 0, 3), draw(random, 0, 3) * draw(random, 0, 700));
    c.problem.kv_heads = draw(random, 1, 3);
    c.problem.heads = c.problem.kv_heads * draw(random, 1, 4);
    c.problem.head_dim = draw(random, 1, 70), c.problem.value_dim = draw(random, 1, 70);
    c.problem.scale = 0.2;
    c.problem.causal = chance(random, 0.7);
    if (chance(random, 0.3)) c.problem.window_left = draw(random, 0, 600);
    c.has_sinks = chance(random, 0.4);
    c.heads_first = chance(random, 0.5);
    c.layout();
    const std::vector<uint8_t> decoded = decoded_sequences({c.problem});
    c.problem.decoded = decoded.data();
    SCOPED_TRACE(describe(c));
    expect_matches_reference(c, random);
    if (HasFailure()) return;
  }
}

TEST(Attention, RowsThatSeeNothingIgnoreWhateverGradientArrives) {
  Random random(seed() + 3);
  AttentionCase c;
  c.add_sequence(60, 20);  // bottom-right causal: the first 40 rows see nothing
  c.problem.heads = c.problem.kv_heads = 1;
  c.problem.head_dim = c.problem.value_dim = 8;
  c.problem.causal = true;
  c.layout();
  const Operands x = c.operands(DType::float32, c.normal(random));
  Results cotangent = c.results(DType::float32, c.normal(random));
  const Results got = run_forward(c, x);
  const Operands expected = run_backward(c, x, got, cotangent);
  for (int64_t i = 0; i < 40 * 8; ++i) {
    EXPECT_EQ(got.out.get(i), 0.0);
    cotangent.out.put(i, std::nan(""));
  }
  for (int64_t i = 0; i < 40; ++i) {
    EXPECT_EQ(got.lse.get(i), -INFINITY);
    cotangent.lse.put(i, INFINITY);
  }
  const Operands gradient = run_backward(c, x, got, cotangent);
  EXPECT_TRUE(gradient.q == expected.q && gradient.k == expected.k && gradient.v == expected.v);
  for (int64_t i = 0; i < 40 * 8; ++i) EXPECT_EQ(gradient.q.get(i), 0.0);
}

/// In the halves dq is rounded, but from one block of keys it comes whole: a buffer of floats of its size would be fresh memory
/// in every call.
TEST(Attention, OfShortSequencesTakesNoBufferForTheGradientOfQueries) {
  if (kSanitized) GTEST_SKIP() << "the sanitizer's memory would be measured";
  for (const DType dtype : {DType::bfloat16, DType::float16}) {
    AttentionCase c;
    for (int b = 0; b < 128; ++b) c.add_sequence(100, 100);
    c.problem.dtype = dtype;
    c.problem.heads = c.problem.kv_heads = 8;
    c.problem.head_dim = c.problem.value_dim = 64;
    c.layout();
    const auto zeros = [](DType of, int64_t count) {
      Buffer buffer(of, count);
      std::memset(buffer.data(), 0, static_cast<size_t>(count * item_size(of)));
      return buffer;
    };
    const Operands x = c.operands(dtype, zeros);
    const Results cotangent = c.results(dtype, zeros), result = run_forward(c, x);
    const Operands gradient = c.operands(dtype, AttentionCase::poisoned);
    const pid_t child = fork();
    if (child == 0) {
      rusage before{}, after{};
      getrusage(RUSAGE_SELF, &before);
      attention_backward({}, c.problem, x.view, result.view, cotangent.view, gradient.view);
      getrusage(RUSAGE_SELF, &after);
      _exit(after.ru_maxrss - before.ru_maxrss < 16'384 ? 0 : 1);  // kB; the floats have 25,600
    }
    int status = -1;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << name(dtype);
  }
}

TEST(Attention, ComputesOnlyTheGradientsThatAreWanted) {
  Random random(seed() + 4);
  const AttentionCase c = [] {
    AttentionCase made;
    made.add_sequence(90, 70);
    made.problem.heads = made.problem.kv_heads = 2;
    made.problem.head_dim = 16, made.problem.value_dim = 24;
    made.layout();
    return made;
  }();
  const Operands x = c.operands(DType::float32, c.normal(random));
  const Results cotangent = c.results(DType::float32, c.normal(random)), got = run_forward(c, x);
  const Operands all = run_backward(c, x, got, cotangent);
  for (int wanted = 0; wanted < 8; ++wanted) {
    Operands some = c.operands(DType::float32, AttentionCase::poisoned);
    const Operands untouched = some;
    if (!(wanted & 1)) some.view.q.data = nullptr;
    if (!(wanted & 2)) some.view.k.data = nullptr;
    if (!(wanted & 4)) some.view.v.data = nullptr;
    attention_backward({}, c.problem, x.view, got.view, cotangent.view, some.view);
    EXPECT_TRUE(some.q == (wanted & 1 ? all.q : untouched.q)) << wanted;
    EXPECT_TRUE(some.k == (wanted & 2 ? all.k : untouched.k)) << wanted;
    EXPECT_TRUE(some.v == (wanted & 4 ? all.v : untouched.v)) << wanted;
  }
}

TEST(Attention, SaysWhichArgumentToChange) {
  AttentionProblem p;
  p.heads = 3, p.kv_heads = 2, p.head_dim = p.value_dim = 8;
  EXPECT_EQ(attention_fused_why_not(p), "3 heads on 2 key heads (serves a multiple of the key heads)");
  p.kv_heads = 3;
  EXPECT_EQ(attention_fused_why_not(p), "");
  p.scale = INFINITY;
  EXPECT_THROW(attention_forward({}, p, {}, {}), Error);
}

}  // namespace
}  // namespace deckle::testing
