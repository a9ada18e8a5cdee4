// Attention whose mask is made once for a batch: recorded in a graph, shared by layers and passes, and on two streams.
#include <vector>

#include "deckle/deckle.h"
#include "tests/cuda/gpu.h"
#include "tests/support/expect.h"

namespace deckle {
namespace {

const std::vector<int64_t> kLengths = {70, 0, 3, 129};
constexpr int64_t kRows = 202;

/// A kind of mask, and what of q, k and v sends it to which kernels: those of tensor cores, and the general ones.
struct Kind {
  const char* name;
  AttentionMask mask;
  DType dtype;
  double soft_cap = 0;
};

std::vector<Kind> kinds() {
  const AttentionMask prefix = masks::prefix_lm(30), window = masks::prefix(20) || !masks::window(50, 50),
                      bytes = masks::boolean(rand({1, 1, 129, 129}) > 0.4);
  return {{"ranges", prefix, DType::bfloat16},
          {"ranges, capped", window, DType::bfloat16, 9},
          {"bytes", bytes, DType::bfloat16},
          {"bytes in float16", bytes, DType::float16},
          {"ranges in float32", window, DType::float32},
          {"bytes in float32", bytes, DType::float32, 9},
          {"bytes in float64", bytes, DType::float64},
          {"causal in float64", masks::causal(), DType::float64}};
}

Tensor drawn(DType dtype) { return randn({kRows, 2, 64}).to(dtype).to(kGpu).detach(); }

/// The result and the gradients of two layers by one plan.
struct Step {
  Ragged rows = Ragged::from_lengths(kLengths);
  Tensor q, weight;
  AttentionOptions options;

