// Forward mode and second order of attention in bf16 against float64.
#include <vector>

#include "deckle/kernels/cuda/attention/second_backward.h"
#include "deckle/kernels/cuda/attention/split_forward.h"
#include "deckle/kernels/cuda/attention/tangent_forward.h"
#include "tests/kernels/cuda/pair_case.h"

namespace deckle::testing::pairs {
namespace {

using kernels::cuda::AttentionTangent;

void expect_tangents(const Options& o, Type type) {
  SCOPED_TRACE(describe(o) + (type == Type::bf16 ? " bf16" : " f16"));
  PairCase c(o, type);
  Tensor tangents[] = {c.draw(false, o.head_dim, o.magnitude), c.draw(true, o.head_dim, o.magnitude),
                       c.draw(true, o.value_dim, 1)};
  if (o.offset != 0) {  // all keys move along one direction, so that the tangents of scores have a mean far from 0
    for (float& y : c.q.values) y = rounded(type, y + o.offset);
    for (float& y : tangents[1].values) y = rounded(type, y + o.offset);
    c.send(c.q), c.send(tangents[1]);
    c.x.q = c.q.packed.as<float>(), c.problem.q = c.view(c.q);
  }
  AttentionTangent a;
  const float** given[] = {&c.x.tq, &c.x.tk, &c.x.tv};
  AttentionTensor* views[] = {&a.q, &a.k, &a.v};
  for (int i = 0; i < 3; ++i) {
    if (i == o.without) continue;
    *given[i] = tangents[i].packed.as<float>();
    *views[i] = c.view(tangents[i]);
  }
  DeviceBuffer tangent(std::max<int64_t>(8, c.query_rows * o.heads * o.value_dim * 8)),
      lse(std::max<int64_t>(8, c.query_rows * o.heads * 8));
  reference_pairs<double>(c.problem, c.x, {.tangent = tangent.as<double>(), .lse_tangent = lse.as<double>()}, c.query_rows);
  check(cudaDeviceSynchronize());
  a.problem = c.problem;
  const int64_t bytes = kernels::cuda::tangent_attention_workspace_bytes(a);
  c.take_workspace(bytes);
  a.problem = c.problem;
  kernels::cuda::tangent_attention(a, nullptr);
  check(cudaDeviceSynchronize());
  c.check_guard(bytes);
  bool gaps = false;
  const std::vector<double> got = c.read(c.out, &gaps);
  EXPECT_TRUE(gaps) << "memory between the elements was written";
  std::vector<double> expected = tangent.download<double>(), expected_lse = lse.download<double>();
  expected.resize(got.size()), expected_lse.resize(c.query_rows * o.heads);
  // Terms of opposite signs, larger with the tangents of scores, meet in a row's sum.
  const double unit = (type == Type::bf16 ? 1.0 / 256 : 1.0 / 2048) * (o.magnitude > 1 ? 3 : 1);
  const Errors out_error = errors(got, expected), lse_error = errors(c.lse.download<float>(), expected_lse);
  EXPECT_LT(out_error.norm, 2 * unit);
  EXPECT_LT(lse_error.norm, 2e-5);
}

TEST_F(Pairs, TangentsMatchFloat64) {
  for (Options o : cases()) {
    expect_tangents(o, Type::bf16);
    if (HasFailure()) return;
  }
  for (const int dim : {8, 40, 72, 104}) {
    Options o = sized({130, 7, 300}, {67, 90, 300}, kCausal, true);
    o.head_dim = dim, o.value_dim = dim == 40 ? 56 : dim;
    for (const int without : {-1, 0, 1, 2}) {
      o.without = without;
      expect_tangents(o, Type::bf16);
    }
    o.without = -1, o.offset = 2;
    expect_tangents(o, Type::bf16);
  }
}

/// Second order; `without`: which tangent is not given, of q, k, v, grad_out.
void expect_second(const Options& o) {
  SCOPED_TRACE(describe(o) + ", without " + std::to_string(o.without));
  PairCase c(o, Type::bf16);
  Tensor tangents[] = {c.draw(false, o.head_dim, 1), c.draw(true, o.head_dim, 1), c.draw(true, o.value_dim, 1),
                       c.draw(false, o.value_dim, 1)};
  const Tensor grad_out = c.draw(false, o.value_dim, 1);
  kernels::cuda::AttentionSecond a;
  const float** given[] = {&c.x.tq, &c.x.tk, &c.x.tv, &c.x.grad_out_tangent};
  AttentionTensor* views[] = {&a.q, &a.k, &a.v, &a.grad_out_tangent};
  for (int i = 0; i < 4; ++i) {
    if (i == o.without) continue;
    *given[i] = tangents[i].packed.as<float>();
    *views[i] = c.view(tangents[i]);
  }
  const int64_t statistics = c.query_rows * o.heads;
  std::vector<float> numbers(statistics);
  for (int64_t i = 0; i < statistics; ++i) numbers[i] = static_cast<float>(i % 7) / 4 - 0.75f;
  DeviceBuffer grad_lse(std::max<int64_t>(4, 4 * statistics)), lse_tangent(std::max<int64_t>(4, 4 * statistics));
  grad_lse.upload(numbers);
  c.x.grad_out = grad_out.packed.as<float>(), c.x.grad_lse = c.x.grad_lse_tangent = grad_lse.as<float>();

  // The forward's results, rounded, and the kernels' own forward mode.
  DeviceBuffer out(std::max<int64_t>(8, statistics * o.value_dim * 8)), lse(std::max<int64_t>(8, statistics * 8)), expected[3];
  Tensor result[] = {c.blank(false, o.head_dim), c.blank(true, o.head_dim), c.blank(true, o.value_dim)};
  for (int i = 0; i < 3; ++i) {
    expected[i] = DeviceBuffer(std::max<int64_t>(8, 8 * result[i].rows * result[i].heads * result[i].columns));
    cudaMemset(expected[i].as<void>(), 0, expected[i].bytes());
  }
  reference_pairs<double>(c.problem, c.x,
                          {.out = out.as<double>(),
                           .lse = lse.as<double>(),
                           .second_q = expected[0].as<double>(),
                           .second_k = expected[1].as<double>(),
                           .second_v = expected[2].as<double>()},
                          c.query_rows);
  check(cudaDeviceSynchronize());
  Tensor y = c.blank(false, o.value_dim), y_tangent = c.blank(false, o.value_dim);
  for (const double value : out.download<double>()) y.values.push_back(rounded(Type::bf16, static_cast<float>(value)));
  y.values.resize(statistics * o.value_dim);
  c.send(y);
  std::vector<float> lse_values;
  for (const double value : lse.download<double>()) lse_values.push_back(static_cast<float>(value));
  lse_values.resize(statistics);
  AttentionTangent forward{c.problem, a.q, a.k, a.v};
  c.take_workspace(kernels::cuda::tangent_attention_workspace_bytes(forward));
  forward.problem = c.problem;
  forward.problem.out = c.view(y_tangent), forward.problem.lse = lse_tangent.as<float>();
  kernels::cuda::tangent_attention(forward, nullptr);
  check(cudaDeviceSynchronize());
  c.lse.upload(lse_values);
  c.problem.out = c.view(y);
  a.problem = c.problem;
  a.out = c.view(y_tangent), a.lse_tangent = lse_tangent.as<float>();
  a.grad_out = c.view(grad_out), a.grad_lse = a.grad_lse_tangent = grad_lse.as<float>();
  a.grad_q = c.view(result[0]), a.grad_k = c.view(result[1]), a.grad_v = c.view(result[2]);
  const int64_t bytes = kernels::cuda::second_attention_workspace_bytes(a);
  c.take_workspace(bytes);
  a.problem = c.problem;
  kernels::cuda::second_attention(a, nullptr);
  check(cudaDeviceSynchronize());
  c.check_guard(bytes);
  for (int i = 0; i < 3; ++i) {
    bool gaps = false;
    const std::vector<double> got = c.read(result[i], &gaps);
    EXPECT_TRUE(gaps) << "memory between the elements was written";
    std::vector<double> wanted = expected[i].download<double>();
    wanted.resize(got.size());
    EXPECT_LT(errors(got, wanted).norm, 0.015) << "of gradient " << i;
    const std::vector<uint16_t> before = result[i].memory.download<uint16_t>();
    kernels::cuda::second_attention(a, nullptr);
    EXPECT_EQ(before, result[i].memory.download<uint16_t>()) << "differs from run to run";
  }
}

TEST_F(Pairs, SecondOrderMatchesFloat64) {
  for (Options o : cases()) {
    bool dead = !o.spare.empty();
    for (size_t i = 0; i < o.queries.size(); ++i) dead = dead || (o.queries[i] > o.keys[i] && o.keys[i] > 0);
    if (dead || o.magnitude != 1) continue;
    expect_second(o);
    if (HasFailure()) return;
  }
  Options o = sized({130, 7, 200}, {167, 90, 300}, kCausal, true);
  o.head_dim = 40, o.value_dim = 56;
  for (o.without = -1; o.without < 4; ++o.without) expect_second(o);
  o.head_dim = 72, o.value_dim = 104, o.without = -1, o.padded = true;
  expect_second(o);
}

TEST_F(Pairs, SayWhatTheyDoNotServe) {
  PairCase c(sized({64}, {64}, kFull, false), Type::bf16);
  AttentionTangent a;
  a.problem = c.problem;
  EXPECT_EQ(kernels::cuda::tangent_attention_why_not(a), "");
  float sink = 0;
  a.problem.sinks = &sink;
  EXPECT_EQ(kernels::cuda::tangent_attention_why_not(a), "sinks are given (serves none)");
  a.problem.element = AttentionElement::f16;
  EXPECT_EQ(kernels::cuda::tangent_attention_why_not(a), "the element type is float16 (serves bfloat16)");
  CudaAttentionProblem wide = c.problem;
  wide.sizes.head_dim = 129;
  EXPECT_EQ(kernels::cuda::split_attention_forward_why_not(wide), "D = 129, Dv = 64 (serves 1 to 128)");
}

}  // namespace
}  // namespace deckle::testing::pairs
