#include <any>
#include <atomic>
#include <functional>
#include <tuple>
#include <vector>

#include "deckle/autograd/backward.h"
#include "deckle/autograd/saved_tensor_hooks.h"
#include "deckle/core/cuda/device.h"
#include "deckle/functional/gradcheck.h"
#include "deckle/functional/transforms.h"
#include "deckle/ops/generated/factory.h"
#include "deckle/ops/generated/pointwise.h"
#include "deckle/ops/generated/reduce.h"
#include "deckle/ops/generated/segment.h"
#include "deckle/ops/generated/shape.h"
#include "declared/ops/declared.h"
#include "tests/support/expect.h"
#include "tests/support/random.h"

namespace declared {
namespace {
std::atomic<int> probes{0};
}

namespace native {

using namespace deckle;

Tensor by_case(const Tensor& self, const Tensor& other, std::string_view mode, bool) {
  return mode == "product" ? deckle::raw::mul(self, other) : deckle::raw::add(self, other);
}

std::tuple<Tensor, Tensor, Tensor> three(const Tensor& self) {
  return {deckle::raw::mul(self, 2.0), deckle::raw::mul(self, self), deckle::raw::mul(self, 1.0)};
}

Tensor probe(const Tensor& self) {
  ++probes;
  return deckle::raw::mul(self, 1.0);
}

Tensor shared_probe(const Tensor& self, const Tensor& other, const Tensor& third) {
  return deckle::raw::add(deckle::raw::mul(self, other), third);
}

Tensor exponential_of_product(const Tensor& self, const Tensor& other) {
  const Tensor product = deckle::raw::mul(self, other);
  return deckle::raw::mul(deckle::raw::exp(product), product);
}

std::vector<Tensor> pairwise(TensorList self, TensorList) {
  std::vector<Tensor> copies;
  for (const Tensor& tensor : self) copies.push_back(deckle::raw::mul(tensor, 1.0));
  return copies;
}

std::vector<Tensor> but_last(TensorList self) { return native::pairwise(self.first(self.size() - 1), {}); }

std::vector<Tensor> short_of_tangents(TensorList self) { return native::pairwise(self, {}); }

std::vector<Tensor> of_three(TensorList self, int64_t) { return native::pairwise(self, {}); }

}  // namespace native
}  // namespace declared

namespace deckle {

using namespace declared;

namespace {

using testing::expect_equal;
using testing::random_tensor;
using Tensors = std::vector<Tensor>;

Tensor leaf(Ints sizes) { return random_tensor(sizes).requires_grad_(); }

/// Tensors that were saved inside the scope.
class Saved {
 public:
  int count() const { return count_; }

