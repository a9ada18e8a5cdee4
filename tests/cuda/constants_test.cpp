// Constants in composites and formulas are made where the operands are.
#include "deckle/core/factory_device.h"
#include "deckle/deckle.h"
#include "tests/cuda/gpu.h"
#include "tests/support/expect.h"

namespace deckle {
namespace {

TEST(CudaConstants, AreWhereTheOperandsAre) {
  NEEDS_GPU();
  const Tensor x = randn({4, 5}), y = x.to(kGpu);
  const auto same = [](const Tensor& got, const Tensor& expected) {
    EXPECT_EQ(got.device(), kGpu);
    testing::expect_equal(got, expected);
  };
  same(tril(y, -1), tril(x, -1));
  same(triu(y), triu(x));
  same(pad(y, {1, 2}), pad(x, {1, 2}));
  same(pad(y, {1, 2}, PadMode::reflect), pad(x, {1, 2}, PadMode::reflect));
  same(repeat_interleave(y, 2, 0), repeat_interleave(x, 2, 0));
  same(flip(y, {0}), flip(x, {0}));
  Generator a(3), b(3);
  same(rand_like(y, {.generator = &a}), rand_like(x, {.generator = &b}));
  EXPECT_EQ(factory_device(), Device()) << "what a composite says ends with it";
}

TEST(CudaConstants, FactoriesFollowAGuard) {
  NEEDS_GPU();
  const OnDevice there(kGpu);
  for (const Tensor& made : {zeros({3}), arange(4), eye(3), linspace(0, 1, 5), randn({2}), tensor({1.0f, 2.0f})})
    EXPECT_EQ(made.device(), kGpu);
  EXPECT_EQ(arange(4).to_vector(), (std::vector<double>{0, 1, 2, 3}));
  EXPECT_EQ(empty({3}).device(), Device()) << "which code of the host's writes";
  const OnDevice here{Device()};
  EXPECT_EQ(zeros({3}).device(), Device());
}

TEST(CudaConstants, AnOptimizersStateIsThatOfItsParametersUnderAGuard) {
  NEEDS_GPU();
  const Tensor x = ones({3}, DType::float32, kGpu).requires_grad_();
  optim::AdamW optimizer({x});
  sum(x).backward();
  optimizer.step();
  const OnDevice there(kGpu);
  const optim::State state = optimizer.state();
  EXPECT_EQ(state.at("steps").to_vector(), std::vector<double>{1});
  optimizer.step();
  optimizer.load_state(state);
  EXPECT_EQ(optimizer.state().at("steps").to_vector(), std::vector<double>{1});
}

}  // namespace
}  // namespace deckle
