// Checkpointed functions on a GPU: what they draw again, and what a graph makes of them.
#include "deckle/core/cuda/graph.h"
#include "deckle/deckle.h"
#include "tests/cuda/gpu.h"
#include "tests/support/expect.h"

namespace deckle {
namespace {

/// The gradient of a weight: of two layers with dropout between, the first checkpointed or not.
Tensor gradient(const Tensor& x, const Tensor& start, bool checkpointed, Generator& generator) {
  const Tensor weight = start.detach().requires_grad_();
  const auto layer = [&](const Tensor& input) { return dropout(gelu(linear(input, weight)), 0.3, {.generator = &generator}); };
  const Tensor y = checkpointed ? checkpoint(layer, x) : layer(x);
  sum(y * dropout(y, 0.5, {.generator = &generator})).backward();
  return weight.grad();
}

TEST(CudaCheckpoint, DrawsTheSameNumbersAgain) {
  NEEDS_GPU();
  const Tensor x = randn({33, 24}).to(kGpu).detach().requires_grad_(), start = randn({24, 24}).to(kGpu);
  Generator first(7), second(7);
  testing::expect_equal(gradient(x, start, true, first), gradient(x, start, false, second));
  EXPECT_EQ(first.offset(), second.offset());  // what was drawn again took nothing from the generator
}

TEST(CudaCheckpoint, IsReplayedInAGraph) {
  NEEDS_GPU();
  const Tensor x = randn({33, 24}).to(kGpu), start = randn({24, 24}).to(kGpu);
  const auto step = [&](const Tensor& weight, bool checkpointed) {
    weight.set_grad({});
    const auto layer = [&](const Tensor& input) { return layer_norm(gelu(linear(input, weight))); };
    const Tensor y = checkpointed ? checkpoint(layer, x) : layer(x);
    sum(square(linear(y, weight))).backward();
  };
  const Tensor replayed = start.detach().requires_grad_(), eager = start.detach().requires_grad_();
  step(replayed, true);
  const cuda::Graph graph(kGpu, [&] { step(replayed, true); });
  for (int i = 0; i < 3; ++i) {
    x.copy_(randn({33, 24}).to(kGpu));
    graph.replay();
    step(eager, false);
    testing::expect_equal(replayed.grad(), eager.grad());
  }
}

TEST(CudaCheckpoint, DrawsTheSameNumbersAgainInAGraph) {
  NEEDS_GPU();
  const Tensor x = randn({33, 24}).to(kGpu).detach().requires_grad_(), start = randn({24, 24}).to(kGpu);
  Generator first(7), second(7);
  (void)gradient(x, start, true, first), first.set_state(7, 0);
  Tensor got;
  const cuda::Graph graph(kGpu, [&] { got = gradient(x, start, true, first); });
  for (int i = 0; i < 3; ++i) {
    graph.replay();
    testing::expect_equal(got, gradient(x, start, false, second));
    EXPECT_EQ(first.offset(), second.offset());
  }
}

}  // namespace
}  // namespace deckle
