// The attention backward against float64: every head dim and element type, dense and ragged, all masks, and what must not happen:
// NaN from another sequence, results that differ between runs, writes outside the tensors.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "deckle/kernels/cuda/attention/backward.h"
#include "tests/kernels/cuda/attention_data.h"
#include "tests/kernels/cuda/attention_reference.h"

namespace deckle::testing {
namespace {

using kernels::AttentionBackward;
using kernels::AttentionMask;
using kernels::kUnboundedWindow;

void check(cudaError_t status) {
  if (status != cudaSuccess) throw std::runtime_error(std::string("CUDA: ") + cudaGetErrorString(status));
}

struct Memory {
  explicit Memory(int64_t bytes, int fill = 0xff) {
    check(cudaMalloc(&data, std::max<int64_t>(bytes, 256)));
    if (fill >= 0) check(cudaMemset(data, fill, std::max<int64_t>(bytes, 256)));
  }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  ~Memory() { cudaFree(data); }
  template <typename T>
  T* as() const {
    return static_cast<T*>(data);
  }
  void* data = nullptr;
};

uint64_t seed() {
  static const uint64_t value = [] {
    const char* text = std::getenv("DECKLE_TEST_SEED");
    const uint64_t s = text != nullptr ? std::strtoull(text, nullptr, 10)
                                       : static_cast<uint64_t>(std::chrono::system_clock::now().time_since_epoch().count());
    std::printf("DECKLE_TEST_SEED=%llu\n", static_cast<unsigned long long>(s));
    return s;
  }();
  return value;
}

/// How a tensor lies in memory: [row, head, column], rows with a gap behind them, or [head, row, column].
enum class Layout { packed, gaps, heads_first };

struct Case {
  std::string name;
  int D = 128, Dv = 128;
  AttentionElement element = AttentionElement::bf16;
  int heads = 2, kv_heads = 2;
  std::vector<int> queries, keys;  // ragged: one length a sequence; dense: equal lengths
  bool ragged = false;
  AttentionMask mask;
  float scale = 0;  // 0: 1 / sqrt(D)
  bool grad_lse = true;
  Layout layout = Layout::packed;
  float magnitude = 1;  // of q and k
  bool nan_in_dead_rows = true;
  bool deterministic = true;
  int64_t batch_gap = 0;  // dense: elements between batches
};

/// A tensor of `rows` rows with memory of its own; `words` 16-bit words in all, poisoned with 0xffff.
struct TestTensor {
  TestTensor(const Case& c, int64_t sequences, int64_t rows_per_sequence, int heads, int dim) {
    int64_t per_batch = rows_per_sequence * heads * dim;
    view.row_stride = int64_t{heads} * dim;
    view.head_stride = dim;
    if (c.layout == Layout::gaps) {
      view.row_stride += 40;
      per_batch = rows_per_sequence * view.row_stride;
    } else if (c.layout == Layout::heads_first) {
      view.row_stride = dim;
      view.head_stride = rows_per_sequence * dim;
    }
    view.batch_stride = per_batch + c.batch_gap;
    words = c.ragged ? per_batch : sequences * view.batch_stride;
    memory = std::make_unique<Memory>(2 * words, c.batch_gap > 0 ? -1 : 0xff);
    view.data = memory->data;
  }
  AttentionTensor view;
  int64_t words = 0;
  std::unique_ptr<Memory> memory;
};

struct Problem {
  explicit Problem(const Case& test) : c(test) {
    const int batch = static_cast<int>(c.queries.size());
    for (int b = 0; b < batch; ++b) {
      q_offsets.push_back(q_offsets.back() + c.queries[b]);
      k_offsets.push_back(k_offsets.back() + c.keys[b]);
    }
    // Ragged: rows behind the last sequence belong to nobody.
    const int64_t M = c.ragged ? q_offsets.back() + 5 : c.queries[0], N = c.ragged ? k_offsets.back() + 3 : c.keys[0];
    rows_q = q_offsets.back();
    rows_k = k_offsets.back();
    per_batch_q = c.ragged ? std::max<int64_t>(rows_q, 1) : std::max<int64_t>(M, 1);
    per_batch_k = c.ragged ? std::max<int64_t>(rows_k, 1) : std::max<int64_t>(N, 1);
    const auto tensor = [&](int64_t rows, int heads, int dim) {
      return std::make_unique<TestTensor>(c, batch, rows, heads, dim);
    };
    q = tensor(M, c.heads, c.D);
    k = tensor(N, c.kv_heads, c.D);
    v = tensor(N, c.kv_heads, c.Dv);
    out = tensor(M, c.heads, c.Dv);
    grad_out = tensor(M, c.heads, c.Dv);
    grad_q = tensor(M, c.heads, c.D);
    grad_k = tensor(N, c.kv_heads, c.D);
    grad_v = tensor(N, c.kv_heads, c.Dv);
    const int64_t lse_count = int64_t{c.heads} * (c.ragged ? M : M * batch);
    lse = std::make_unique<Memory>(4 * lse_count);
    grad_lse = std::make_unique<Memory>(4 * lse_count);

    auto& p = arguments.problem;
    p.element = c.element;
    p.sizes.batch = batch;
    p.sizes.heads = c.heads;
    p.sizes.kv_heads = c.kv_heads;
    p.sizes.head_dim = c.D;
    p.sizes.value_dim = c.Dv;
    p.sizes.query_rows = M;
    p.sizes.key_rows = N;
    if (c.ragged) {
      offsets = std::make_unique<Memory>(16 * (batch + 1));
      auto* device = offsets->as<int64_t>();
      check(cudaMemcpy(device, q_offsets.data(), 8 * (batch + 1), cudaMemcpyHostToDevice));
      check(cudaMemcpy(device + batch + 1, k_offsets.data(), 8 * (batch + 1), cudaMemcpyHostToDevice));
      p.sizes.query_offsets = device;
      p.sizes.key_offsets = device + batch + 1;
    }
    p.mask = c.mask;
    p.scale = c.scale != 0 ? c.scale : 1.0f / std::sqrt(static_cast<float>(c.D));
    p.q = q->view;
    p.k = k->view;
    p.v = v->view;
    p.out = out->view;
    p.lse = lse->as<float>();
    arguments.grad_out = grad_out->view;
    arguments.deterministic = c.deterministic;
    arguments.grad_lse = c.grad_lse ? grad_lse->as<float>() : nullptr;
    arguments.grad_q = grad_q->view;
    arguments.grad_k = grad_k->view;
    arguments.grad_v = grad_v->view;
    p.workspace_bytes = kernels::cuda::attention_backward_workspace_bytes(arguments);
    workspace = std::make_unique<Memory>(p.workspace_bytes);
    p.workspace = workspace->data;

    const uint64_t s = seed();
    fill_normal(c.element, q->view, rows_q, per_batch_q, c.heads, c.D, s + 1, c.magnitude);
    fill_normal(c.element, k->view, rows_k, per_batch_k, c.kv_heads, c.D, s + 2, c.magnitude);
    fill_normal(c.element, v->view, rows_k, per_batch_k, c.kv_heads, c.Dv, s + 3, 1);
    fill_normal(c.element, grad_out->view, rows_q, per_batch_q, c.heads, c.Dv, s + 4, 1);
    fill_normal(grad_lse->as<float>(), lse_count, s + 5, 1);
  }

