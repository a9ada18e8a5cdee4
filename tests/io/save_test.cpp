// One pair of calls for a tensor, a nested tensor, a struct of tensors, a module and an optimizer.
#include "deckle/io/save.h"

#include <gtest/gtest.h>

#include "deckle/nn/linear.h"
#include "deckle/ops/generated/factory.h"
#include "deckle/ops/generated/reduce.h"
#include "deckle/optim/adamw.h"
#include "tests/support/expect.h"
#include "tests/support/random.h"
#include "tests/support/temporary_folder.h"

namespace deckle::io {
namespace {

using testing::expect_equal;
using testing::expect_error;
using testing::random_tensor;

struct Layer {
  Tensor weight, bias;
  static constexpr auto fields = std::tuple(&Layer::weight, &Layer::bias);
};

TEST(Save, ATensorOrANestedTensor) {
  const TemporaryFolder folder;
  const Tensor x = random_tensor({2, 3});
  save(x, folder / "x");
  Tensor y;
  load(y, folder / "x");
  expect_equal(y, x);
  const NestedTensor n = NestedTensor::from_lengths(random_tensor({3, 2}), {2, 0, 1});
  save(n, folder / "n");
  NestedTensor m;
  load(m, folder / "n");
  expect_equal(m.values(), n.values());
  EXPECT_TRUE(m.ragged() == n.ragged());
  expect_error([&] { load(y, folder / "n"); }, (folder / "n").string() + ": has no tensor \"tensor\" (expected one)");
}

TEST(Save, ANestedLeafKeepsItsTensor) {
  const TemporaryFolder folder;
  const NestedTensor saved = NestedTensor::from_lengths(random_tensor({3, 2}), {2, 0, 1});
  save(saved, folder / "n");
  NestedTensor leaf = NestedTensor::from_lengths(random_tensor({3, 2}), {2, 0, 1}).requires_grad_();
  const Tensor held = leaf.values();
  load(leaf, folder / "n");
  EXPECT_TRUE(leaf.values().is_same(held) && leaf.requires_grad());
  expect_equal(leaf.values().detach(), saved.values());
  NestedTensor other = NestedTensor::from_lengths(random_tensor({3, 2}), {1, 1, 1}).requires_grad_();
  expect_error([&] { load(other, folder / "n"); }, "for a parameter of other ones (expected the same)");
}

TEST(Save, AStructOfTensorsWithSomeUndefined) {
  const TemporaryFolder folder;
  const std::vector<Layer> layers = {{random_tensor({2, 3}), {}}, {random_tensor({4}), random_tensor({})}};
  save(layers, folder / "layers");
  std::vector<Layer> back(2);
  load(back, folder / "layers");
  expect_equal(back[0].weight, layers[0].weight);
  EXPECT_FALSE(back[0].bias.defined());
  expect_equal(back[1].bias, layers[1].bias);
  back[1].bias = zeros({2}, DType::float64);
  expect_error([&] { load(back, folder / "layers"); }, "is [] float64 (expected [2] float64)");
  std::vector<Layer> fewer(1);
  expect_error([&] { load(fewer, folder / "layers"); },
               (folder / "layers").string() + ": has 3 tensors (expected 2 at most, named by their numbers)");
}

TEST(Save, WhatIsLoadedIntoAParameterIsTrained) {
  const TemporaryFolder folder;
  const Tensor x = random_tensor({2, 3});
  save(x, folder / "x");
  save(Layer{x, x}, folder / "layer");
  Layer layer{zeros({2, 3}, DType::float64).requires_grad_(), Tensor()};
  const Tensor kept = layer.weight;
  load(layer.weight, folder / "x");
  EXPECT_TRUE(layer.weight.is_same(kept) && kept.requires_grad());
  expect_equal(kept.detach(), x);
  kept.detach().fill_(0);
  load(layer, folder / "layer");
  EXPECT_TRUE(layer.weight.is_same(kept));
  expect_equal(kept.detach(), x);
  Tensor other = zeros({3}, DType::float64).requires_grad_();
  expect_error([&] { load(other, folder / "x"); }, "for a parameter of [3] float64 (expected the same)");
  // Lengths of nested tensors are no leaves.
  static_assert(detail::kHoldsNested<std::vector<std::pair<Tensor, NestedTensor>>> && !detail::kHoldsNested<Layer>);
}

TEST(Save, AFileWithMoreTensorsLeavesParametersAsTheyAre) {
  const TemporaryFolder folder;
  const Tensor x = random_tensor({3});
  save(std::vector<Tensor>{x, x, x}, folder / "three");
  std::vector<Tensor> two = {zeros({3}, DType::float64).requires_grad_(), zeros({3}, DType::float64).requires_grad_()};
  expect_error([&] { load(two, folder / "three"); }, "has 3 tensors (expected 2 at most");
  for (const Tensor& tensor : two) expect_equal(tensor.detach(), zeros({3}, DType::float64));
}

TEST(Save, AModuleAndItsOptimizer) {
  const TemporaryFolder folder;
  const nn::Linear layer(3, 2), other(3, 2);
  optim::Adam optimizer(layer.parameters(), {.lr = 0.1}), second(other.parameters(), {.lr = 0.1});
  sum(layer(random_tensor({4, 3}, DType::float32))).backward();
  optimizer.step();
  save(layer, folder / "model");
  save(optimizer, folder / "optimizer");
  load(other, folder / "model");
  load(second, folder / "optimizer");
  expect_equal(other.weight, layer.weight);
  for (const auto& [name, tensor] : optimizer.state()) expect_equal(second.state().at(name), tensor);
}

}  // namespace
}  // namespace deckle::io
