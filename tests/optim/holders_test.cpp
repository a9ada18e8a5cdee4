// An optimizer whose parameters were replaced, as Module::to does, trains nothing: step says so.
#include <gtest/gtest.h>

#include "deckle/nn/linear.h"
#include "deckle/ops/generated/reduce.h"
#include "deckle/optim/adamw.h"
#include "deckle/optim/sgd.h"
#include "tests/support/expect.h"
#include "tests/support/random.h"

namespace deckle::optim {
namespace {

using testing::expect_error;
using testing::random_tensor;

constexpr auto kMessage = "has no gradient, and nothing but the optimizer holds it";

TEST(Holders, StepRefusesParametersThatNothingElseHolds) {
  Tensor weight = random_tensor({2}).requires_grad_();
  SGD sgd({weight}, {.lr = 0.1});
  sgd.step();  // no gradient yet, but there may be one
  weight = Tensor();
  expect_error([&] { sgd.step(); }, kMessage);
}

TEST(Holders, StepRefusesTheParametersOfBeforeTo) {
  nn::Linear layer(3, 2);
  AdamW adam(layer.parameters());
  layer.to(DType::float64);
  sum(layer(random_tensor({4, 3}))).backward();
  expect_error([&] { adam.step(); }, kMessage);
  AdamW(layer.parameters()).step();
}

}  // namespace
}  // namespace deckle::optim