  void reference() {
    ref_q = std::make_unique<Memory>(8 * rows_q * c.heads * c.D);
    ref_k = std::make_unique<Memory>(8 * rows_k * c.kv_heads * c.D);
    ref_v = std::make_unique<Memory>(8 * rows_k * c.kv_heads * c.Dv);
    const auto& problem = arguments.problem;
    Memory out64(8 * rows_q * c.heads * c.Dv), lse64(8 * c.heads * (c.ragged ? problem.sizes.query_rows : rows_q));
    const ReferenceForward forward{out64.as<double>(), lse64.as<double>()};
    reference_forward(problem, forward);
    reference_backward(arguments, forward, {ref_q->as<double>(), ref_k->as<double>(), ref_v->as<double>()});
    store_forward(problem, forward);
    check(cudaDeviceSynchronize());
  }

  bool dead(int sequence, int row) const {
    const int64_t M = c.queries[sequence], N = c.keys[sequence], center = row + (c.mask.bottom_right ? N - M : 0);
    return N == 0 || center - c.mask.left > N - 1 || center + int64_t{c.mask.right} < 0;
  }

  void poison_dead_rows() {
    for (size_t b = 0; b < c.queries.size(); ++b) {
      for (int i = 0; i < c.queries[b]; ++i) {
        if (!dead(static_cast<int>(b), i)) continue;
        AttentionTensor t = grad_out->view;
        if (!c.ragged) t.data = static_cast<uint16_t*>(t.data) + b * t.batch_stride;
        fill_nan(t, c.ragged ? q_offsets[b] + i : i, 1, c.heads, c.Dv);
      }
    }
  }

