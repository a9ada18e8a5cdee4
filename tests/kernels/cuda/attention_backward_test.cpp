// The attention backward, Hopper's and the portable one, against float64: every mask, dense and ragged, through out and lse, and
// what must not happen: values of another sequence, results that differ between runs, writes outside the tensors.
#include "deckle/kernels/cuda/attention/backward.h"

#include <cmath>
#include <limits>
#include <random>

#include "tests/kernels/cuda/attention_test.h"
#include "tests/kernels/cuda/seed.h"

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
  for (const AttentionMask& mask : {AttentionMask{kMax, 0, true}, {9, kMax, false}, {kMax, kMax, true}, {-kMax, 5, true}}) {
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

TEST_P(AttentionBackward, MatchesForRandomProblems) {
  std::mt19937_64 random(seed() + 17);
  for (int i = 0; i < 12; ++i) verify_backward(random_options(base(), random));
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

TEST_P(AttentionBackward, IsBitEqualFromRunToRun) {
  CaseOptions o = ragged({500, 130, 0, 700, 64}, {400, 257, 30, 700, 128}, kCausal);
  o.heads = 4;
  AttentionCase c(o);
  c.prepare_backward();
  c.backward();
  const CaseTensor first[] = {c.grad_q.copy(), c.grad_k.copy(), c.grad_v.copy()};
  for (int i = 0; i < 20; ++i) {
    c.backward();
    ASSERT_EQ(different(first[0], c.grad_q), 0u) << i;
    ASSERT_EQ(different(first[1], c.grad_k), 0u) << i;
    ASSERT_EQ(different(first[2], c.grad_v), 0u) << i;
  }
}

TEST_P(AttentionBackward, KeepsNonFiniteValuesWithinTheirSequence) {
  const uint16_t infinity = GetParam().element == AttentionElement::bf16 ? 0x7f80 : 0x7c00;
  const std::vector<int> lengths{30, 60, 77, 23, 200};  // the poisoned one is the third; its neighbours may be short
  for (const uint16_t word : {uint16_t{0x7fff}, infinity}) {
    for (const AttentionMask& mask : {kFull, kCausal}) {
      AttentionCase c(ragged(lengths, lengths, mask));
      c.prepare_backward();
      c.backward();
      const CaseTensor clean[] = {c.grad_q.copy(), c.grad_k.copy(), c.grad_v.copy()};
      for (CaseTensor* t : {&c.q, &c.k, &c.v, &c.out, &c.grad_out}) c.overwrite(*t, 2, word);
      for (int head = 0; head < c.options.heads; ++head) {
        for (const DeviceBuffer* t : {&c.lse, &c.grad_lse}) {
          check(cudaMemset(t->as<float>() + head * c.problem.sizes.query_rows + 90, 0xff, 77 * 4));
        }
      }
      c.backward();
      EXPECT_EQ(different_outside(c, c.grad_q, clean[0], 2), 0u);
      EXPECT_EQ(different_outside(c, c.grad_k, clean[1], 2), 0u);
      EXPECT_EQ(different_outside(c, c.grad_v, clean[2], 2), 0u);
      EXPECT_GT(different(c.grad_q, clean[0]), 0u);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Hopper, AttentionBackward, ::testing::ValuesIn(hopper_instances()), name_of);
INSTANTIATE_TEST_SUITE_P(Portable, AttentionBackward, ::testing::ValuesIn(portable_instances()), name_of);

class AttentionBackwardLarge : public AttentionTest {};

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
  for (int head = 0; head < o.heads; ++head) {
    const int64_t to = head * alone.problem.sizes.query_rows, from = head * c.problem.sizes.query_rows + c.first_row(c.q, 1);
    check(cudaMemcpy(alone.grad_lse.as<float>() + to, c.grad_lse.as<float>() + from, 400 * 4, cudaMemcpyDeviceToDevice));
  }
  alone.forward();
  alone.backward();
  for (const auto& [small, large] :
       {std::pair{&alone.grad_q, &c.grad_q}, {&alone.grad_k, &c.grad_k}, {&alone.grad_v, &c.grad_v}}) {
    const CaseTensor expected = small->copy();
    take(expected, *large);
    EXPECT_EQ(different(*small, expected), 0u);
  }
}

const Instance kLarge[] = {{Path::hopper, AttentionElement::bf16, 128, 128}, {Path::portable, AttentionElement::bf16, 128, 128}};
INSTANTIATE_TEST_SUITE_P(Hopper, AttentionBackwardLarge, ::testing::Values(kLarge[0]), name_of);
INSTANTIATE_TEST_SUITE_P(Portable, AttentionBackwardLarge, ::testing::Values(kLarge[1]), name_of);

class AttentionBackwardUnordered : public AttentionTest {
 protected:
  // Few rows and as many keys as the mode is taken from: its kernel owns keys and walks rows, so rows are where its edges are.
  void verify(CaseOptions o) {
    o.deterministic = false;
    {
      AttentionCase c(o);
      c.prepare_backward();
      const int64_t bytes = kernels::cuda::attention_backward_workspace_bytes(c.arguments);
      c.arguments.deterministic = true;
      EXPECT_GT(bytes, kernels::cuda::attention_backward_workspace_bytes(c.arguments)) << "the mode is not taken";
    }
    verify_backward(o);
  }
};

TEST_P(AttentionBackwardUnordered, MatchesForFewRows) { verify(dense(1, 70, 4001)); }

TEST_P(AttentionBackwardUnordered, Matches) {
  verify(dense(1, 128, 4096));
  verify(dense(2, 300, 5000));
  verify(dense(2, 203, 16001, kCausal));
  CaseOptions o = dense(1, 70, 16100, kCausal);
  o.heads = 6;
  o.layout = Layout::padded;
  verify(o);
  verify(dense(1, 16300, 16100, {17, 3, true}));   // rows at the start attend nothing
  verify(dense(1, 16500, 16000, {17, 3, false}));  // rows at the end attend nothing
  o = ragged({0, 5, 130, 64, 0}, {7, 40000, 400, 64, 40000}, kCausal);
  o.heads = 4;
  verify(o);
}

const Instance kUnordered[] = {{Path::hopper, AttentionElement::bf16, 128, 128}, {Path::hopper, AttentionElement::f16, 128, 128}};
INSTANTIATE_TEST_SUITE_P(Hopper, AttentionBackwardUnordered, ::testing::ValuesIn(kUnordered), name_of);

}  // namespace
}  // namespace deckle::testing
