// Gradients and training on a GPU, held to the CPU's.
#include "deckle/deckle.h"
#include "tests/cuda/gpu.h"
#include "tests/support/device_tolerances.h"
#include "tests/support/expect.h"

namespace deckle {
namespace {

TEST(CudaBackward, AccumulatesAndCreatesGraphs) {
  NEEDS_GPU();
  const Tensor start = randn({6, 5}, {.dtype = DType::float64});
  const auto gradients = [&](Device device) {
    const Tensor x = start.to(device).detach().requires_grad_();
    for (int i = 0; i < 2; ++i) sum(tanh(x) * x).backward();
    const Tensor y = start.to(device).detach().requires_grad_();
    GradOptions options;
    options.create_graph = true;
    const Tensor first = grad({sum(y * y * sigmoid(y))}, {y}, options)[0];
    const Tensor second = grad({sum(first * first)}, {y})[0];
    return std::vector<Tensor>{x.grad(), first, second};
  };
  const std::vector<Tensor> expected = gradients({}), got = gradients(kGpu);
  for (size_t i = 0; i < got.size(); ++i) {
    EXPECT_EQ(got[i].device(), kGpu);
    testing::expect_close(got[i], expected[i], 1e-13, 1e-13);
  }
}

/// Tokens to classes: an embedding, a norm, two layers, dropout, cross entropy.
struct Net : nn::Module {
  Net(Generator* generator, DType dtype) {
    const auto parameter = [&](Ints sizes, double deviation) {
      return (randn(sizes, {.dtype = dtype, .generator = generator}) * deviation).detach().requires_grad_();
    };
    table = parameter({11, 8}, 1);
    gain = ones({8}, dtype).requires_grad_();
    shift = zeros({8}, dtype).requires_grad_();
    first = parameter({16, 8}, 0.4);
    first_bias = parameter({16}, 0.1);
    second = parameter({5, 16}, 0.3);
    second_bias = parameter({5}, 0.1);
  }
  Tensor loss(const Tensor& tokens, const Tensor& classes, Generator* generator) const {
    const Tensor x = layer_norm(embedding(table, tokens), gain, shift);
    const Tensor h = dropout(gelu(linear(x, first, first_bias)), 0.1, {.generator = generator});
    return cross_entropy(linear(h, second, second_bias), classes, {.label_smoothing = 0.1});
  }
  DECKLE_MEMBERS(table, gain, shift, first, first_bias, second, second_bias);
  Tensor table, gain, shift, first, first_bias, second, second_bias;
};

struct Trained {
  std::vector<double> losses;
  std::vector<Tensor> gradients;  // of the first step
};

Trained train(Device device, DType dtype, int steps) {
  Generator start(3), data(4), noise(5);
  Net net(&start, dtype);
  net.to(device);
  optim::AdamW optimizer(net.parameters(), {.lr = 0.02});
  Trained run;
  for (int step = 0; step < steps; ++step) {
    const Tensor tokens = randint(0, 11, {64}, {.generator = &data});
    const Tensor classes = remainder(tokens, 5);
    const Tensor loss = net.loss(tokens.to(device), classes.to(device), &noise);
    net.zero_grad();
    loss.backward();
    if (step == 0) {
      for (const Tensor& parameter : net.parameters()) run.gradients.push_back(parameter.grad());
    }
    run.losses.push_back(loss.item());
    optim::clip_gradient_norm(net.parameters(), 1.0);
    optimizer.step();
  }
  return run;
}

TEST(CudaTraining, GradientsInFloat64AreTheCpus) {
  NEEDS_GPU();
  const Trained expected = train({}, DType::float64, 1), got = train(kGpu, DType::float64, 1);
  ASSERT_EQ(got.gradients.size(), expected.gradients.size());
  for (size_t i = 0; i < got.gradients.size(); ++i) {
    EXPECT_EQ(got.gradients[i].device(), kGpu);
    constexpr double tolerance = testing::tolerances::kFirstGradients.float64;
    testing::expect_close(got.gradients[i], expected.gradients[i], 0.01 * tolerance, tolerance);
  }
  EXPECT_NEAR(got.losses[0], expected.losses[0], testing::tolerances::kFirstLoss.float64);
}

TEST(CudaTraining, TheLossCurveIsTheCpus) {
  NEEDS_GPU();
  constexpr int kSteps = 100;
  const Trained expected = train({}, DType::float32, kSteps), got = train(kGpu, DType::float32, kSteps);
  for (int step = 0; step < kSteps; ++step)
    EXPECT_NEAR(got.losses[static_cast<size_t>(step)], expected.losses[static_cast<size_t>(step)],
                testing::tolerances::kCurve.float32)
        << "step " << step;
  EXPECT_LT(got.losses.back(), 0.75 * got.losses.front());
}

TEST(CudaTraining, EveryRunHasTheSameBits) {
  NEEDS_GPU();
  EXPECT_EQ(train(kGpu, DType::float32, 20).losses, train(kGpu, DType::float32, 20).losses);
}

}  // namespace
}  // namespace deckle
