// The attention forward, Hopper's and the portable one, against float64: every length, mask, layout, and what must not happen:
// values of another sequence, results that differ between runs, writes outside the tensors.
#include <limits>
#include <random>
#include <tuple>
#include <vector>

#include "deckle/kernels/cuda/attention/forward.h"
#include "tests/kernels/cuda/attention_test.h"
#include "tests/support/seed.h"

namespace deckle::testing {
namespace {

class AttentionForward : public AttentionTest {};

TEST_P(AttentionForward, MatchesForEveryLength) {
  for (const int rows : {1, 2, 7, 63, 64, 65, 127, 128, 129, 191, 193, 200, 385, 511, 1000}) {
    verify_forward(dense(1, rows, rows));
    verify_forward(dense(1, rows, rows, kCausal));
  }
}

TEST_P(AttentionForward, MatchesForQueriesAndKeysOfDifferentLength) {
  for (const auto& [queries, keys] : {std::pair{1, 1000}, {1000, 1}, {130, 67}, {67, 130}, {300, 700}, {700, 300}, {64, 513}}) {
    for (const AttentionWindow& mask :
         {kFull, kCausal, kCausalTopLeft, AttentionWindow{40, 25, true}, AttentionWindow{40, 25, false}}) {
      verify_forward(dense(2, queries, keys, mask));
    }
  }
}

TEST_P(AttentionForward, ServesEmptyTensorsWithoutMemory) {
  verify_forward(dense(2, 40, 0));
  verify_forward(dense(2, 0, 40));
  verify_forward(dense(0, 0, 0));
}

TEST_P(AttentionForward, ServesWindows) {
  constexpr int kMax = std::numeric_limits<int>::max();
  for (const auto& [left, right] : {std::pair{0, 0},
                                    {1, 0},
                                    {128, 0},
                                    {100, 100},
                                    {300, 3},
                                    {3, 300},
                                    {-5, 20},
                                    {20, -5},
                                    {kMax, 0},
                                    {9, kMax},
                                    {kMax, kMax},
                                    {-kMax, 5}}) {
    verify_forward(dense(1, 777, 777, {left, right, true}));
  }
}

TEST_P(AttentionForward, ServesGroupedHeadsStridesAndScales) {
  for (const Layout layout : {Layout::rows_outer, Layout::heads_outer, Layout::padded}) {
    CaseOptions o = dense(3, 210, 333, kCausal);
    o.layout = layout;
    o.heads = 6;
    o.kv_heads = 2;
    verify_forward(o);
    o.kv_heads = 1;
    o.scale = -0.07f;
    verify_forward(o);
    o.scale = 1e-20f;
    verify_forward(o);
  }
}

// Of large q and k by a scale near the least that float32 has: logits of a few units.
TEST_P(AttentionForward, ServesTheSmallestScales) {
  CaseOptions o = dense(2, 100, 333, kCausal);
  if (o.element == AttentionElement::f16) return;  // which has no such q and k
  o.magnitude = 1e17f;
  for (const float scale : {1e-35f, -1e-35f}) {
    o.scale = scale;
    verify_forward(o);
  }
}

TEST_P(AttentionForward, ServesRaggedBatchesWithEmptySequences) {
  const std::vector<int> lengths{0, 5, 300, 0, 64, 1, 0, 129, 17, 450, 0};
  for (const AttentionWindow& mask : {kFull, kCausal, kCausalTopLeft, AttentionWindow{50, 20, true}}) {
    verify_forward(ragged(lengths, lengths, mask));
    CaseOptions o = ragged(lengths, {4, 9, 120, 0, 0, 300, 7, 200, 17, 1, 0}, mask);
    o.heads = 4;
    o.layout = Layout::padded;
    verify_forward(o);
    verify_forward(ragged({1}, {0}, mask));
    verify_forward(ragged({}, {}, mask));
  }
}

TEST_P(AttentionForward, ServesSinks) {
  for (const AttentionWindow& mask : {kFull, kCausal, AttentionWindow{40, -10, true}}) {  // the last: rows without keys
    CaseOptions o = dense(2, 200, 333, mask);
    o.sinks = true;
    o.heads = 4;
    verify_forward(o);
    o.scale = -0.07f;
    verify_forward(o);
    o = ragged({0, 5, 300, 64, 129}, {4, 0, 120, 64, 400}, mask);
    o.sinks = true;
    verify_forward(o);
  }
  CaseOptions o = dense(1, 300, 4097);  // parts of a last wave
  o.heads = o.kv_heads = 3;
  o.sinks = true;
  verify_forward(o);
}

// One sink far above every logit, one far below, one that is not there: -inf is as none.
TEST_P(AttentionForward, SurvivesExtremeSinks) {
  CaseOptions o = dense(1, 130, 200, kCausal);
  o.heads = o.kv_heads = 3;
  o.sinks = true;
  AttentionCase c(o);
  c.sinks.upload(std::vector<float>{80.0f, -80.0f, -std::numeric_limits<float>::infinity()});
  c.reference();
  c.forward();
  expect_forward(c, output_tolerance(o.element));
}

// Spare rows behind the keys hold NaN.
TEST_P(AttentionForward, ServesKeysWithSpareRows) {
  for (const AttentionWindow& mask : {kFull, kCausal, kCausalTopLeft, AttentionWindow{50, 20, true}}) {
    CaseOptions o = ragged({0, 5, 300, 1, 64, 1, 129, 17}, {4, 9, 120, 700, 0, 300, 200, 17}, mask);
    o.spare = {3, 0, 60, 68, 100, 500, 1, 47};
    verify_forward(o);
    o.heads = 4;
    o.planned = true;
    o.layout = Layout::padded;
    verify_forward(o);
  }
}

TEST_P(AttentionForward, ServesManySequencesOfRandomLength) {
  std::mt19937_64 random(seed());
  std::vector<int> queries, keys;
  for (int i = 0; i < 300; ++i) {
    queries.push_back(static_cast<int>(random() % 90));
    keys.push_back(static_cast<int>(random() % 90));
  }
  queries[77] = 1500;
  keys[78] = 1300;
  verify_forward(ragged(queries, keys));
  verify_forward(ragged(queries, queries, kCausal));
  CaseOptions o = ragged(queries, queries, kCausal);
  o.planned = true;
  verify_forward(o);
}

TEST_P(AttentionForward, MatchesForRandomProblems) {
  std::mt19937_64 random(seed() + 31);
  for (int i = 0; i < 12; ++i) verify_forward(random_options(base(), random));
}

TEST_P(AttentionForward, KeepsNonFiniteValuesWithinTheirSequence) {
  const uint16_t infinity = GetParam().element == AttentionElement::bf16 ? 0x7f80 : 0x7c00;
  for (const uint16_t word : {uint16_t{0x7fff}, infinity}) {
    AttentionCase c(ragged({100, 77, 210}, {90, 77, 230}));
    c.forward();
    const CaseTensor clean = c.out.copy();
    const auto clean_lse = c.lse.download<uint32_t>();
    for (CaseTensor* t : {&c.q, &c.k, &c.v}) c.overwrite(*t, 1, word);
    c.forward();
    EXPECT_EQ(different_outside(c, c.out, clean, 1), 0u);
    EXPECT_GT(different(c.out, clean), 0u);
    const auto lse = c.lse.download<uint32_t>();
    const int64_t heads = c.problem.sizes.heads;
    for (int64_t i = 0; i < static_cast<int64_t>(lse.size()); ++i) {
      const bool poisoned = i / heads >= 100 && i / heads < 177;
      ASSERT_TRUE(poisoned || lse[i] == clean_lse[i]) << i;
    }
  }
}

TEST_P(AttentionForward, SurvivesExtremeLogits) {
  CaseOptions o = dense(1, 150, 260);
  o.scale = 1;
  o.magnitude = 30;  // logits of about ±1e4 at D = 128
  AttentionCase c(o);
  c.reference();
  c.forward();
  expect_forward(c, 2 * output_tolerance(o.element));
}

// Tiles are walked from the last key on: of some rows, here and there, later ones exceed the first by more than kept references
// of the softmax can bear, of whole items and of the parts of cut ones.
TEST_P(AttentionForward, SurvivesLaterKeysOfFarLargerScores) {
  for (const float magnitude : {5.0f, 6.5f, 20.0f}) {
    for (const auto& [queries, keys, heads] : {std::tuple(700, 2300, 5), {300, 4097, 3}}) {
      for (const AttentionWindow& mask : {kFull, kCausal}) {
        CaseOptions o = dense(1, queries, keys, mask);
        o.heads = o.kv_heads = heads;
        o.magnitude = magnitude;
        AttentionCase c(o);
        c.reference();
        c.forward();
        expect_forward(c, 2 * output_tolerance(o.element));
        const CaseTensor first = c.out.copy();
        c.forward();
        ASSERT_EQ(different(c.out, first), 0u);
      }
    }
  }
}

TEST_P(AttentionForward, AddsUpThePartsOfALastWaveInOneOrder) {
  // The last has pieces alone, more than items.
  for (const auto& [queries, keys, heads] : {std::tuple(300, 2700, 3), {300, 4097, 3}, {4096, 4096, 2}}) {
    CaseOptions o = dense(1, queries, keys);
    o.heads = o.kv_heads = heads;
    verify_forward(o);
    AttentionCase c(o);
    c.forward();
    const CaseTensor first = c.out.copy();
    for (int i = 0; i < 10; ++i) {
      c.forward();
      ASSERT_EQ(different(c.out, first), 0u);
    }
  }
}

TEST_P(AttentionForward, IsBitEqualFromRunToRun) {
  const std::vector<int> lengths{700, 3, 64, 900, 0, 250};
  AttentionCase c(ragged(lengths, lengths, kCausal));
  c.forward();
  const CaseTensor first = c.out.copy();
  const auto first_lse = c.lse.download<uint32_t>();
  for (int i = 0; i < 20; ++i) {
    c.forward();
    ASSERT_EQ(different(c.out, first), 0u);
    ASSERT_EQ(c.lse.download<uint32_t>(), first_lse);
  }
}

// Each feature of scores alone, and all of them together.
class AttentionForwardFeatures : public AttentionTest {};

TEST_P(AttentionForwardFeatures, MatchTheReference) {
  for (const CaseOptions& o : feature_cases()) verify_forward(o);
  for (const CaseOptions& features : features_of(GetParam().path)) {
    CaseOptions o = dense(1, 300, 4097);  // parts of a last wave; rows of a bias that are no multiples of 8
    o.heads = o.kv_heads = 3;
    verify_forward(with(o, features));
    o.keys = {4096};
    verify_forward(with(o, features));
  }
}

// As Tensor::expand makes one: every row reads the same biases.
TEST_P(AttentionForwardFeatures, ReadABiasExpandedOverRows) {
  for (const int dims : {13, 1}) {
    for (const AttentionWindow& mask : {kFull, kCausal}) {
      CaseOptions o = dense(2, 150, 333, mask);
      o.bias_dims = dims;
      o.expanded_bias = true;
      verify_forward(o);
    }
  }
}

// Rows all of whose keys have it see them alike, however far it is; others do not see such keys.
TEST_P(AttentionForwardFeatures, TakeBiasesFarBelowZero) {
  for (const AttentionWindow& mask : {kFull, kCausal}) {
    for (const CaseOptions& o : {dense(2, 150, 333, mask), dense(2, 333, 200, mask), dense(1, 300, 4096, mask),
                                 ragged({0, 5, 300, 64, 129}, {4, 0, 120, 64, 400}, mask)}) {
      for (const CaseOptions& far : far_biases(o, false)) verify_forward(far);
    }
  }
}

// Times a scale of 0, -inf is NaN; a cap computes scores together that a mask parts.
TEST_P(AttentionForwardFeatures, ServeAScaleOfZero) {
  std::vector<CaseOptions> all(4);
  all[0].soft_cap = all[3].soft_cap = 5;
  all[1].slopes = all[3].slopes = true;
  all[2].dropout.threshold = 77;
  for (const CaseOptions& features : all) {
    for (const AttentionWindow& mask : {kFull, kCausal, AttentionWindow{60, 25, false}}) {
      CaseOptions o = with(dense(2, 100, 100, mask), features);
      o.scale = 0;
      verify_forward(o);
    }
  }
}

// Few query rows on many keys.
class AttentionDecode : public AttentionTest {};

// Kernels may compute scores together that a mask parts.
TEST_P(AttentionForwardFeatures, KeepNonFiniteKeysBehindTheMask) {
  constexpr int kRows = 300, kFinite = 203;
  for (const float soft_cap : {0.0f, 5.0f}) {
    CaseOptions o = dense(1, kRows, kRows, kCausalTopLeft);
    o.soft_cap = soft_cap;
    o.slopes = soft_cap == 0;
    AttentionCase c(o);
    c.forward();
    const CaseTensor clean = c.out.copy();
    fill_words(c.k.view, kFinite, kRows - kFinite, c.k.heads, c.k.columns, 0x7fff);
    c.forward();
    EXPECT_EQ(count_different(c.out.view, clean.view, 0, kFinite, c.out.heads, c.out.columns), 0u) << describe(o);
    EXPECT_GT(different(c.out, clean), 0u);
  }
}

TEST_P(AttentionDecode, MatchesForEveryLength) {
  for (const int keys : {0, 1, 15, 16, 17, 63, 64, 65, 255, 257, 1000, 4097}) {
    CaseOptions o = dense(3, 1, keys);
    verify_forward(o);
    o.heads = 8;
    o.layout = Layout::padded;
    verify_forward(o);
    o.sinks = true;
    o.scale = -0.07f;
    verify_forward(o);
  }
}

TEST_P(AttentionDecode, ServesSeveralRowsMasksAndManyHeads) {
  for (const AttentionWindow& mask :
       {kFull, kCausal, kCausalTopLeft, AttentionWindow{300, 0, true}, AttentionWindow{2, -1, false}}) {
    for (const auto& [rows, heads, kv_heads] : {std::tuple{1, 32, 1}, {4, 8, 2}, {7, 9, 3}, {16, 4, 4}, {32, 2, 2}}) {
      CaseOptions o = dense(2, rows, 1500, mask);
      o.heads = heads;
      o.kv_heads = kv_heads;
      verify_forward(o);
    }
  }
}

TEST_P(AttentionDecode, ServesRaggedCachesWithSpareRows) {
  for (const AttentionWindow& mask : {kFull, kCausal, AttentionWindow{500, 0, true}}) {
    CaseOptions o = ragged({1, 0, 3, 1, 1, 2}, {900, 50, 2, 0, 3000, 17}, mask);
    o.heads = 16;
    o.spare = {100, 3, 0, 70, 1, 900};
    verify_forward(o);
    o.sinks = true;
    o.kv_heads = 16;
    verify_forward(o);
  }
}

TEST_P(AttentionDecode, IsBitEqualFromRunToRun) {
  AttentionCase c(ragged({1, 1, 1, 1}, {5000, 3000, 7, 9000}));
  c.forward();
  const CaseTensor first = c.out.copy();
  const auto lse = c.lse.download<uint32_t>();
  for (int i = 0; i < 10; ++i) {
    c.forward();
    ASSERT_EQ(different(c.out, first), 0u);
    ASSERT_EQ(c.lse.download<uint32_t>(), lse);
  }
}

std::vector<Instance> decode_instances() {
  std::vector<Instance> all;
  for (const auto& [d, dv] : {std::pair{64, 64}, {128, 128}, {256, 256}, {40, 72}, {192, 128}})
    all.push_back({Path::decode, AttentionElement::bf16, d, dv});
  for (const auto& [d, dv] : {std::pair{64, 64}, {128, 128}, {80, 80}})
    all.push_back({Path::decode, AttentionElement::f16, d, dv});
  return all;
}

INSTANTIATE_TEST_SUITE_P(Portable, AttentionDecode, ::testing::ValuesIn(decode_instances()), name_of);
INSTANTIATE_TEST_SUITE_P(Hopper, AttentionForwardFeatures, ::testing::ValuesIn(scored_instances()), name_of);
INSTANTIATE_TEST_SUITE_P(Portable, AttentionForwardFeatures, ::testing::ValuesIn(portable_instances()), name_of);
INSTANTIATE_TEST_SUITE_P(Hopper, AttentionForward, ::testing::ValuesIn(hopper_instances()), name_of);
INSTANTIATE_TEST_SUITE_P(Portable, AttentionForward, ::testing::ValuesIn(portable_instances()), name_of);

class AttentionForwardLarge : public AttentionTest {};

// 66,400 x 256 x 128 = 2.2e9 elements of q: the last sequence, where offsets are largest, is what it is alone.
TEST_P(AttentionForwardLarge, AddressesMoreThanTwoToTheThirtyOneElements) {
  CaseOptions o = ragged({66000, 400}, {64, 70});
  o.heads = o.kv_heads = 256;
  AttentionCase c(o);
  o.queries = {400};
  o.keys = {70};
  AttentionCase alone(o);
  const auto last = [&](const CaseTensor& t) { return t.memory.as<uint16_t>() + c.first_row(t, 1) * t.view.row_stride; };
  const auto take = [&](const CaseTensor& to, const CaseTensor& from) {
    check(cudaMemcpy(to.view.data, last(from), c.length(from, 1) * from.view.row_stride * 2, cudaMemcpyDeviceToDevice));
  };
  take(alone.q, c.q);
  take(alone.k, c.k);
  take(alone.v, c.v);
  c.forward();
  alone.forward();
  const CaseTensor expected = alone.out.copy();
  take(expected, c.out);
  EXPECT_EQ(different(alone.out, expected), 0u);
}

const Instance kLarge[] = {{Path::hopper, AttentionElement::bf16, 128, 128}, {Path::portable, AttentionElement::bf16, 128, 128}};
INSTANTIATE_TEST_SUITE_P(Hopper, AttentionForwardLarge, ::testing::Values(kLarge[0]), name_of);
INSTANTIATE_TEST_SUITE_P(Portable, AttentionForwardLarge, ::testing::Values(kLarge[1]), name_of);

}  // namespace
}  // namespace deckle::testing
