// The attention backward, Hopper's and the portable one, against float64: every mask, dense and ragged, through out and lse, and
// what must not happen: values of another sequence, results that differ between runs, writes outside the tensors.
#include "deckle/kernels/cuda/attention/backward.h"

#include <cmath>
#include <limits>
#include <random>

#include "deckle/kernels/cuda/attention/forward.h"
#include "deckle/kernels/cuda/attention/portable.h"
#include "tests/kernels/cuda/attention_backward_test.h"
#include "tests/support/seed.h"

namespace deckle::testing {
namespace {

class AttentionBackward : public AttentionTest {};

TEST_P(AttentionBackward, Dense) {
  verify_backward(dense(2, 384, 384));
  verify_backward(dense(2, 203, 333));
  CaseOptions o = dense(1, 515, 515, kCausal);
  o.heads = o.kv_heads = 4;
  verify_backward(o);
  o = dense(2, 200, 261, kCausal);
  o.heads = 6;
  o.layout = Layout::padded;
  verify_backward(o);
  o = dense(1, 130, 70);
  o.heads = 5;
  o.kv_heads = 1;
  o.grad_lse = false;
  o.layout = Layout::heads_outer;
  verify_backward(o);
}

TEST_P(AttentionBackward, MasksWithRowsThatAttendNothing) {
  verify_backward(dense(2, 333, 200, kCausal));
  verify_backward(dense(2, 100, 300, kCausal));
  verify_backward(dense(2, 333, 200, kCausalTopLeft));
  verify_backward(dense(2, 150, 420, kCausalTopLeft));
  verify_backward(dense(1, 500, 500, {100, 50, true}));
  verify_backward(dense(1, 300, 300, {0, 0, true}));
  verify_backward(dense(2, 333, 100, {17, 3, false}));     // a window that ends before the rows
  verify_backward(dense(1, 300, 280, {90, -20, true}));    // one before the diagonal
  verify_backward(dense(1, 100, 100, {-200, 300, true}));  // nobody attends
}

TEST_P(AttentionBackward, WindowsBeyondAnyLength) {
  constexpr int kMax = std::numeric_limits<int>::max();
  for (const AttentionWindow& mask : {AttentionWindow{kMax, 0, true}, {9, kMax, false}, {kMax, kMax, true}, {-kMax, 5, true}}) {
    verify_backward(dense(1, 150, 190, mask));
    verify_backward(ragged({30, 100}, {33, 140}, mask));
  }
}

TEST_P(AttentionBackward, Tiny) {
  verify_backward(dense(1, 1, 1));
  verify_backward(dense(2, 1, 300));
  verify_backward(dense(2, 300, 1));
  verify_backward(dense(3, 7, 5, kCausal));
  verify_backward(dense(2, 40, 0));
  verify_backward(dense(2, 0, 40));
  verify_backward(dense(0, 0, 0));
  verify_backward(ragged({}, {}));
}

TEST_P(AttentionBackward, Ragged) {
  const std::vector<int> q{0, 5, 130, 64, 0, 257, 1, 63, 400, 0}, k{7, 9, 129, 64, 0, 300, 0, 70, 390, 0};
  verify_backward(ragged(q, k));
  verify_backward(ragged(q, k, kCausal));
  CaseOptions o = ragged(q, k, {70, 20, true});
  o.heads = 4;
  verify_backward(o);
  verify_backward(ragged(q, k, {40, 0, false}));
  std::mt19937_64 random(seed());
  std::vector<int> many_q, many_k;
  for (int i = 0; i < 300; ++i) {
    many_q.push_back(static_cast<int>(random() % 40));
    many_k.push_back(random() % 4 == 0 ? 0 : static_cast<int>(random() % 60));
  }
  verify_backward(ragged(many_q, many_k, kCausal));
}

TEST_P(AttentionBackward, RaggedOfShortSequences) {
  CaseOptions o = ragged({64, 3, 0, 17, 64, 1}, {64, 40, 5, 16, 1, 64}, {20, 5, true});
  o.heads = 6;
  verify_backward(o);
  o = ragged({64, 63, 30, 65}, {64, 64, 65, 2});
  o.layout = Layout::padded;
  verify_backward(o);
  for (const AttentionWindow& mask : {kFull, kCausal, AttentionWindow{20, 5, true}}) {  // and those of two tiles, by each length
    o = ragged({65, 128, 100, 70, 127, 3, 129, 0, 64}, {128, 65, 30, 100, 128, 128, 129, 90, 17}, mask);
    o.heads = o.kv_heads = 3;
    verify_backward(o);
    o.heads = 6;
    verify_backward(o);
  }
}

// The rows of a key head whose query heads are divided among blocks are rounded beside those of short sequences.
TEST_P(AttentionBackward, ShortSequencesBesideDividedHeads) {
  CaseOptions o = ragged({2000, 64, 1, 1700, 30, 63}, {2000, 64, 9, 1500, 64, 17}, kCausal);
  o.heads = 8;
  o.kv_heads = 1;
  verify_backward(o);
  AttentionCase c(o);
  c.prepare_backward();
  c.backward();
  const CaseTensor first[] = {c.grad_k.copy(), c.grad_v.copy()};
  for (int i = 0; i < 10; ++i) {
    c.backward();
    ASSERT_EQ(different(first[0], c.grad_k), 0u) << i;
    ASSERT_EQ(different(first[1], c.grad_v), 0u) << i;
  }
}

TEST_P(AttentionBackward, Sinks) {
  for (const AttentionWindow& mask : {kFull, kCausal, AttentionWindow{40, -10, true}}) {  // the last: rows without keys
    CaseOptions o = dense(2, 200, 600, mask);
    o.sinks = true;
    o.heads = 4;
    verify_backward(o);
    o = ragged({0, 5, 300, 64, 129, 700}, {4, 0, 120, 64, 400, 700}, mask);
    o.sinks = true;
    o.grad_lse = false;
    verify_backward(o);
  }
  CaseOptions o = dense(2, 0, 40);
  o.sinks = true;
  verify_backward(o);
  o = dense(2, 40, 0);
  o.sinks = true;
  verify_backward(o);
  o = dense(0, 0, 0);
  o.sinks = true;
  verify_backward(o);
}

TEST_P(AttentionBackward, GradientsOfSinksAreBitEqualFromRunToRun) {
  CaseOptions o = dense(3, 500, 100);
  o.sinks = true;
  AttentionCase c(o);
  c.prepare_backward();
  c.backward();
  const auto first = c.grad_sinks.download<uint32_t>();
  for (int i = 0; i < 5; ++i) {
    c.backward();
    ASSERT_EQ(c.grad_sinks.download<uint32_t>(), first);
  }
}

// Spare rows behind the keys hold NaN, and get zeros. With few and with many keys, shared key heads, and parts of a group.
TEST_P(AttentionBackward, KeysWithSpareRows) {
  for (const AttentionWindow& mask : {kFull, kCausal, AttentionWindow{70, 20, true}}) {
    CaseOptions o = ragged({0, 5, 300, 1, 64, 1, 129, 17}, {4, 9, 120, 700, 0, 300, 200, 17}, mask);
    o.spare = {3, 0, 60, 68, 100, 500, 1, 47};
    verify_backward(o);
    o = ragged({500, 30}, {900, 640}, mask);
    o.spare = {130, 1000};
    o.heads = 8;
    o.kv_heads = 1;
    o.planned = true;
    verify_backward(o);
  }
}

TEST_P(AttentionBackward, Scales) {
  CaseOptions o = dense(1, 200, 200, kCausal);
  o.scale = -0.07f;
  verify_backward(o);
  o = dense(1, 200, 200);
  o.scale = 0.004f;
  verify_backward(o);
  o = dense(1, 200, 200);
  o.magnitude = 3;  // sharp
  verify_backward(o);
}

TEST_P(AttentionBackward, TheSmallestScales) {
  CaseOptions o = dense(1, 200, 200, kCausal);
  if (o.element == AttentionElement::f16) return;  // which has no q and k of that size
  o.magnitude = 1e17f;
  o.scale = 1e-35f;
  verify_backward(o);
}

TEST_P(AttentionBackward, MatchesForRandomProblems) {
  std::mt19937_64 random(seed() + 17);
  for (int i = 0; i < 12; ++i) verify_backward(random_options(base(), random), true);
  for (int i = 0; i < 8; ++i) {  // many keys
    CaseOptions o = random_options(base(), random);
    for (int& keys : o.keys) keys = 3 * keys + 500;
    verify_backward(o, true);
  }
}

TEST_P(AttentionBackward, SurvivesExtremeLogits) {
  CaseOptions o = dense(1, 300, 300, kCausal);
  o.magnitude = 30;
  o.scale = 1e4f / (900.0f * 3 * std::sqrt(static_cast<float>(o.head_dim)));
  AttentionCase c(o);
  c.prepare_backward(true);
  c.backward();
  expect_backward(c,
                  gradient_tolerance(o.element) + 1e-2);  // exponents of 1.4e4 are rounded to 2^-10, so P is good to 1e-3 or two
}

// Scores so low that a key which does not exist, whose score would be 0, had an infinite probability.
TEST_P(AttentionBackward, LeavesOutKeysThatDoNotExist) {
  const bool bf16 = GetParam().element == AttentionElement::bf16;
  AttentionCase c(dense(1, 128, 4001));
  c.overwrite(c.q, 0, bf16 ? 0x4080 : 0x3c00);  // 4 and -4, 1 and -2
  c.overwrite(c.k, 0, bf16 ? 0xc080 : 0xc000);
  c.prepare_backward(true);
  c.backward();
  expect_backward(c, gradient_tolerance(c.options.element) + 1e-2);
}

// Blocks that own keys of one head add to dQ in turn.
TEST_P(AttentionBackward, AddsUpManyKeyTiles) {
  CaseOptions o = dense(1, 1100, 2100);
  o.heads = o.kv_heads = 17;
  verify_backward(o);
  o = dense(2, 900, 1300, kCausal);
  o.heads = 6;
  verify_backward(o);
  verify_backward(dense(1, 300, 5000, {17, 3, false}));
  verify_backward(dense(1, 2500, 2400, {300, 90, true}));
  verify_backward(ragged({900, 0, 1300, 700, 40}, {1000, 30, 1400, 2800, 1}));
  o = ragged({0, 5, 130, 64, 0, 1200}, {7, 5000, 400, 64, 4000, 1300}, kCausal);
  o.heads = 4;
  verify_backward(o);
}

// Enough heads that some are worked on from the first query tile on, and others from the last.
TEST_P(AttentionBackward, AddsUpInEitherOrderUnderACausalMask) {
  if (GetParam().head_dim > 128) GTEST_SKIP() << "no kernel of five products";
  CaseOptions o = dense(4, 1000, 1100, kCausal);
  o.heads = o.kv_heads = 48;
  verify_backward(o);
  o = ragged({900, 0, 1300, 700, 40, 1500}, {1000, 30, 1400, 2800, 1, 1100}, kCausal);
  o.heads = 12;
  o.planned = true;
  for (const int kv_heads : {3, 12}) {
    o.kv_heads = kv_heads;
    verify_backward(o);
  }
}

// P takes part in dS with more bits than it has as an operand: dQ and dK are as close as dV.
TEST_P(AttentionBackward, RoundsNothingButOperandsAndResults) {
  CaseOptions o = dense(1, 1024, 1024);
  o.grad_lse = false;
  AttentionCase c(o);
  c.prepare_backward();
  c.backward();
  expect_backward(c, o.element == AttentionElement::bf16 ? 2.65e-3 : 3.3e-4);
}

TEST_P(AttentionBackward, SharesAPlanWithOtherLaunches) {
  if (GetParam().path != Path::hopper) GTEST_SKIP() << "the portable kernels have none";
  for (const std::vector<int>& lengths : {std::vector<int>{30, 0, 200, 64, 500, 128, 129}, {900, 1300, 20, 1000}}) {
    AttentionCase c(ragged(lengths, lengths, kCausal));
    c.take_gradients();
    c.forward();
    const CaseTensor out = c.out.copy();
    c.backward();
    const CaseTensor grads[] = {c.grad_q.copy(), c.grad_k.copy(), c.grad_v.copy()};
    c.options.planned = true;
    for (int i = 0; i < 3; ++i) {
      c.forward();
      EXPECT_EQ(different(c.out, out), 0u);
      c.backward();
      EXPECT_EQ(different(c.grad_q, grads[0]), 0u);
      EXPECT_EQ(different(c.grad_k, grads[1]), 0u);
      EXPECT_EQ(different(c.grad_v, grads[2]), 0u);
    }
  }
}

// What is refused is refused before anything is queued.
TEST_P(AttentionBackward, QueuesNothingThatItRefuses) {
  if (GetParam().path != Path::hopper) GTEST_SKIP() << "the portable kernels have no tensor maps";
  AttentionCase c(ragged({200, 30}, {200, 30}));
  c.take_gradients();
  c.forward();
  c.backward();  // takes the workspace
  std::vector<uint16_t> poison(c.problem.workspace_bytes / 2, 0xffff), found(poison.size());
  check(cudaMemset(c.problem.workspace, 0xff, 2 * poison.size()));
  for (auto* t : {&c.arguments.grad_k, &c.problem.q}) {
    const auto before = *t;
    t->row_stride = int64_t{1} << 41;  // the copy engine ends at 2^40 bytes
    EXPECT_THROW(kernels::cuda::attention_backward(c.arguments, nullptr), std::runtime_error);
    if (t == &c.problem.q) {
      EXPECT_THROW(kernels::cuda::attention_forward(c.problem, nullptr), std::runtime_error);
    }
    *t = before;
  }
  check(cudaMemcpy(found.data(), c.problem.workspace, 2 * found.size(), cudaMemcpyDeviceToHost));
  EXPECT_EQ(found, poison);
}

// The problem names its device, whatever the current one is.
TEST_P(AttentionBackward, RunsOnTheDeviceOfTheProblem) {
  int devices = 0, current = 0;
  check(cudaGetDeviceCount(&devices));
  check(cudaGetDevice(&current));
  if (devices < 2) GTEST_SKIP() << "needs two devices";
  CaseOptions o = ragged({200, 30}, {200, 130});
  AttentionCase c(o);
  c.prepare_backward();
  c.backward();  // takes the workspace
  for (CaseTensor* t : {&c.grad_q, &c.grad_k, &c.grad_v}) t->memory.poison();
  check(cudaDeviceSynchronize());
  c.problem.device = current;
  const bool hopper = GetParam().path == Path::hopper;
  const auto run = [&](cudaStream_t stream) {
    hopper ? kernels::cuda::attention_backward(c.arguments, stream)
           : kernels::cuda::portable_attention_backward(c.arguments, stream);
  };
  cudaStream_t other = nullptr;
  check(cudaSetDevice(1 - current));
  check(cudaStreamCreate(&other));
  EXPECT_THROW(run(other), std::runtime_error);
  run(nullptr);
  int after = -1;
  check(cudaGetDevice(&after));
  check(cudaStreamDestroy(other));
  check(cudaSetDevice(current));
  check(cudaDeviceSynchronize());
  EXPECT_EQ(after, 1 - current);
  expect_backward(c, gradient_tolerance(o.element));
}

TEST_P(AttentionBackward, AddsUpFewRows) { verify_backward(dense(1, 70, 800)); }

// Few key heads: their query heads are divided among blocks.
TEST_P(AttentionBackward, DividesTheQueryHeadsOfAKeyHead) {
  CaseOptions o = dense(1, 700, 900, kCausal);
  o.heads = 32;
  o.kv_heads = 1;
  verify_backward(o);
  o = ragged({200, 0, 130}, {1220, 15, 1131});
  o.heads = 24;
  o.kv_heads = 2;
  o.layout = Layout::padded;
  verify_backward(o);
}

// What lies on the device is not to be trusted: nothing outside the tensors and the workspace is written, whatever it says.
TEST_P(AttentionBackward, StaysWithinItsMemoryWhateverTheOffsetsSay) {
  for (const std::vector<int64_t>& offsets :
       {std::vector<int64_t>{0, 100000, 100000}, {0, 100, 100000000000}, {-70, 90, 50}, {0, 130, 0}, {5000, 6000, 7000}}) {
    for (const bool biased : {false, true}) {
      CaseOptions o = ragged({100, 30}, {100, 30});
      o.bias_dims = biased ? 11 : 0;
      o.ragged_bias = biased;
      AttentionCase c(o);
      c.take_gradients();
      if (o.path == Path::hopper && !kernels::cuda::attention_backward_why_not(c.arguments).empty()) continue;
      c.replace_offsets(offsets, offsets);
      c.forward();
      c.backward();
    }
  }
  AttentionCase c(
      ragged({1000, 900, 800}, {1000, 900, 800}));  // long ones that would share rows: neither a hang nor a stray write
  c.take_gradients();
  c.replace_offsets({0, 1000, 100, 2700}, {0, 1000, 100, 2700});
  c.forward();
  c.backward();
}

TEST_P(AttentionBackward, IgnoresErrorsOfOthers) {
  const bool hopper = GetParam().path == Path::hopper;
  for (const CaseOptions& o : {dense(1, 64, 64), ragged({64, 3}, {64, 3})}) {
    AttentionCase c(o);
    c.take_gradients();
    const auto fail = [] {
      void* memory = nullptr;
      EXPECT_NE(cudaMalloc(&memory, size_t{1} << 60), cudaSuccess);
    };
    c.forward();  // takes the workspace
    fail();
    EXPECT_NO_THROW(hopper ? kernels::cuda::attention_forward(c.problem, nullptr)
                           : kernels::cuda::portable_attention_forward(c.problem, nullptr));
    EXPECT_EQ(cudaGetLastError(), cudaErrorMemoryAllocation) << "it is left to whoever asks for it";
    c.backward();
    fail();
    EXPECT_NO_THROW(hopper ? kernels::cuda::attention_backward(c.arguments, nullptr)
                           : kernels::cuda::portable_attention_backward(c.arguments, nullptr));
    EXPECT_EQ(cudaGetLastError(), cudaErrorMemoryAllocation);
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  }
}

TEST_P(AttentionBackward, IsBitEqualFromRunToRun) {
  CaseOptions rising = dense(2, 1100, 1100, kCausal);
  rising.heads = rising.kv_heads = 64;
  CaseOptions options[] = {ragged({500, 130, 0, 700, 64}, {400, 257, 30, 700, 128}, kCausal), dense(2, 1500, 1500, kCausal),
                           dense(1, 900, 1700), ragged({900, 1300, 0, 700, 64}, {1400, 2570, 30, 700, 1280}), rising};
  options[0].heads = 4;
  options[1].heads = options[1].kv_heads = 12;
  options[2].heads = 16;
  options[2].kv_heads = 1;
  for (const CaseOptions& o : options) {
    AttentionCase c(o);
    c.take_gradients();
    c.forward();
    c.backward();
    const CaseTensor first[] = {c.grad_q.copy(), c.grad_k.copy(), c.grad_v.copy()};
    for (int i = 0; i < 20; ++i) {
      c.backward();
      ASSERT_EQ(different(first[0], c.grad_q), 0u) << i;
      ASSERT_EQ(different(first[1], c.grad_k), 0u) << i;
      ASSERT_EQ(different(first[2], c.grad_v), 0u) << i;
    }
  }
}

TEST_P(AttentionBackward, KeepsNonFiniteValuesWithinTheirSequence) {
  const uint16_t infinity = GetParam().element == AttentionElement::bf16 ? 0x7f80 : 0x7c00;
  // The poisoned one is the third; its neighbours may be short, or all long.
  for (const std::vector<int>& lengths : {std::vector<int>{30, 60, 77, 23, 200}, {800, 913, 777, 823, 1000}}) {
    for (const uint16_t word : {uint16_t{0x7fff}, infinity}) {
      for (const AttentionWindow& mask : {kFull, kCausal}) {
        AttentionCase c(ragged(lengths, lengths, mask));
        c.prepare_backward();
        c.backward();
        const CaseTensor clean[] = {c.grad_q.copy(), c.grad_k.copy(), c.grad_v.copy()};
        for (CaseTensor* t : {&c.q, &c.k, &c.v, &c.out, &c.grad_out}) c.overwrite(*t, 2, word);
        for (const DeviceBuffer* t : {&c.lse, &c.grad_lse}) {
          const int64_t heads = c.options.heads;
          check(cudaMemset(t->as<float>() + heads * (lengths[0] + lengths[1]), 0xff, 4 * heads * lengths[2]));
        }
        c.backward();
        EXPECT_EQ(different_outside(c, c.grad_q, clean[0], 2), 0u);
        EXPECT_EQ(different_outside(c, c.grad_k, clean[1], 2), 0u);
        EXPECT_EQ(different_outside(c, c.grad_v, clean[2], 2), 0u);
        EXPECT_GT(different(c.grad_q, clean[0]), 0u);
      }
    }
  }
}

TEST_P(AttentionBackwardFeatures, MatchTheReference) {
  for (const CaseOptions& o : feature_cases()) verify_backward(o);
  for (const CaseOptions& features : features_of(GetParam().path)) {
    verify_backward(with(dense(2, 0, 40), features));
    verify_backward(with(dense(0, 0, 0), features));
  }
}

TEST_P(AttentionBackwardFeatures, AreBitEqualFromRunToRun) {
  AttentionCase c(with(dense(2, 500, 300, kCausal), plane_features().back()));
  c.prepare_backward();
  c.backward();
  const CaseTensor grad_q = c.grad_q.copy(), grad_k = c.grad_k.copy();
  const auto slopes = c.grad_slopes.download<uint32_t>(), table = c.grad_table.download<uint32_t>();
  const auto bias = c.grad_bias.download<uint16_t>();
  for (int i = 0; i < 5; ++i) {
    c.backward();
    ASSERT_EQ(different(c.grad_q, grad_q), 0u);
    ASSERT_EQ(different(c.grad_k, grad_k), 0u);
    ASSERT_EQ(c.grad_slopes.download<uint32_t>(), slopes);
    ASSERT_EQ(c.grad_table.download<uint32_t>(), table);
    ASSERT_EQ(c.grad_bias.download<uint16_t>(), bias);
  }
}

std::vector<CaseOptions> masks_and_scores() {
  std::vector<CaseOptions> all = score_features();
  for (const int ranges : {1, 3}) all.emplace_back().ranges = ranges;
  for (const int dims : {11, 2, 1}) all.emplace_back().mask_dims = dims;
  all.back().sinks = true;
  all.push_back(score_features().back());
  all.back().ranges = 4;
  all.back().mask_dims = 3;
  return all;
}

TEST_P(AttentionBackwardScored, ServesEveryFeatureOfScores) {
  for (const CaseOptions& features : masks_and_scores()) {
    const auto verify = [&](CaseOptions o) {
      const bool sinks = o.sinks;
      o = with(o, features);
      o.sinks = o.sinks || sinks;
      verify_backward(o);
    };
    for (const AttentionWindow& mask : {kFull, kCausal, AttentionWindow{60, 25, false}}) {
      verify(dense(2, 150, 333, mask));
      verify(dense(2, 333, 200, mask));  // live rows that begin anywhere
      CaseOptions o = ragged({0, 5, 300, 64, 129, 700}, {4, 0, 120, 64, 400, 900}, mask);
      o.spare = {3, 0, 60, 0, 17, 1};
      o.planned = true;
      verify(o);
    }
    CaseOptions o = dense(1, 700, 900, kCausal);
    o.heads = 32;
    o.kv_heads = 1;
    o.sinks = true;
    verify(o);
    o = dense(1, 300, 700);
    o.heads = 6;
    o.kv_heads = 2;
    o.scale = -0.07f;
    o.layout = Layout::padded;
    verify(o);
    verify(dense(2, 0, 40));
    verify(dense(2, 40, 0));
    verify(dense(0, 0, 0));
  }
}

// Of several walks of any length for each block, which wait for each other.
TEST_P(AttentionBackwardScored, AddsUpManyWalksOfAMask) {
  for (const AttentionWindow& mask : {kFull, kCausal}) {
    for (const int ranges : {1, 2}) {
      CaseOptions o = dense(4, 1300, 1300, mask);
      o.heads = o.kv_heads = 12;
      o.ranges = ranges;
      verify_backward(o);
    }
  }
}

TEST_P(AttentionBackwardScored, IsBitEqualFromRunToRun) {
  CaseOptions biased = dense(2, 900, 1100, kCausal), scored = biased;
  biased.bias_dims = 15;
  scored.dropout.threshold = 50;
  scored.slopes = true;
  scored.soft_cap = 2;
  scored.heads = 4;  // two of a key head
  CaseOptions shared = biased, of_heads = biased, masked = scored,
              planes = ragged({900, 0, 333, 1200}, {1101, 4, 500, 1205}, kCausal);
  shared.bias_dims = 3;
  of_heads.bias_dims = 7;
  masked.ranges = 2;
  planes.bias_dims = 11;
  planes.ragged_bias = true;
  planes.heads = planes.kv_heads = 6;
  for (const CaseOptions& o : {biased, shared, of_heads, scored, masked, planes}) {
    AttentionCase c(o);
    c.prepare_backward();
    c.backward();
    const CaseTensor first[] = {c.grad_q.copy(), c.grad_k.copy(), c.grad_v.copy()};
    const auto bias = c.grad_bias.download<uint16_t>();
    const auto slopes = c.grad_slopes.download<uint32_t>();
    for (int i = 0; i < 10; ++i) {
      c.backward();
      ASSERT_EQ(different(first[0], c.grad_q), 0u) << i;
      ASSERT_EQ(different(first[1], c.grad_k), 0u) << i;
      ASSERT_EQ(different(first[2], c.grad_v), 0u) << i;
      ASSERT_EQ(c.grad_bias.download<uint16_t>(), bias) << i;
      ASSERT_EQ(c.grad_slopes.download<uint32_t>(), slopes) << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Hopper, AttentionBackwardScored, ::testing::ValuesIn(scored_instances()), name_of);
INSTANTIATE_TEST_SUITE_P(Portable, AttentionBackwardFeatures, ::testing::ValuesIn(portable_instances()), name_of);
INSTANTIATE_TEST_SUITE_P(Hopper, AttentionBackward, ::testing::ValuesIn(hopper_instances()), name_of);
INSTANTIATE_TEST_SUITE_P(Portable, AttentionBackward, ::testing::ValuesIn(portable_instances()), name_of);

TEST_P(AttentionBackwardLarge, BatchesMoreThanTwoToTheThirtyOneElementsApart) {
  CaseOptions o = dense(2, 150, 140);
  o.batch_gap = int64_t{1} << 31;
  verify_backward(o);
}

// 66,400 x 256 x 128 = 2.2e9 elements of q: the last sequence, where offsets are largest, is what it is alone.
TEST_P(AttentionBackwardLarge, RaggedOfMoreThanTwoToTheThirtyOneElements) {
  CaseOptions o = ragged({66000, 400}, {64, 70});
  o.heads = o.kv_heads = 256;
  AttentionCase c(o);
  c.take_gradients();
  c.forward();
  c.backward();
  o.queries = {400};
  o.keys = {70};
  AttentionCase alone(o);
  alone.take_gradients();
  const auto take = [&](const CaseTensor& to, const CaseTensor& from) {
    const int64_t begin = c.first_row(from, 1) * from.view.row_stride, count = c.length(from, 1) * from.view.row_stride;
    check(cudaMemcpy(to.view.data, from.memory.as<uint16_t>() + begin, 2 * count, cudaMemcpyDeviceToDevice));
  };
  take(alone.q, c.q);
  take(alone.k, c.k);
  take(alone.v, c.v);
  take(alone.grad_out, c.grad_out);
  check(cudaMemcpy(alone.grad_lse.as<float>(), c.grad_lse.as<float>() + c.first_row(c.q, 1) * o.heads, 400 * 4 * o.heads,
                   cudaMemcpyDeviceToDevice));
  alone.forward();
  alone.backward();
  for (const auto& [small, large] :
       {std::pair{&alone.grad_q, &c.grad_q}, {&alone.grad_k, &c.grad_k}, {&alone.grad_v, &c.grad_v}}) {
    const CaseTensor expected = small->copy();
    take(expected, *large);
    EXPECT_EQ(different(*small, expected), 0u);
  }
}

class AttentionBackwardTurns : public AttentionTest {};

// At D = 256 dS of one of these heads at a time fits the workspace: one after the other, from two buffers.
TEST_P(AttentionBackwardTurns, AddsUpHeadAfterHead) {
  CaseOptions o = dense(3, 6000, 8100, kCausal);
  o.heads = o.kv_heads = 1;
  verify_backward(o);
}

INSTANTIATE_TEST_SUITE_P(Hopper, AttentionBackwardTurns,
                         ::testing::Values(Instance{Path::hopper, AttentionElement::bf16, 256, 256},
                                           Instance{Path::hopper, AttentionElement::bf16, 200, 232}),
                         name_of);

const Instance kLarge[] = {{Path::hopper, AttentionElement::bf16, 128, 128}, {Path::portable, AttentionElement::bf16, 128, 128}};
INSTANTIATE_TEST_SUITE_P(Hopper, AttentionBackwardLarge, ::testing::Values(kLarge[0]), name_of);
INSTANTIATE_TEST_SUITE_P(Portable, AttentionBackwardLarge, ::testing::Values(kLarge[1]), name_of);

}  // namespace
}  // namespace deckle::testing
