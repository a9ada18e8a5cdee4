// What a sequence holds reaches no other, and what a mask hides from a row, tiles away, not that row: to the bit, in float32's
// backward, in forward mode and in second order.
#include <functional>
#include <vector>

#include "deckle/kernels/cuda/attention/second_backward.h"
#include "deckle/kernels/cuda/attention/split_backward.h"
#include "deckle/kernels/cuda/attention/split_forward.h"
#include "deckle/kernels/cuda/attention/tangent_forward.h"
#include "tests/kernels/cuda/pair_case.h"

namespace deckle::testing::pairs {
namespace {

/// Intruders come to rows [first, last), of queries and of keys, and may reach rows [from, to).
struct Place {
  Options options;
  int64_t first, last, from, to;
  std::vector<float> intruders;
};

std::vector<Place> places() {
  std::vector<Place> all;
  for (const int dim : {64, 128}) {
    // The mask: 40 rows back and 25 ahead, in tiles of at most 128. A large number would move float32's parts of its head.
    all.push_back({sized({100, 30, 70}, {100, 30, 200}, kFull, true), 100, 130, 100, 130, {NAN, INFINITY, 1e30f}});
    all.push_back({sized({1100}, {1100}, kWindow, false), 1000, 1030, 250, 1100, {NAN, INFINITY}});
    for (Place* place : {&all.back() - 1, &all.back()}) place->options.head_dim = place->options.value_dim = dim;
  }
  return all;
}

/// `run` computes the results from the operands, in each of which the intruders come to column 5 of the first head.
void expect_isolation(const PairCase& c, const Place& place, const std::vector<Tensor*>& operands,
                      const std::vector<const Tensor*>& results, const std::function<void()>& run) {
  const auto put = [&](Tensor& t, float value) {
    for (int64_t row = place.first; row < place.last; ++row) t.values[row * t.heads * t.columns + 5] = value;
    c.send(t);
  };
  const auto computed = [&] {
    run();
    check(cudaDeviceSynchronize());
    std::vector<std::vector<double>> values;
    bool gaps = false;
    for (const Tensor* t : results) values.push_back(c.read(*t, &gaps));
    return values;
  };
  constexpr float kClean = 0.5f;  // times 1e30 is seen, which 0 is not
  for (Tensor* t : operands) put(*t, kClean);
  const std::vector<std::vector<double>> clean = computed();
  for (size_t operand = 0; operand < operands.size(); ++operand) {
    for (const float intruder : place.intruders) {
      SCOPED_TRACE(describe(place.options) + ", operand " + std::to_string(operand) + ", " + std::to_string(intruder));
      put(*operands[operand], intruder);
      const std::vector<std::vector<double>> got = computed();
      put(*operands[operand], kClean);
      bool seen = false;
      for (size_t i = 0; i < results.size(); ++i) {
        const int64_t row_size = results[i]->heads * results[i]->columns;
        for (int64_t n = 0; n < static_cast<int64_t>(got[i].size()); ++n) {
          const int64_t row = n / row_size;
          if (row >= place.from && row < place.to)
            seen = seen || got[i][n] != clean[i][n];
          else
            ASSERT_EQ(got[i][n], clean[i][n]) << "result " << i << ", row " << row;
        }
      }
      EXPECT_TRUE(seen) << "the intruder is nowhere in the results: the test sees nothing";
    }
  }
}

TEST_F(Pairs, Float32GradientsKeepToTheirOwn) {
  for (const Place& place : places()) {
    PairCase c(place.options, Type::f32);
    Tensor grad_out = c.draw(false, place.options.value_dim, 1);
    const Tensor grad_q = c.blank(false, place.options.head_dim), grad_k = c.blank(true, place.options.head_dim),
                 grad_v = c.blank(true, place.options.value_dim);
    expect_isolation(c, place, {&c.q, &c.k, &c.v, &grad_out}, {&grad_q, &grad_k, &grad_v}, [&] {
      c.take_workspace(kernels::cuda::split_attention_forward_workspace_bytes(c.problem));
      kernels::cuda::split_attention_forward(c.problem, nullptr);
      check(cudaDeviceSynchronize());
      kernels::AttentionBackward a;
      a.problem = c.problem;
      a.grad_out = c.view(grad_out);
      a.grad_q = c.view(grad_q), a.grad_k = c.view(grad_k), a.grad_v = c.view(grad_v);
      c.take_workspace(kernels::cuda::split_attention_backward_workspace_bytes(a));
      a.problem = c.problem;
      kernels::cuda::split_attention_backward(a, nullptr);
    });
    if (HasFailure()) return;
  }
}

TEST_F(Pairs, TangentsKeepToTheirOwn) {
  for (const Place& place : places()) {
    PairCase c(place.options, Type::bf16);
    Tensor tangents[] = {c.draw(false, place.options.head_dim, 1), c.draw(true, place.options.head_dim, 1),
                         c.draw(true, place.options.value_dim, 1)};
    expect_isolation(c, place, {&c.q, &c.k, &c.v, &tangents[0], &tangents[1], &tangents[2]}, {&c.out}, [&] {
      kernels::cuda::AttentionTangent a{c.problem, c.view(tangents[0]), c.view(tangents[1]), c.view(tangents[2])};
      c.take_workspace(kernels::cuda::tangent_attention_workspace_bytes(a));
      a.problem = c.problem;
      kernels::cuda::tangent_attention(a, nullptr);
    });
    if (HasFailure()) return;
  }
}

TEST_F(Pairs, SecondOrderKeepsToItsOwn) {
  for (const Place& place : places()) {
    const Options& o = place.options;
    PairCase c(o, Type::bf16);
    Tensor tangents[] = {c.draw(false, o.head_dim, 1), c.draw(true, o.head_dim, 1), c.draw(true, o.value_dim, 1)};
    Tensor grad_out = c.draw(false, o.value_dim, 1), grad_out_tangent = c.draw(false, o.value_dim, 1);
    Tensor out = c.blank(false, o.value_dim);
    const Tensor out_tangent = c.blank(false, o.value_dim);
    const Tensor results[] = {c.blank(false, o.head_dim), c.blank(true, o.head_dim), c.blank(true, o.value_dim)};
    const int64_t statistics = c.query_rows * o.heads;
    DeviceBuffer lse_tangent(4 * statistics), exact_out(8 * statistics * o.value_dim), exact_lse(8 * statistics);
    const std::vector<Tensor*> operands = {&c.q,         &c.k,         &c.v,      &tangents[0],
                                           &tangents[1], &tangents[2], &grad_out, &grad_out_tangent};
    expect_isolation(c, place, operands, {&results[0], &results[1], &results[2]}, [&] {
      c.x.q = c.q.packed.as<float>(), c.x.k = c.k.packed.as<float>(), c.x.v = c.v.packed.as<float>();
      reference_pairs<double>(c.problem, c.x, {.out = exact_out.as<double>(), .lse = exact_lse.as<double>()}, c.query_rows);
      check(cudaDeviceSynchronize());
      out.values.clear();
      for (const double value : exact_out.download<double>())
        out.values.push_back(rounded(Type::bf16, static_cast<float>(value)));
      c.send(out);
      std::vector<float> lse;
      for (const double value : exact_lse.download<double>()) lse.push_back(static_cast<float>(value));
      c.lse.upload(lse);
      kernels::cuda::AttentionTangent forward{c.problem, c.view(tangents[0]), c.view(tangents[1]), c.view(tangents[2])};
      c.take_workspace(kernels::cuda::tangent_attention_workspace_bytes(forward));
      forward.problem = c.problem;
      forward.problem.out = c.view(out_tangent), forward.problem.lse = lse_tangent.as<float>();
      kernels::cuda::tangent_attention(forward, nullptr);
      check(cudaDeviceSynchronize());
      kernels::cuda::AttentionSecond a;
      a.problem = c.problem;
      a.problem.out = c.view(out);
      a.q = forward.q, a.k = forward.k, a.v = forward.v;
      a.out = c.view(out_tangent), a.lse_tangent = lse_tangent.as<float>();
      a.grad_out = c.view(grad_out), a.grad_out_tangent = c.view(grad_out_tangent);
      a.grad_q = c.view(results[0]), a.grad_k = c.view(results[1]), a.grad_v = c.view(results[2]);
      const int64_t bytes = kernels::cuda::second_attention_workspace_bytes(a);
      c.take_workspace(bytes);
      a.problem.workspace = c.problem.workspace, a.problem.workspace_bytes = bytes;
      kernels::cuda::second_attention(a, nullptr);
    });
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace deckle::testing::pairs
