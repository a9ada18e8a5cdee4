#include <fmt/format.h>

#include <gtest/gtest.h>

#include <cmath>
#include <utility>
#include <vector>

#include "deckle/base/parallel.h"
#include "deckle/kernels/args/attention_candidates.h"
#include "deckle/kernels/cpu/attention/attention.h"
#include "deckle/kernels/cpu/attention/decode.h"
#include "deckle/kernels/cpu/attention/reference.h"
#include "deckle/kernels/cpu/simd/amx.h"
#include "deckle/kernels/cpu/simd/targets.h"
#include "tests/kernels/cpu/attention/drawn_operands.h"

namespace deckle::testing {
namespace {

using namespace kernels::cpu;

constexpr DType kDTypes[] = {DType::float32, DType::bfloat16, DType::float64, DType::float16};

/// A case whose sequences are decoded where the kernel serves them.
struct DecodeCase {
  AttentionCase c;
  std::vector<uint8_t> decoded;

  void layout() {
    c.layout();
    decoded = decoded_sequences({c.problem});
    c.problem.decoded = decoded.data();
  }
  Results run(const Operands& x) const {
    Results got = c.results(c.problem.dtype, AttentionCase::poisoned);
    attention_forward({}, c.problem, x.view, got.view);
    return got;
  }
  Results expected(const Operands& x) const {
    const AttentionCase wide = c.wide();
    Results result = wide.results(DType::float64, AttentionCase::poisoned);
    const Operands wide_x = wide.widen(x);
    reference::attention_forward(wide.problem, wide_x.view, result.view);
    return result;
  }
  void expect_matches_reference(const Operands& x) const {
    const Results got = run(x), wanted = expected(x);
    const Tolerances& limit = tolerances(c.problem.dtype);
    EXPECT_LT(relative_error(got.out, wanted.out, 0.1), limit.result);
    EXPECT_LT(relative_error(got.lse, wanted.lse), limit.statistics);
  }
};

/// `rows` rows on each of `lengths`.
DecodeCase decode_case(DType dtype, int64_t rows, const std::vector<int64_t>& lengths, int64_t kv_heads, int64_t group,
                       int64_t dim, int64_t value_dim, int64_t spare = 0) {
  DecodeCase d;
  for (const int64_t keys : lengths) d.c.add_sequence(rows, keys, spare);
  AttentionProblem& p = d.c.problem;
  p.dtype = dtype;
  p.kv_heads = kv_heads, p.heads = kv_heads * group;
  p.head_dim = dim, p.value_dim = value_dim;
  p.scale = 1 / std::sqrt(static_cast<double>(dim));
  p.causal = true;
  p.alignment = AttentionAlignment::bottom_right;
  d.layout();
  return d;
}

/// Emulates AMX tiles in software for its lifetime, where the vectors that they need are there.
struct ModelledTiles {
  explicit ModelledTiles(bool on) : on_(on && cpu_isa() >= CpuIsa::avx512_bf16) { simd::model_tiles(on_); }
  ~ModelledTiles() { simd::model_tiles(false); }
  bool on_;
};

TEST(AttentionDecode, EveryGroupAndNumberOfRowsMatchesTheReference) {
  Random random(seed() + 60);
  for (const bool modelled : {false, true}) {
    const ModelledTiles model(modelled);
    for (const int64_t group : {1, 2, 3, 4, 8, 12}) {
      for (int64_t rows = 1; rows <= 8; ++rows) {
        const DType dtype = modelled ? DType::bfloat16 : kDTypes[(group + rows) % 4];
        const int64_t dims[] = {64, 33, 128, 1, 96, 8, 31, 66};
        const int64_t dim = pick(random, dims), value_dim = chance(random, 0.5) ? dim : pick(random, dims);
        DecodeCase d = decode_case(dtype, rows, {draw(random, 1, 40), 2 * draw(random, 60, 200) + 1, rows}, draw(random, 1, 3),
                                   group, dim, value_dim, draw(random, 0, 2));
        if (chance(random, 0.3)) d.c.problem.window_left = draw(random, 0, 400);
        if (chance(random, 0.2)) d.c.problem.scale *= -1;
        d.c.has_sinks = chance(random, 0.3);
        d.c.heads_first = chance(random, 0.3);
        d.layout();
        SCOPED_TRACE(fmt::format("{}{}", describe(d.c), modelled ? " modelled" : ""));
        d.expect_matches_reference(d.c.operands(dtype, d.c.normal(random)));
        if (HasFailure()) return;
      }
    }
  }
}

/// In bfloat16 the result is off by its own rounding, half a unit of the last place, and no more.
TEST(AttentionDecode, WeightsAreNotRoundedToBfloat16) {
  Random random(seed() + 61);
  for (const bool modelled : {false, true}) {
    const ModelledTiles model(modelled);
    const DecodeCase d = decode_case(DType::bfloat16, 1, {700}, 2, 4, 64, 64);
    const Operands x = d.c.operands(DType::bfloat16, d.c.normal(random));
    const Results got = d.run(x), wanted = d.expected(x);
    for (int64_t i = 0; i < got.out.count(); ++i) {
      const double value = wanted.out.get(i);
      EXPECT_LE(std::abs(got.out.get(i) - value), std::abs(value) * 0x1.02p-8 + 1e-5) << i;
    }
  }
}

TEST(AttentionDecode, RowsHaveTheSameBitsAloneAndForAnyNumberOfThreads) {
  Random random(seed() + 62);
  const int before = num_threads();
  for (const bool modelled : {false, true}) {
    const ModelledTiles model(modelled);
    for (const DType dtype : kDTypes) {
      if (modelled && dtype != DType::bfloat16) continue;
      for (const int64_t keys : {17, 64, 257, 300, 515}) {
        const int64_t heads = 2, dim = 64, width = heads * dim, rows = keys % 4 == 0 ? 4 : 2, group = 8 / rows;
        const DecodeCase d = decode_case(dtype, rows, {keys, 3, 900}, heads, group, dim, dim);
        const Operands x = d.c.operands(dtype, d.c.normal(random));
        set_num_threads(1);
        const Results one = d.run(x);
        for (const int threads : {2, 5}) {
          set_num_threads(threads);
          const Results many = d.run(x);
          EXPECT_TRUE(many.out == one.out && many.lse == one.lse) << threads;
        }
        // Row i of the first sequence sees what a single row sees on the first keys - rows + i + 1.
        for (int64_t i = 0; i < rows; ++i) {
          const DecodeCase alone = decode_case(dtype, 1, {keys - rows + i + 1}, heads, group, dim, dim);
          Operands y = alone.c.operands(dtype, AttentionCase::poisoned);
          for (int64_t e = 0; e < y.q.count(); ++e) y.q.put(e, x.q.get(i * group * width + e));
          for (int64_t e = 0; e < y.k.count(); ++e) y.k.put(e, x.k.get(e)), y.v.put(e, x.v.get(e));
          const Results got = alone.run(y);
          for (int64_t e = 0; e < got.out.count(); ++e) ASSERT_EQ(got.out.get(e), one.out.get(i * group * width + e)) << keys;
          for (int64_t e = 0; e < got.lse.count(); ++e) ASSERT_EQ(got.lse.get(e), one.lse.get(i * heads * group + e)) << keys;
        }
      }
    }
  }
  set_num_threads(before);
}

/// NaN behind the keys, in keys and values that a row does not see, in other columns, and in other heads, reach no result.
TEST(AttentionDecode, WhatARowDoesNotSeeDoesNotReachIt) {
  Random random(seed() + 63);
  for (const bool modelled : {false, true}) {
    const ModelledTiles model(modelled);
    for (const DType dtype : kDTypes) {
      if (modelled && dtype != DType::bfloat16) continue;
      for (const double bad : {std::nan(""), static_cast<double>(INFINITY)}) {
        for (const int64_t dim : {64, 33}) {
          const int64_t heads = 2, group = 3, rows = 2, keys = 300, spare = 20, width = heads * dim;
          const DecodeCase d = decode_case(dtype, rows, {keys, keys}, heads, group, dim, dim, spare);
          Operands x = d.c.operands(dtype, d.c.normal(random));
          const Results clean = d.run(x);
          const auto spoil = [&](Buffer& of, int64_t key, int64_t head, int64_t e) { of.put(key * width + head * dim + e, bad); };
          for (int64_t key = keys; key < keys + spare; ++key) {
            for (int64_t e = 0; e < width; ++e) spoil(x.k, key, 0, e), spoil(x.v, key, 0, e);
          }
          const Results same = d.run(x);
          EXPECT_TRUE(same.out == clean.out && same.lse == clean.lse);
          // Of the last key, which only the last row sees, of head 1: the key, and a column of the value.
          spoil(x.v, keys - 1, 1, 5);
          const Results got = d.run(x);
          EXPECT_TRUE(got.lse == clean.lse);
          for (int64_t i = 0; i < 2 * rows; ++i) {
            for (int64_t h = 0; h < heads * group; ++h) {
              for (int64_t e = 0; e < dim; ++e) {
                const int64_t at = (i * heads * group + h) * dim + e;
                const bool spoilt = i == rows - 1 && h >= group && e == 5;
                if (spoilt) {
                  EXPECT_TRUE(std::isnan(bad) ? std::isnan(got.out.get(at)) : got.out.get(at) == bad)
                      << i << " " << h << " " << e;
                } else if (i == rows - 1 && h >= group) {  // computed otherwise
                  EXPECT_NEAR(got.out.get(at), clean.out.get(at), 0.02) << i << " " << h << " " << e;
                } else {
                  EXPECT_EQ(got.out.get(at), clean.out.get(at)) << i << " " << h << " " << e;
                }
              }
            }
          }
          x.k.put((keys - 1) * width + dim, std::nan(""));
          const Results by_key = d.run(x);
          for (int64_t i = 0; i < 2 * rows; ++i) {
            for (int64_t h = 0; h < heads * group; ++h) {
              const bool spoilt = i == rows - 1 && h >= group;
              EXPECT_EQ(std::isnan(by_key.lse.get(i * heads * group + h)), spoilt) << i << " " << h;
              for (int64_t e = 0; e < dim; ++e) {
                const int64_t at = (i * heads * group + h) * dim + e;
                EXPECT_EQ(std::isnan(by_key.out.get(at)), spoilt) << i << " " << h << " " << e;
              }
            }
          }
          if (HasFailure()) return;
        }
      }
    }
  }
}

TEST(AttentionDecode, TheModelOfTilesRoundsAsTheHardware) {
  if (bf16_arithmetic() != Bf16Arithmetic::tiles) GTEST_SKIP() << "bfloat16 is not on tiles here: " << name(bf16_arithmetic());
  Random random(seed() + 64);
  for (const int64_t dim : {64, 33}) {
    const DecodeCase d = decode_case(DType::bfloat16, 2, {333, 40}, 2, 3, dim, dim);
    const Operands x = d.c.operands(DType::bfloat16, d.c.normal(random));
    const Results hardware = d.run(x);
    const ModelledTiles model(true);
    const Results modelled = d.run(x);
    EXPECT_TRUE(modelled.out == hardware.out && modelled.lse == hardware.lse);
  }
}

}  // namespace
}  // namespace deckle::testing