 private:
  int count_ = 0;
  SavedTensorHooks hooks_{[this](const Tensor& tensor) {
                            ++count_;
                            return std::any(tensor);
                          },
                          [](const std::any& value) { return std::any_cast<Tensor>(value); }};
};

void expect_derivatives(const std::function<Tensors(const Tensors&)>& f, const Tensors& x) {
  gradcheck(f, x);
  gradgradcheck(f, x);
  forward_gradcheck(f, x);
}

TEST(DeclaredRules, TheCaseOfTheCallCounts) {
  for (const char* mode : {"sum", "product"}) {
    expect_derivatives([&](const Tensors& x) { return Tensors{by_case(x[0], x[1], mode)}; },
                       {random_tensor({3}), random_tensor({3})});
  }
  const Tensor x = leaf({3}), y = leaf({3});
  {
    const Saved saved;
    by_case(x, y, "sum");
    EXPECT_EQ(saved.count(), 0) << "no case that holds reads a tensor";
  }
  const Saved saved;
  by_case(x, y, "product");
  EXPECT_EQ(saved.count(), 2);
}

TEST(DeclaredRules, AResultIsAConstantWhereItsEntrySaysSo) {
  const Tensor x = leaf({3}), y = random_tensor({3});
  EXPECT_TRUE(by_case(x, y, "sum", false).requires_grad());
  EXPECT_FALSE(by_case(x, y, "sum", true).requires_grad());
  const auto slope = [&](bool constant) {
    return jvp([&](const Tensor& z) { return by_case(z, y, "sum", constant); }, y, ones_like(y)).second.to_vector();
  };
  EXPECT_EQ(slope(false), (std::vector<double>{1, 1, 1}));
  EXPECT_EQ(slope(true), (std::vector<double>{0, 0, 0}));
}

TEST(DeclaredRules, EachResultByItself) {
  const auto [twice, squared, same] = three(leaf({2}));
  EXPECT_TRUE(twice.requires_grad());
  EXPECT_TRUE(squared.requires_grad());
  EXPECT_FALSE(same.requires_grad());
  const Tensor narrow = to(random_tensor({2}), DType::float32).requires_grad_();
  const auto results = three(narrow);
  EXPECT_TRUE(std::get<0>(results).requires_grad());
  EXPECT_FALSE(std::get<1>(results).requires_grad());
  expect_derivatives(
      [](const Tensors& x) {
        const auto [a, b, c] = three(x[0]);
        return Tensors{a, b};
      },
      {random_tensor({3})});
}

TEST(DeclaredRules, WhatFormulasShareIsComputedOnce) {
  const auto calls = [](const Tensors& wanted, const Tensor& result) {
    probes = 0;
    grad(sum(result), wanted);
    return probes.load();
  };
  const Tensor x = leaf({3}), y = leaf({3}), z = leaf({3}), small = leaf({1});
  EXPECT_EQ(calls({x, y}, shared_probe(x, y, z)), 1);
  EXPECT_EQ(calls({x}, shared_probe(x, y, z)), 1);
  EXPECT_EQ(calls({z}, shared_probe(x, y, z)), 1) << "in a branch of the only formula that is evaluated";
  expect_derivatives([](const Tensors& v) { return Tensors{shared_probe(v[0], v[1], v[2])}; },
                     {random_tensor({3}), random_tensor({3}), random_tensor({3})});
}

TEST(DeclaredRules, WhatIsCheapIsComputedAgain) {
  const Tensor x = leaf({3}), y = leaf({3});
  {
    const Saved saved;
    exponential_of_product(x, y);
    EXPECT_EQ(saved.count(), 2) << "the operands, not the result";
  }
  expect_derivatives([](const Tensors& v) { return Tensors{exponential_of_product(v[0], v[1])}; },
                     {abs(random_tensor({3})) + 0.5, abs(random_tensor({3})) + 0.5});
  const Tensor base = (abs(x.detach()) + 0.5).requires_grad_();
  const Saved saved;
  pow(base, y);
  EXPECT_EQ(saved.count(), 2);
}

TEST(DeclaredRules, ReadTheSizesOfRowsThatRepeatAsTheOpSeesThem) {
  const Ragged ragged = Ragged::from_lengths(std::vector<int64_t>{3, 0, 5, 1});
  const Tensor x = leaf({9, 8}), rows = leaf({4, 8}), ones_like = ones({9, 8}, DType::float64);
  declared::detail::averaged_product(x, RepeatedRows(rows, ragged)).backward(ones_like);
  testing::expect_close(x.grad(), segment_broadcast(rows.detach(), ragged) / 72);
  testing::expect_close(rows.grad(), segment_sum(x.detach(), ragged) / 9);
}

TEST(DeclaredRules, OfListsWantThemOfOneLength) {
  const Tensor x = leaf({2});
  EXPECT_EQ(testing::error_of([&] { pairwise({x, x}, {x}); }), "pairwise: other has 1 elements (expected 2)");
  EXPECT_EQ(pairwise({x, x}, {x, x}).size(), 2U);
  const auto tangents = [](const Tensors& at) { return short_of_tangents(at); };
  testing::expect_error([&] { jvp(tangents, Tensors{x, x}, Tensors{x, x}); }, "has 1 elements (expected 2)");
}

TEST(DeclaredRules, OfACompositeAreThoseOfItsDevice) {
  EXPECT_EQ(told_by_device(ones({1})).item<float>(), 2);
  if (cuda::device_count() == 0) GTEST_SKIP() << "needs a GPU, or a fake one";
  EXPECT_EQ(told_by_device(ones({1}).to(Device::cuda())).item<float>(), 3);
}

TEST(Formulas, ReadNoElementPastTheEndOfAList) {
  const Tensor x = leaf({2}), y = leaf({2});
  testing::expect_error(
      [&] {
        of_three({x, y}, 1)[0].backward(ones_like(x));
      },
      "a formula of of_three reads the gradient of result 2 of 2 (expected 0 or more, and less than 2)");
  const auto moved = [](const Tensors& at) { return of_three(at, 1); };
  testing::expect_error(
      [&] {
        jvp(moved, Tensors{x, y}, Tensors{x, y});
      },
      "of_three: a formula reads element 2 of a list of 2 (expected 0 or more, and less than 2)");
  of_three({x, y, x}, 1)[2].backward(ones_like(x));
  expect_equal(x.grad(), ones_like(x));
}

}  // namespace
}  // namespace deckle
