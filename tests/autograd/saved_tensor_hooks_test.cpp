#include "deckle/autograd/saved_tensor_hooks.h"

#include "deckle/attention/attention.h"
#include "deckle/autograd/backward.h"
#include "deckle/functional/gradcheck.h"
#include "deckle/functional/transforms.h"
#include "deckle/ops/compare.h"
#include "deckle/ops/generated/factory.h"
#include "deckle/ops/generated/index.h"
#include "deckle/ops/generated/pointwise.h"
#include "deckle/ops/generated/reduce.h"
#include "deckle/ops/generated/shape.h"
#include "tests/support/expect.h"
#include "tests/support/random.h"
#include "tests/support/sanitizers.h"

namespace deckle {
namespace {

using testing::expect_close;
using testing::expect_error;
using testing::random_tensor;
using testing::tensor_of;

Tensor layers(const Tensor& x) { return sum(exp(tanh(x * x)) * sigmoid(x)); }

TEST(SavedTensorHooks, SeeWhatIsSavedAndGiveItBack) {
  int packed = 0, unpacked = 0;
  const Tensor x = random_tensor({4}).requires_grad_();
  Tensor y;
  {
    const SavedTensorHooks hooks(
        [&](const Tensor& tensor) {
          EXPECT_FALSE(tensor.requires_grad());
          ++packed;
          return std::any(tensor.clone());
        },
        [&](const std::any& kept) {
          ++unpacked;
          return std::any_cast<Tensor>(kept);
        });
    y = layers(x);
  }
  EXPECT_GT(packed, 3);
  expect_close(grad(y, {x})[0], grad(layers, x.detach()));
  EXPECT_GE(unpacked, packed);
}

TEST(SavedTensorHooks, ValuesMayBeKeptInLessMemory) {
  const Tensor x = random_tensor({64});
  const SavedTensorHooks hooks([](const Tensor& tensor) { return std::any(to(tensor, DType::bfloat16)); },
                               [](const std::any& kept) { return to(std::any_cast<Tensor>(kept), DType::float64); });
  const Tensor leaf = x.clone().requires_grad_();
  sum(leaf * leaf).backward();
  const Tensor rounded = to(to(x, DType::bfloat16), DType::float64);
  expect_close(leaf.grad(), rounded * 2.0);
}

// Kernels that take strides take those of what was saved: rows of attention are read as they lay.
TEST(SavedTensorHooks, WhatComesBackMayLieAnywhere) {
  using Change = Tensor (*)(const Tensor&);
  const Change changes[] = {
      [](const Tensor& x) { return transpose(contiguous(transpose(x, -1, -2)), -1, -2); },
      [](const Tensor& x) {
        return select(cat({unsqueeze(x, -1), unsqueeze(x, -1) * 3}, -1), -1, 0);
      },
      [](const Tensor& x) {
        return view(slice(cat({full({1}, 7, x.dtype()), reshape(x, {-1})}), 0, 1, x.numel() + 1), x.sizes());
      },
  };
  for (const DType dtype : {DType::float64, DType::float32, DType::bfloat16}) {
    const Tensor q = random_tensor({2, 20, 4, 24}, dtype).requires_grad_(),
                 k = random_tensor({2, 20, 2, 24}, dtype).requires_grad_();
    const auto gradients = [&] {
      const Tensor y = attention(q, k, k, {.mask = masks::causal()});
      const std::vector<Tensor> first = grad(sum(y * y), {q, k}, {.create_graph = true});
      const std::vector<Tensor> second = grad(sum(first[0] * first[0]), {q, k});
      return std::vector{first[0].detach(), first[1].detach(), second[0], second[1]};
    };
    const std::vector<Tensor> expected = gradients();
    for (const Change change : changes) {
      const SavedTensorHooks hooks([](const Tensor& tensor) { return std::any(tensor.clone()); },
                                   [&](const std::any& kept) {
                                     const Tensor tensor = std::any_cast<Tensor>(kept);
                                     return tensor.dim() < 2 ? tensor : change(tensor);
                                   });
      const std::vector<Tensor> found = gradients();
      for (size_t i = 0; i < expected.size(); ++i) EXPECT_TRUE(equal(found[i], expected[i])) << name(dtype) << ", gradient " << i;
    }
  }
}

TEST(SavedTensorHooks, HistoryIsKeptBesideThem) {
  const auto hooked = [](const Tensor& x) {
    const SavedTensorHooks hooks([](const Tensor& tensor) { return std::any(tensor.clone()); },
                                 [](const std::any& kept) { return std::any_cast<Tensor>(kept); });
    return layers(x);
  };
  const Tensor x = random_tensor({4});
  gradcheck(hooked, x);
  gradgradcheck(hooked, x);
  forward_gradcheck(hooked, x);
  forward_gradgradcheck(hooked, x);
}

TEST(SavedTensorHooks, TheInnermostGuardCounts) {
  const Tensor x = random_tensor({4}).requires_grad_();
  int outer = 0, inner = 0;
  const auto count = [](int& counter) {
    return [&counter](const Tensor& tensor) {
      ++counter;
      return std::any(tensor);
    };
  };
  const auto unpack = [](const std::any& kept) { return std::any_cast<Tensor>(kept); };
  const SavedTensorHooks first(count(outer), unpack);
  exp(x);
  {
    const SavedTensorHooks second(count(inner), unpack);
    exp(x);
  }
  exp(x);
  EXPECT_EQ(outer, 2);
  EXPECT_EQ(inner, 1);
}

TEST(SavedTensorHooks, AWriteToWhatWasKeptAsItIsIsAnError) {
  const Tensor x = random_tensor({4}).requires_grad_();
  const SavedTensorHooks hooks([](const Tensor& tensor) { return std::any(tensor); },
                               [](const std::any& kept) { return std::any_cast<Tensor>(kept); });
  const Tensor y = exp(x * 1.0);
  y.add_(tensor_of({1, 1, 1, 1}));
  expect_error([&] { grad(sum(y), {x}); }, "changed in place");
}

TEST(SavedTensorHooks, AWrongUnpackedTensorIsAnError) {
  const Tensor x = random_tensor({4}).requires_grad_();
  const SavedTensorHooks hooks([](const Tensor&) { return std::any(); }, [](const std::any&) { return tensor_of({1, 2}); });
  expect_error([&] { grad(sum(exp(x)), {x}); }, "SavedTensorHooks returned a float64 tensor of shape [2]");
}

TEST(SavedTensorHooks, PackedGraphsOfAnyDepthAreFreed) {
  Tensor x = random_tensor({1}).requires_grad_();
  const SavedTensorHooks hooks([](const Tensor& tensor) { return std::any(tensor.clone()); },
                               [](const std::any& kept) { return std::any_cast<Tensor>(kept); });
  for (int i = 0; i < testing::repetitions(200'000); ++i) x = square(x);
}

}  // namespace
}  // namespace deckle