  void run() {
    kernels::cuda::attention_backward(arguments, nullptr);
    check(cudaDeviceSynchronize());
  }

  Case c;
  std::vector<int64_t> q_offsets{0}, k_offsets{0};
  int64_t rows_q, rows_k, per_batch_q, per_batch_k;
  std::unique_ptr<TestTensor> q, k, v, out, grad_out, grad_q, grad_k, grad_v;
  std::unique_ptr<Memory> lse, grad_lse, offsets, workspace, ref_q, ref_k, ref_v;
  AttentionBackward arguments;
};

// Rounding P and dS to 16 bits costs 2^-9 (bf16) or 2^-12 (f16) of each term, the result as much again.
double worst = 0;  // relative error over tolerance, over all cases of a test

double tolerance(const Case& c) { return c.element == AttentionElement::bf16 ? 8e-3 : 1.2e-3; }

void expect_close(const Problem& p, const char* what, const TestTensor& got, const Memory& reference, int64_t rows,
                  int64_t per_batch, int heads, int dim) {
  const Difference d = compare(p.c.element, got.view, reference.as<double>(), rows, per_batch, heads, dim);
  // Gradients may cancel to zero (one key: dS = 0): an absolute error of float32 rounding is then all there is.
  const double floor = 1e-5 * std::sqrt(static_cast<double>(rows) * heads * dim);
  if (rows == 0) return;
  const double relative = std::sqrt(d.error_norm) / std::max(std::sqrt(d.reference_norm), floor / tolerance(p.c));
  EXPECT_EQ(d.not_finite, 0u) << p.c.name << " " << what;
  EXPECT_LE(relative, tolerance(p.c)) << p.c.name << " " << what << ": largest error " << d.largest_error << " of "
                                      << d.largest_reference;
  EXPECT_LE(d.largest_error, 6 * tolerance(p.c) * d.largest_reference + 1e-4) << p.c.name << " " << what;
  // Nothing else is written: the memory was all 0xffff, which no finite result equals.
  if (p.c.batch_gap == 0) {
    EXPECT_EQ(count_words(got.view.data, got.words, 0xffff), static_cast<unsigned long long>(got.words - rows * heads * dim))
        << p.c.name << " " << what;
  }
  worst = std::max(worst, relative / tolerance(p.c));
}

void verify(const Case& c) {
  Problem p(c);
  p.reference();
  if (c.nan_in_dead_rows) p.poison_dead_rows();
  p.run();
  expect_close(p, "dQ", *p.grad_q, *p.ref_q, p.rows_q, p.per_batch_q, c.heads, c.D);
  expect_close(p, "dK", *p.grad_k, *p.ref_k, p.rows_k, p.per_batch_k, c.kv_heads, c.D);
  expect_close(p, "dV", *p.grad_v, *p.ref_v, p.rows_k, p.per_batch_k, c.kv_heads, c.Dv);
}

struct Instance {
  int D, Dv;
  AttentionElement element;
};

class AttentionBackwardTest : public ::testing::TestWithParam<Instance> {
 protected:
  void SetUp() override { worst = 0; }
  void TearDown() override {
    if (worst > 0) std::printf("  largest relative error: %.2f of the tolerance\n", worst);
  }
  Case base(std::string name) const {
    Case c;
    c.name = std::move(name);
    c.D = GetParam().D;
    c.Dv = GetParam().Dv;
    c.element = GetParam().element;
    return c;
  }
  Case dense(std::string name, int batch, int M, int N, AttentionMask mask = {}) const {
    Case c = base(std::move(name));
    c.queries.assign(batch, M);
    c.keys.assign(batch, N);
    c.mask = mask;
    return c;
  }
  Case ragged(std::string name, std::vector<int> queries, std::vector<int> keys, AttentionMask mask = {}) const {
    Case c = base(std::move(name));
    c.queries = std::move(queries);
    c.keys = std::move(keys);
    c.mask = mask;
    c.ragged = true;
    return c;
  }
};

constexpr AttentionMask kFull{};
constexpr AttentionMask kCausal{kUnboundedWindow, 0, true};
constexpr AttentionMask kCausalTopLeft{kUnboundedWindow, 0, false};

TEST_P(AttentionBackwardTest, Dense) {
  verify(dense("full", 2, 384, 384));
  verify(dense("odd", 2, 203, 333));
  Case c = dense("causal", 1, 515, 515, kCausal);
  c.heads = 4;
  verify(c);
  c = dense("grouped", 2, 200, 261, kCausal);
  c.heads = 6;
  c.layout = Layout::gaps;
  verify(c);
  c = dense("multi-query", 1, 130, 70, kFull);
  c.heads = 5;
  c.kv_heads = 1;
  c.grad_lse = false;
  c.layout = Layout::heads_first;
  verify(c);
}

TEST_P(AttentionBackwardTest, MasksWithRowsThatAttendNothing) {
  verify(dense("causal, more rows", 2, 333, 200, kCausal));
  verify(dense("causal, more keys", 2, 100, 300, kCausal));
  verify(dense("causal top left", 2, 333, 200, kCausalTopLeft));
  verify(dense("causal top left, more keys", 2, 150, 420, kCausalTopLeft));
  verify(dense("window", 1, 500, 500, {100, 50, true}));
  verify(dense("narrow window", 1, 300, 300, {0, 0, true}));
  verify(dense("window that ends before the rows", 2, 333, 100, {17, 3, false}));
  verify(dense("window before the diagonal", 1, 300, 280, {90, -20, true}));
  verify(dense("nobody attends", 1, 100, 100, {-200, 300, true}));
}

TEST_P(AttentionBackwardTest, Tiny) {
  verify(dense("1x1", 1, 1, 1));
  verify(dense("1x300", 2, 1, 300));
  verify(dense("300x1", 2, 300, 1));
  verify(dense("7x5", 3, 7, 5, kCausal));
  verify(dense("no keys", 2, 40, 0));
  verify(dense("no queries", 2, 0, 40));
}

TEST_P(AttentionBackwardTest, Ragged) {
  const std::vector<int> q{0, 5, 130, 64, 0, 257, 1, 63, 400, 0}, k{7, 9, 129, 64, 0, 300, 0, 70, 390, 0};
  verify(ragged("full", q, k));
  verify(ragged("causal", q, k, kCausal));
  Case c = ragged("window, grouped", q, k, {70, 20, true});
  c.heads = 4;
  verify(c);
  verify(ragged("top left", q, k, {40, 0, false}));
  std::mt19937_64 random(seed());
  std::vector<int> many_q, many_k;
  for (int i = 0; i < 300; ++i) {
    many_q.push_back(static_cast<int>(random() % 40));
    many_k.push_back(random() % 4 == 0 ? 0 : static_cast<int>(random() % 60));
  }
  verify(ragged("many short", many_q, many_k, kCausal));
  c = ragged("short, grouped", {64, 3, 0, 17, 64, 1}, {64, 40, 5, 16, 1, 64}, {20, 5, true});
  c.heads = 6;
  verify(c);
  c = ragged("short, full, gaps", {64, 63, 30, 65}, {64, 64, 65, 2});
  c.layout = Layout::gaps;
  verify(c);
}

TEST_P(AttentionBackwardTest, Scales) {
  Case c = dense("negative scale", 1, 200, 200, kCausal);
  c.scale = -0.07f;
  verify(c);
  c = dense("small scale", 1, 200, 200);
  c.scale = 0.004f;
  verify(c);
  c = dense("sharp", 1, 200, 200);
  c.magnitude = 3;
  verify(c);
}

// Random problems: lengths, heads, masks.
TEST_P(AttentionBackwardTest, Random) {
  std::mt19937_64 random(seed() + 17);
  const auto below = [&](int n) { return static_cast<int>(random() % n); };
  for (int i = 0; i < 12; ++i) {
    Case c = base("random " + std::to_string(i));
    c.ragged = below(2) == 1;
    c.kv_heads = 1 + below(3);
    c.heads = c.kv_heads * (1 + below(3));
    c.grad_lse = below(2) == 1;
    c.layout = static_cast<Layout>(below(3));
    c.mask.bottom_right = below(2) == 1;
    if (below(2) == 1) c.mask.left = below(300);
    if (below(2) == 1) c.mask.right = below(200) - 50;
    const int batch = 1 + below(4), M = 1 + below(500), N = 1 + below(500);
    for (int b = 0; b < batch; ++b) {
      c.queries.push_back(c.ragged ? below(400) : M);
      c.keys.push_back(c.ragged ? below(400) : N);
    }
    c.name += " M " + std::to_string(c.queries[0]) + " N " + std::to_string(c.keys[0]) + " left " + std::to_string(c.mask.left) +
              " right " + std::to_string(c.mask.right) + (c.mask.bottom_right ? " bottom right" : " top left") +
              (c.ragged ? " ragged" : " dense");
    verify(c);
  }
}

TEST_P(AttentionBackwardTest, Unordered) {
  const auto unordered = [](Case c) {
    c.deterministic = false;
    verify(c);
  };
  unordered(dense("full", 2, 384, 384));
  unordered(dense("odd", 2, 203, 333));
  Case c = dense("grouped, causal", 2, 200, 261, kCausal);
  c.heads = 6;
  c.layout = Layout::gaps;
  unordered(c);
  unordered(dense("causal, more rows", 2, 333, 200, kCausal));
  unordered(dense("window that ends before the rows", 2, 333, 100, {17, 3, false}));
  unordered(dense("no keys", 2, 40, 0));
  c = ragged("ragged window", {0, 5, 130, 64, 0, 257, 1, 63, 400, 0}, {7, 9, 129, 64, 0, 300, 0, 70, 390, 0}, {70, 20, true});
  c.heads = 4;
  unordered(c);
}

TEST_P(AttentionBackwardTest, HugeLogitsStayFinite) {
  Case c = dense("logits of 1e4", 1, 300, 300, kCausal);
  c.magnitude = 30;
  c.scale = 1e4f / (900.0f * 3 * std::sqrt(static_cast<float>(c.D)));
  Problem p(c);
  p.reference();
  p.run();
  // lse itself is rounded to 2^-11 here, so P is good to 1e-3; dS of a near-saturated softmax cancels.
  const Difference dv = compare(c.element, p.grad_v->view, p.ref_v->as<double>(), p.rows_k, p.per_batch_k, c.kv_heads, c.Dv);
  const Difference dq = compare(c.element, p.grad_q->view, p.ref_q->as<double>(), p.rows_q, p.per_batch_q, c.heads, c.D);
  const Difference dk = compare(c.element, p.grad_k->view, p.ref_k->as<double>(), p.rows_k, p.per_batch_k, c.kv_heads, c.D);
  EXPECT_EQ(dv.not_finite + dq.not_finite + dk.not_finite, 0u);
  EXPECT_LE(std::sqrt(dv.error_norm / dv.reference_norm), 2e-2);
}

TEST_P(AttentionBackwardTest, RepeatsBitForBit) {
  Case c = ragged("repeat", {500, 130, 0, 700, 64}, {400, 257, 30, 700, 128}, kCausal);
  c.heads = 4;
  Problem p(c);
  p.reference();
  TestTensor first_q(c, 5, p.arguments.problem.sizes.query_rows, c.heads, c.D);
  TestTensor first_k(c, 5, p.arguments.problem.sizes.key_rows, c.kv_heads, c.D);
  TestTensor first_v(c, 5, p.arguments.problem.sizes.key_rows, c.kv_heads, c.Dv);
  for (int i = 0; i < 20; ++i) {
    p.run();
    if (i == 0) {
      check(cudaMemcpy(first_q.view.data, p.grad_q->view.data, 2 * first_q.words, cudaMemcpyDeviceToDevice));
      check(cudaMemcpy(first_k.view.data, p.grad_k->view.data, 2 * first_k.words, cudaMemcpyDeviceToDevice));
      check(cudaMemcpy(first_v.view.data, p.grad_v->view.data, 2 * first_v.words, cudaMemcpyDeviceToDevice));
    }
    ASSERT_EQ(count_different(first_q.view, p.grad_q->view, 0, p.rows_q, c.heads, c.D), 0u) << i;
    ASSERT_EQ(count_different(first_k.view, p.grad_k->view, 0, p.rows_k, c.kv_heads, c.D), 0u) << i;
    ASSERT_EQ(count_different(first_v.view, p.grad_v->view, 0, p.rows_k, c.kv_heads, c.Dv), 0u) << i;
  }
}

TEST_P(AttentionBackwardTest, NanOfOneSequenceReachesNoOther) {
  const std::vector<int> lengths{30, 60, 77, 23, 200};  // the poisoned one is the third; its neighbours may be short
  for (const AttentionMask& mask : {kFull, kCausal}) {
    Problem clean(ragged("clean", lengths, lengths, mask)), poisoned(ragged("poisoned", lengths, lengths, mask));
    clean.reference();
    poisoned.reference();
    const Case& c = clean.c;
    for (TestTensor* t : {poisoned.q.get(), poisoned.k.get()}) fill_nan(t->view, 90, 77, c.heads, c.D);
    for (TestTensor* t : {poisoned.v.get(), poisoned.out.get(), poisoned.grad_out.get()})
      fill_nan(t->view, 90, 77, c.heads, c.Dv);
    for (int head = 0; head < c.heads; ++head) {
      const int64_t rows = poisoned.arguments.problem.sizes.query_rows;
      check(cudaMemset(poisoned.lse->as<float>() + head * rows + 90, 0xff, 77 * 4));
    }
    clean.run();
    poisoned.run();
    for (const auto& [first, rows] : {std::pair{0, 90}, std::pair{167, 223}}) {
      EXPECT_EQ(count_different(clean.grad_q->view, poisoned.grad_q->view, first, rows, c.heads, c.D), 0u);
      EXPECT_EQ(count_different(clean.grad_k->view, poisoned.grad_k->view, first, rows, c.heads, c.D), 0u);
      EXPECT_EQ(count_different(clean.grad_v->view, poisoned.grad_v->view, first, rows, c.heads, c.Dv), 0u);
    }
    EXPECT_GT(count_different(clean.grad_q->view, poisoned.grad_q->view, 90, 77, c.heads, c.D), 0u);
  }
}

std::vector<Instance> instances() {
  std::vector<Instance> all;
  for (const auto& [D, Dv] : {std::pair{128, 128}, {64, 64}, {96, 96}, {192, 128}, {192, 192}, {256, 256}}) {
    for (AttentionElement element : {AttentionElement::bf16, AttentionElement::f16}) all.push_back({D, Dv, element});
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(Instances, AttentionBackwardTest, ::testing::ValuesIn(instances()), [](const auto& info) {
  return "D" + std::to_string(info.param.D) + (info.param.D == info.param.Dv ? "" : "Dv" + std::to_string(info.param.Dv)) +
         (info.param.element == AttentionElement::bf16 ? "Bf16" : "F16");
});

// More than 2^31 elements from one batch to the next.
TEST(AttentionBackwardOffsets, BeyondTwoToTheThirtyOne) {
  Case c;
  c.name = "far batches";
  c.queries = {150, 150};
  c.keys = {140, 140};
  c.batch_gap = int64_t{1} << 31;
  verify(c);
}

}  // namespace
}  // namespace deckle::testing
