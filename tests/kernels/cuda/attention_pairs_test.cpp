// Attention of float32 by two parts of float16, forward and backward, against float64 and plain float32.
#include <cstring>
#include <vector>

#include "deckle/kernels/cuda/attention/split_backward.h"
#include "deckle/kernels/cuda/attention/split_forward.h"
#include "tests/kernels/cuda/pair_case.h"

namespace deckle::testing::pairs {
namespace {

TEST_F(Pairs, Float32MatchesFloat64) {
  double worst = 0, worst_ratio = 0;
  std::vector<Options> all = cases();
  for (const auto& [head_dim, value_dim] : {std::pair(1, 3), {40, 40}, {63, 17}, {65, 128}, {100, 100}, {128, 33}}) {
    Options o = sized({130, 7, 300}, {67, 90, 300}, kCausal, true);
    o.head_dim = head_dim, o.value_dim = value_dim;
    all.push_back(o);
    o.padded = o.sinks = true;
    all.push_back(o);
  }
  for (const float magnitude : {1e-18f, 1e-6f, 1e4f, 1e17f}) {
    Options o = sized({200}, {300}, kFull, false);
    o.magnitude = magnitude, o.scale = 1 / (8 * magnitude * magnitude), o.sinks = true;
    if (std::isfinite(o.scale)) all.push_back(o);
  }
  for (const Options& o : all) {
    SCOPED_TRACE(describe(o));
    PairCase c(o, Type::f32);
    DeviceBuffer out(std::max<int64_t>(8, c.query_rows * o.heads * o.value_dim * 8)),
        lse(std::max<int64_t>(8, c.query_rows * o.heads * 8));
    DeviceBuffer plain_out(out.bytes() / 2), plain_lse(lse.bytes() / 2);
    reference_pairs<double>(c.problem, c.x, {.out = out.as<double>(), .lse = lse.as<double>()}, c.query_rows);
    reference_pairs<float>(c.problem, c.x, {.out = plain_out.as<float>(), .lse = plain_lse.as<float>()}, c.query_rows);
    check(cudaDeviceSynchronize());
    const int64_t bytes = kernels::cuda::split_attention_forward_workspace_bytes(c.problem);
    c.take_workspace(bytes);
    kernels::cuda::split_attention_forward(c.problem, nullptr);
    check(cudaDeviceSynchronize());
    c.check_guard(bytes);
    bool gaps = false;
    const std::vector<double> got = c.read(c.out, &gaps);
    EXPECT_TRUE(gaps) << "memory between the elements was written";
    std::vector<double> expected = out.download<double>(), expected_lse = lse.download<double>();
    expected.resize(got.size()), expected_lse.resize(c.query_rows * o.heads);
    const Errors mine = errors(got, expected), plain = errors(plain_out.download<float>(), expected);
    const Errors mine_lse = errors(c.lse.download<float>(), expected_lse),
                 plain_lse_error = errors(plain_lse.download<float>(), expected_lse);
    // Logits of hundreds: what float32 itself loses of them counts.
    EXPECT_LE(mine.norm, std::max(1e-6, 1.5 * plain.norm)) << "plain float32: " << plain.norm;
    EXPECT_LE(mine.largest, 2 * plain.largest + 5e-7) << "plain float32: " << plain.largest;
    EXPECT_LE(mine_lse.largest, 2 * plain_lse_error.largest + 2e-6) << "lse, plain float32: " << plain_lse_error.largest;
    worst = std::max(worst, mine.norm);
    if (plain.largest > 0) worst_ratio = std::max(worst_ratio, mine.largest / (plain.largest + 1e-8));
    const std::vector<float> before = c.out.memory.download<float>();
    kernels::cuda::split_attention_forward(c.problem, nullptr);
    const std::vector<float> after = c.out.memory.download<float>();
    EXPECT_EQ(std::memcmp(before.data(), after.data(), 4 * before.size()), 0) << "differs from run to run";
    if (HasFailure()) return;
  }
  std::printf("largest relative error %.2e; largest error of an element over plain float32's %.2f\n", worst, worst_ratio);
}

// A NaN, an infinity or a huge number in one sequence reaches no other.
TEST_F(Pairs, Float32KeepsSequencesApart) {
  for (const float intruder : {NAN, INFINITY, 1e30f}) {
    Options o = sized({100, 30, 70}, {100, 30, 200}, kFull, true);
    PairCase c(o, Type::f32);
    const int64_t bytes = kernels::cuda::split_attention_forward_workspace_bytes(c.problem);
    c.take_workspace(bytes);
    kernels::cuda::split_attention_forward(c.problem, nullptr);
    bool gaps = false;
    const std::vector<double> clean = c.read(c.out, &gaps);
    for (Tensor* t : {&c.q, &c.k, &c.v}) {
      for (int64_t row = 100; row < 130; ++row) t->values[row * t->heads * t->columns + 5] = intruder;
      c.send(*t);
    }
    kernels::cuda::split_attention_forward(c.problem, nullptr);
    const std::vector<double> got = c.read(c.out, &gaps);
    for (size_t n = 0; n < got.size(); ++n) {
      const size_t row = n / (2 * 64);
      if (row < 100 || row >= 130) {
        ASSERT_EQ(got[n], clean[n]) << intruder << " at " << n;
      }
    }
  }
}

/// Gradients of the split forward's own out and lse.
void expect_gradients(const Options& o, double& worst, double& worst_ratio) {
  SCOPED_TRACE(describe(o));
  PairCase c(o, Type::f32);
  const Tensor grad_out = c.draw(false, o.value_dim, 1);
  Tensor grad_q = c.blank(false, o.head_dim), grad_k = c.blank(true, o.head_dim), grad_v = c.blank(true, o.value_dim);
  std::vector<float> lse_values(c.query_rows * o.heads);
  for (size_t i = 0; i < lse_values.size(); ++i) lse_values[i] = static_cast<float>(i % 7) / 4 - 0.75f;
  DeviceBuffer grad_lse(std::max<int64_t>(4, 4 * lse_values.size()));
  grad_lse.upload(lse_values);
  c.take_workspace(kernels::cuda::split_attention_forward_workspace_bytes(c.problem));
  kernels::cuda::split_attention_forward(c.problem, nullptr);
  check(cudaDeviceSynchronize());
  kernels::AttentionBackward a;
  a.problem = c.problem;
  a.grad_out = c.view(grad_out), a.grad_lse = grad_lse.as<float>();
  a.grad_q = c.view(grad_q), a.grad_k = c.view(grad_k), a.grad_v = c.view(grad_v);
  const int64_t bytes = kernels::cuda::split_attention_backward_workspace_bytes(a);
  c.take_workspace(bytes);
  a.problem = c.problem;
  kernels::cuda::split_attention_backward(a, nullptr);
  check(cudaDeviceSynchronize());
  c.check_guard(bytes);
  c.x.grad_out = grad_out.packed.as<float>(), c.x.grad_lse = grad_lse.as<float>();
  const Tensor* tensors[] = {&grad_q, &grad_k, &grad_v};
  DeviceBuffer expected[3], plain[3];
  for (int i = 0; i < 3; ++i) {
    const int64_t count = tensors[i]->rows * tensors[i]->heads * tensors[i]->columns;
    expected[i] = DeviceBuffer(std::max<int64_t>(8, 8 * count)), plain[i] = DeviceBuffer(std::max<int64_t>(4, 4 * count));
    cudaMemset(expected[i].as<void>(), 0, expected[i].bytes()), cudaMemset(plain[i].as<void>(), 0, plain[i].bytes());
  }
  reference_pairs<double>(
      c.problem, c.x,
      {.grad_q = expected[0].as<double>(), .grad_k = expected[1].as<double>(), .grad_v = expected[2].as<double>()}, c.query_rows);
  reference_pairs<float>(c.problem, c.x,
                         {.grad_q = plain[0].as<float>(), .grad_k = plain[1].as<float>(), .grad_v = plain[2].as<float>()},
                         c.query_rows);
  check(cudaDeviceSynchronize());
  for (int i = 0; i < 3; ++i) {
    bool gaps = false;
    const std::vector<double> got = c.read(*tensors[i], &gaps);
    EXPECT_TRUE(gaps) << "memory between the elements was written";
    std::vector<double> wanted = expected[i].download<double>();
    wanted.resize(got.size());
    const Errors mine = errors(got, wanted), simple = errors(plain[i].download<float>(), wanted);
    // With one or two keys dP and delta are nearly the same number, summed up in two orders: what is left of them has the
    // roundings of both. Plain float32 here adds up both in one order, where these cancel.
    const double cancelled = o.keys.size() == 1 && o.keys[0] <= 2 ? 64 : 1;
    // The worst that was measured, as it is printed below, stands in docs/hopper.md.
    EXPECT_LE(mine.norm, std::max(1e-6 * cancelled, 3 * simple.norm)) << "gradient " << i << ", plain float32: " << simple.norm;
    EXPECT_LE(mine.largest, 4 * simple.largest + 1e-6 * cancelled) << "gradient " << i << ", plain float32: " << simple.largest;
    worst = std::max(worst, mine.norm);
    if (simple.largest > 0) worst_ratio = std::max(worst_ratio, mine.largest / (simple.largest + 1e-8));
    const std::vector<float> before = tensors[i]->memory.download<float>();
    kernels::cuda::split_attention_backward(a, nullptr);
    const std::vector<float> after = tensors[i]->memory.download<float>();
    EXPECT_EQ(std::memcmp(before.data(), after.data(), 4 * before.size()), 0) << "differs from run to run";
  }
}

TEST_F(Pairs, Float32GradientsMatchFloat64) {
  double worst = 0, worst_ratio = 0;
  std::vector<Options> all = cases();
  for (const auto& [head_dim, value_dim] : {std::pair(1, 3), {40, 40}, {63, 17}, {65, 128}, {100, 100}, {128, 33}}) {
    Options o = sized({130, 7, 300}, {67, 90, 300}, kCausal, true);
    o.head_dim = head_dim, o.value_dim = value_dim, o.padded = true;
    all.push_back(o);
  }
  for (const Options& o : all) {
    if (!o.spare.empty()) continue;
    expect_gradients(o, worst, worst_ratio);
    if (HasFailure()) return;
  }
  std::printf("largest relative error %.2e; largest error of an element over plain float32's %.2f\n", worst, worst_ratio);
}

}  // namespace
}  // namespace deckle::testing::pairs
