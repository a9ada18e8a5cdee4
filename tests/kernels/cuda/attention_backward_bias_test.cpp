// The attention backward with a bias, and the gradient of the bias, against float64: of Hopper's kernels and the portable ones.
#include <cstdint>
#include <initializer_list>
#include <random>
#include <vector>

#include "deckle/base/half.h"
#include "deckle/kernels/cuda/attention/backward.h"
#include "deckle/kernels/cuda/attention/forward.h"
#include "tests/kernels/cuda/attention_backward_test.h"
#include "tests/support/seed.h"

namespace deckle::testing {
namespace {

// A bias of -inf leaves a row nothing, as a mask does: its gradients are 0, and NaN in its dO reaches none.
void verify_dead_rows(CaseOptions o) {
  for (const int dims : {15, 7, 11, 3}) {
    for (const AttentionWindow& mask : {kFull, kCausal, AttentionWindow{60, 25, false}}) {
      for (const bool sinks : {false, true}) {
        o.mask = mask;
        o.bias_dims = dims;
        o.dead_row = dims == 15 ? 7 : 130;
        o.sinks = sinks;
        verify_forward(o);
        verify_backward(o);
      }
    }
  }
}

TEST_P(AttentionBackwardFeatures, ARowWhoseBiasIsMinusInfinityAttendsNothing) {
  verify_dead_rows(dense(2, 200, 300));
  CaseOptions o = dense(2, 200, 300);
  o.dropout.threshold = 50;
  o.slopes = true;
  verify_dead_rows(o);
}

// P is e^(score - lse), as float32 rounds both: never more than 1, whatever the bias. Where the other rows alone have a gradient,
// nothing is left of the far ones. The forward may be another's.
void verify_far_biases(const CaseOptions& o, bool alone) {
  for (CaseOptions far : far_biases(o, alone)) {
    verify_backward(far, true);
    if (far.far_biases.empty()) continue;
    far.far_gradients = far.grad_lse = false;
    verify_backward(far, true);
    AttentionCase c(far);
    c.prepare_backward(true);
    c.forward();
    c.backward();
    expect_backward(c, gradient_tolerance(far.element));
  }
}

TEST_P(AttentionBackwardFeatures, TakeBiasesFarBelowZero) {
  for (const AttentionWindow& mask : {kFull, kCausal}) {
    verify_far_biases(dense(2, 150, 333, mask), false);
    verify_far_biases(dense(2, 333, 200, mask), false);
    verify_far_biases(ragged({0, 5, 300, 64, 129}, {4, 0, 120, 64, 400}, mask), false);
  }
}

// As Tensor::expand makes one: every row reads the same biases, and has gradients of its own.
TEST_P(AttentionBackwardFeatures, ABiasExpandedOverRowsHasAGradientOfEachRow) {
  for (const int dims : {13, 5, 9, 1}) {
    for (const AttentionWindow& mask : {kFull, kCausal, AttentionWindow{60, 25, false}}) {
      for (CaseOptions o : {dense(2, 150, 333, mask), dense(2, 333, 200, mask)}) {
        o.bias_dims = dims;
        o.expanded_bias = true;
        verify_forward(o);
        verify_backward(o);
      }
    }
  }
}

TEST_P(AttentionBackwardScored, AddsABiasAndStoresItsGradient) {
  for (const int dims : {15, 7, 11, 3}) {
    const auto verify = [&](CaseOptions o) {
      o.bias_dims = dims;
      verify_backward(o);
    };
    for (const AttentionWindow& mask : {kFull, kCausal, kCausalTopLeft, AttentionWindow{60, 25, false}}) {
      verify(dense(2, 150, 333, mask));
      verify(dense(2, 333, 200, mask));
      verify(dense(2, 384, 640, mask));
    }
    CaseOptions o = dense(2, 700, 900, kCausal);
    o.heads = 8;
    o.kv_heads = 1;
    o.sinks = true;
    verify(o);
    o = dense(1, 300, 1300);
    o.heads = 6;
    o.kv_heads = 2;
    o.scale = -0.07f;
    o.layout = Layout::padded;
    verify(o);
    verify(dense(1, 70, 2600, kCausal));  // longer rows than a block has threads
    verify(dense(2, 0, 40));
    verify(dense(2, 40, 0));
    verify(dense(0, 0, 0));
  }
}

// Forward and backward, both by Hopper's kernels, of planes that lie sequence by sequence and of dense ones.
void verify_ragged_bias(CaseOptions o, std::initializer_list<int> all_dims) {
  for (const int dims : all_dims) {
    for (const bool by_sequence : {true, false}) {
      if (by_sequence && (dims & 8) == 0) continue;  // each sequence has its own
      o.bias_dims = dims;
      o.ragged_bias = by_sequence;
      for (o.grad_bias = true;; o.grad_bias = false) {
        AttentionCase asked(o);
        asked.take_gradients();
        ASSERT_EQ(kernels::cuda::attention_forward_why_not(asked.problem), "") << describe(o);
        ASSERT_EQ(kernels::cuda::attention_backward_why_not(asked.arguments), "") << describe(o);
        if (o.grad_bias) verify_forward(o);
        verify_backward(o);
        if (!o.grad_bias) break;
      }
    }
  }
}

// Odd lengths, none, one row, one key, more rows than keys and fewer, by each mask.
TEST_P(AttentionBackwardScored, AddsABiasOfEachSequenceAndSumsItsGradient) {
  for (const AttentionWindow& mask :
       {kFull, kCausal, kCausalTopLeft, AttentionWindow{60, 25, false}, AttentionWindow{100, -20, true}}) {
    CaseOptions o = ragged({0, 5, 300, 1, 64, 1, 129, 701, 33}, {4, 0, 121, 1, 63, 300, 403, 901, 1}, mask);
    verify_ragged_bias(o, {15, 11, 7, 3});
    o.heads = 6;
    o.kv_heads = 2;
    o.layout = Layout::padded;
    o.spare = {3, 0, 60, 0, 17, 1, 0, 130, 2};
    o.planned = true;
    o.sinks = true;
    verify_ragged_bias(o, {15, 11, 3});
  }
  CaseOptions o = ragged({700, 31}, {905, 77}, kCausal);  // the query heads of a key head are divided among blocks
  o.heads = 8;
  o.kv_heads = 1;
  o.scale = -0.07f;
  verify_ragged_bias(o, {15, 11});
  verify_ragged_bias(ragged({0, 0}, {7, 40}), {15, 3});
  verify_ragged_bias(ragged({7, 40}, {0, 0}), {15, 3});
  verify_ragged_bias(ragged({}, {}), {15, 3});
}

// Small ones of each kind, which compute-sanitizer can follow.
TEST_P(AttentionBackwardScored, AddsFewBiases) {
  for (const int dims : {15, 7, 11, 3}) {
    CaseOptions o = dense(2, 70, 136, kCausal);
    o.bias_dims = dims;
    verify_backward(o);
    if (dims != 7) verify_ragged_bias(ragged({5, 70, 0, 1}, {4, 141, 3, 1}, kCausal), {dims});
  }
}

// Many short sequences beside a long one; enough heads that the last ones do not rise.
TEST_P(AttentionBackwardScored, AddsABiasOfManySequences) {
  std::mt19937_64 random(seed() + 5);
  std::vector<int> queries{800}, keys{1111};
  for (int i = 0; i < 150; ++i) {
    queries.push_back(static_cast<int>(random() % 90));
    keys.push_back(random() % 5 == 0 ? 0 : static_cast<int>(random() % 100));
  }
  verify_ragged_bias(ragged(queries, keys, kCausal), {11});
  CaseOptions o = ragged({900, 1301, 0, 700, 64}, {1400, 1301, 30, 700, 1283}, kCausal);
  o.heads = o.kv_heads = 12;
  verify_ragged_bias(o, {15, 11, 7});
}

// What a dense bias has behind a sequence's rows and keys is nobody's, and has gradient 0.
TEST_P(AttentionBackwardScored, ReadsNoBiasBehindASequence) {
  for (const AttentionWindow& mask : {kFull, kCausal}) {
    for (const int dims : {15, 11}) {
      CaseOptions o = ragged({129, 300, 5, 64}, {200, 121, 403, 1}, mask);
      o.bias_dims = dims;
      AttentionCase c(o);
      const kernels::CudaAttentionPlane& plane = c.problem.bias;
      for (int b = 0; b < 4; ++b) {
        for (int head = 0; head < (dims == 15 ? o.heads : 1); ++head) {
          uint16_t* const data = static_cast<uint16_t*>(plane.data) + b * plane.sequence_stride + head * plane.head_stride;
          fill_words({data, 0, plane.row_stride, 1}, o.queries[b], plane.rows - o.queries[b], 1, plane.columns, 0x7fff);
          fill_words({data + o.keys[b], 0, plane.row_stride, 1}, 0, o.queries[b], 1, plane.columns - o.keys[b], 0x7fff);
        }
      }
      c.prepare_backward();
      c.poison_dead_rows();
      c.backward();
      expect_backward(c, gradient_tolerance(o.element));
      c.forward();
      expect_forward(c, output_tolerance(o.element));
    }
  }
}

// The panels of so many heads do not fit the memory for them: they take turns, and what they share is summed up between them.
TEST_P(AttentionBackwardScored, AddsABiasHeadAfterHead) {
  if (GetParam().element != AttentionElement::bf16 || GetParam().head_dim % 64 != 0) GTEST_SKIP() << "takes long";
  struct Heads {
    int q, kv, bias_dims;
    bool by_sequence;
  };
  for (const Heads& heads :
       {Heads{24, 24, 11, true}, {12, 12, 15, true}, {48, 48, 11, true}, {24, 12, 11, true}, {24, 24, 3, false}}) {
    CaseOptions o = ragged({5003, 0, 301}, {5201, 7, 100}, kCausal);
    o.heads = heads.q;
    o.kv_heads = heads.kv;
    o.bias_dims = heads.bias_dims;
    o.ragged_bias = heads.by_sequence;
    verify_backward(o);
  }
}

TEST_P(AttentionBackwardScored, ARowWhoseBiasIsMinusInfinityAttendsNothing) {
  verify_dead_rows(dense(2, 512, 512));
  verify_dead_rows(ragged({512, 150, 331}, {512, 177, 260}));
}

TEST_P(AttentionBackwardScored, TakesBiasesFarBelowZero) {
  for (const AttentionWindow& mask : {kFull, kCausal, AttentionWindow{60, 25, false}}) {
    verify_far_biases(dense(2, 150, 333, mask), true);
    verify_far_biases(dense(2, 333, 200, mask), true);
    verify_far_biases(dense(2, 384, 640, mask), true);
    verify_far_biases(ragged({0, 5, 300, 64, 129}, {4, 0, 120, 64, 400}, mask), true);
  }
}

// More than 1 GiB of dS: heads take turns.
TEST_P(AttentionBackwardLarge, ASharedBiasOfManyHeads) {
  CaseOptions o = dense(1, 2048, 2048);
  o.heads = o.kv_heads = 136;
  o.bias_dims = 3;
  verify_backward(o);
}

// The float32 sum of dS over what of sequences (8) and heads (4) the dims of a bias do not have, one after the other.
std::vector<uint16_t> sum_of_planes(const std::vector<uint16_t>& ds, int64_t batch, int64_t heads, int dims) {
  const int64_t size = static_cast<int64_t>(ds.size()) / (batch * heads);
  const int64_t to_heads = dims & 4 ? heads : 1, to_batch = dims & 8 ? batch : 1;
  std::vector<float> sums(to_batch * to_heads * size, 0.0f);
  for (int64_t plane = 0; plane < batch * heads; ++plane) {
    const uint16_t* const from = ds.data() + plane * size;
    float* const to = sums.data() + ((dims & 8 ? plane / heads : 0) * to_heads + (dims & 4 ? plane % heads : 0)) * size;
    for (int64_t i = 0; i < size; ++i) to[i] += detail::bfloat16_bits_to_float(from[i]);
  }
  std::vector<uint16_t> words(sums.size());
  for (size_t i = 0; i < sums.size(); ++i) words[i] = bfloat16(sums[i]).bits;
  return words;
}

// What takes turns has the bits of what is done in one go: as the gradient of a bias of each sequence and head, which is summed
// here. Sequences take turns, or heads, or parts of the query heads of a key head.
TEST_P(AttentionBackwardLarge, ASharedBiasInTurnsHasTheBitsOfOneGo) {
  if (GetParam().path != Path::hopper) GTEST_SKIP() << "the portable kernels keep no dS";
  struct Turns {
    int batch, heads, kv_heads;
    AttentionWindow mask;
    std::vector<int> bias_dims;
  };
  for (const Turns& turns : {Turns{3, 24, 24, kFull, {3, 7, 11}}, {2, 70, 70, kCausal, {3, 7, 11}}, {2, 70, 1, kFull, {3}}}) {
    CaseOptions o = dense(turns.batch, 2816, 2801, turns.mask);
    o.heads = turns.heads;
    o.kv_heads = turns.kv_heads;
    o.bias_dims = 3;
    AttentionCase c(o);
    c.take_gradients();
    c.forward();
    kernels::CudaAttentionPlane& grad = c.arguments.grad_bias;
    const int64_t size = grad.rows * grad.row_stride;
    const auto backward = [&](int dims) {
      const int64_t planes = int64_t{dims & 4 ? o.heads : 1} * (dims & 8 ? turns.batch : 1);
      c.grad_bias = DeviceBuffer(2 * planes * size);
      grad.data = c.grad_bias.as<void>();
      grad.head_stride = dims & 4 ? size : 0;
      grad.sequence_stride = dims & 8 ? (dims & 4 ? o.heads : 1) * size : 0;
      EXPECT_EQ(kernels::cuda::attention_backward_why_not(c.arguments), "");
      c.backward();
      return c.grad_bias.download<uint16_t>();
    };
    const std::vector<uint16_t> ds = backward(15);
    const CaseTensor grads[] = {c.grad_q.copy(), c.grad_k.copy(), c.grad_v.copy()};
    for (const int dims : turns.bias_dims) {
      EXPECT_TRUE(backward(dims) == sum_of_planes(ds, turns.batch, o.heads, dims)) << describe(o) << " as of " << dims;
      if (turns.mask.right != kFull.right) continue;  // under a causal mask the last heads of a launch add in another order
      EXPECT_EQ(different(grads[0], c.grad_q), 0u);
      EXPECT_EQ(different(grads[1], c.grad_k), 0u);
      EXPECT_EQ(different(grads[2], c.grad_v), 0u);
    }
  }
}

}  // namespace
}  // namespace deckle::testing