  explicit Step(const Kind& kind) : q(drawn(kind.dtype)), weight(drawn(kind.dtype)) {
    options.soft_cap = kind.soft_cap;
    const NestedTensor x(q, rows);
    options.plan = attention_plan(x, x, x, {.mask = kind.mask});
  }
  std::vector<Tensor> operator()() const {
    const Tensor leaf = q.detach().requires_grad_();
    NestedTensor x(leaf, rows);
    x = attention(x, x, x, options);
    x = attention(x, x, x, options);
    const Tensor out = x.values();
    return {out.detach(), grad(sum(out * weight), {leaf})[0]};
  }
};

TEST(CudaAttentionGraph, AMaskOfAPlanIsRecorded) {
  NEEDS_GPU();
  for (const Kind& kind : kinds()) {
    SCOPED_TRACE(kind.name);
    const Step step(kind);
    step();  // once, as every step that is recorded
    std::vector<Tensor> results;
    const cuda::Graph graph(kGpu, [&] { results = step(); });
    for (int turn = 0; turn < 2; ++turn) {
      const_cast<Tensor&>(step.q).copy_(drawn(kind.dtype));
      graph.replay();
      const std::vector<Tensor> expected = step();
      for (size_t i = 0; i < expected.size(); ++i) EXPECT_TRUE(equal(results[i], expected[i])) << "result " << i;
    }
  }
}

TEST(CudaAttentionGraph, DenseOperandsToo) {
  NEEDS_GPU();
  const AttentionMask mask = masks::prefix_lm(30);
  for (const DType dtype : {DType::bfloat16, DType::float32, DType::float64}) {
    SCOPED_TRACE(name(dtype));
    const Tensor q = randn({2, 90, 2, 40}).to(dtype).to(kGpu).detach();
    for (const std::vector<int64_t>& key_lengths : {std::vector<int64_t>{}, {61, 90}}) {
      const Plan plan = attention_plan(q, q, q, {.mask = mask, .key_lengths = key_lengths});
      const auto both = [&] {
        const Tensor leaf = q.detach().requires_grad_();
        const Tensor out = attention(leaf, leaf, leaf, {.soft_cap = 5, .plan = plan});
        return std::vector<Tensor>{out.detach(), grad(sum(out * out), {leaf})[0]};
      };
      const std::vector<Tensor> expected = both();
      std::vector<Tensor> results;
      const cuda::Graph graph(kGpu, [&] { results = both(); });
      graph.replay();
      for (size_t i = 0; i < expected.size(); ++i) EXPECT_TRUE(equal(results[i], expected[i])) << "result " << i;
    }
  }
}

TEST(CudaAttentionGraph, AMaskThatEachCallCompilesIsRefusedWithWhatToDo) {
  NEEDS_GPU();
  const Tensor q = randn({1, 40, 2, 64}).to(DType::bfloat16).to(kGpu);
  const auto call = [&] { attention(q, q, q, {.mask = masks::prefix_lm(3)}); };
  call();
  testing::expect_error([&] { cuda::Graph(kGpu, call); },
                        "a graph is being recorded, which cannot have a mask compiled and uploaded, as attention_plan does");
}

// Its operands may come to be computed again in plain float32, by kernels that are told of the lengths: a graph has both.
TEST(CudaAttentionGraph, Float32IsRecordedOfLengthsThatItHadBefore) {
  NEEDS_CUDA_KERNELS();
  const Tensor q = randn({1, 83, 2, 64}).to(kGpu).requires_grad_(), weight = randn({1, 83, 2, 64}).to(kGpu);
  const auto step = [&] {
    const Tensor out = attention(q, q, q, {.mask = masks::causal()});
    return std::vector<Tensor>{out.detach(), grad(sum(out * weight), {q})[0]};
  };
  testing::expect_error([&] { cuda::Graph(kGpu, [&] { step(); }); },
                        "which cannot have attention in float32 of lengths that it had not before");
  step();
  std::vector<Tensor> results;
  const cuda::Graph graph(kGpu, [&] { results = step(); });
  for (const double last_row : {1.0, 1e9}) {
    {
      const NoGrad no_grad;
      q.narrow(1, 82, 1).mul_(last_row);
    }
    graph.replay();
    const std::vector<Tensor> expected = step();
    for (size_t i = 0; i < expected.size(); ++i) EXPECT_TRUE(equal(results[i], expected[i])) << last_row << ", result " << i;
  }
}

TEST(CudaAttentionGraph, APlanUploadsItsMaskAndCallsUploadNothing) {
  NEEDS_GPU();
  for (const Kind& kind : kinds()) {
    SCOPED_TRACE(kind.name);
    const int64_t before = cuda::counters(kGpu).uploads;
    const Step step(kind);
    const bool compiled = kind.name != std::string("causal in float64");
    EXPECT_GE(cuda::counters(kGpu).uploads, before + 2 + compiled) << "of q, the weight, and what the plan compiled";
    step();
    const int64_t warm = cuda::counters(kGpu).uploads;
    step();
    EXPECT_EQ(cuda::counters(kGpu).uploads, warm);
  }
}

/// Two streams at once, with one plan: what is made once for it serves both.
TEST(CudaAttentionGraph, TwoStreamsShareAPlan) {
  NEEDS_GPU();
  const Stream one = cuda::new_stream(kGpu), other = cuda::new_stream(kGpu);
  for (const Kind& kind : kinds()) {
    SCOPED_TRACE(kind.name);
    const Step first(kind);
    Step second = first;
    second.q = drawn(kind.dtype), second.weight = drawn(kind.dtype);
    std::vector<Tensor> of_first, of_second;
    for (int turn = 0; turn < 3; ++turn) {
      {
        const cuda::OnStream there(kGpu, one);
        of_first = first();
      }
      const cuda::OnStream there(kGpu, other);
      of_second = second();
    }
    synchronize(kGpu);
    const std::vector<Tensor> first_alone = first(), second_alone = second();
    for (size_t i = 0; i < first_alone.size(); ++i) {
      EXPECT_TRUE(equal(of_first[i], first_alone[i])) << "result " << i;
      EXPECT_TRUE(equal(of_second[i], second_alone[i])) << "result " << i;
    }
  }
}

}  // namespace
}  // namespace deckle
