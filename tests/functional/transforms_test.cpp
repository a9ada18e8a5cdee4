#include "deckle/functional/transforms.h"

#include "deckle/nested/nested_tensor.h"
#include "deckle/nested/operators.h"
#include "deckle/ops/generated/pointwise.h"
#include "deckle/ops/generated/reduce.h"
#include "tests/support/expect.h"
#include "tests/support/random.h"

namespace deckle {
namespace {

using testing::expect_close;
using testing::expect_equal;
using testing::expect_error;
using testing::random_tensor;
using testing::tensor_of;
using Tensors = std::vector<Tensor>;

Tensor product(const Tensors& x) { return x[0] * x[1]; }
Tensors product_and_first(const Tensors& x) { return {x[0] * x[1], x[0] * 1.0}; }

TEST(Transforms, AsManyTangentsAndCotangentsAsTensors) {
  const Tensors x = {random_tensor({2}), random_tensor({2})}, one = {random_tensor({2})};
  expect_error([&] { jvp(product, x, one); }, "1 tangents for 2 tensors");
  expect_error([&] { vjp(product_and_first, x, one); }, "1 cotangents for 2 tensors");
  expect_error([&] { hvp([](const Tensors& y) { return sum(product(y)); }, x, one); }, "1 tangents for 2 tensors");
}

TEST(Transforms, TangentsAndCotangentsHaveTheShapeAndDtypeOfTheirTensor) {
  const Tensor x = random_tensor({3});
  const auto f = [](const Tensor& y) { return y * y; };
  expect_error([&] { jvp(f, x, random_tensor({1})); }, "a tangent of shape [1] for a tensor of shape [3]");
  expect_error([&] { vjp(f, x, random_tensor({1})); }, "a cotangent of shape [1] for a tensor of shape [3]");
  expect_error([&] { vjp(f, x, random_tensor({3}, DType::float32)); }, "a cotangent of dtype float32");
  expect_error([&] { hvp([&](const Tensor& y) { return sum(f(y)); }, x, random_tensor({4})); }, "a tangent of shape [4]");
}

TEST(Transforms, NestedTangentsAndCotangentsHaveTheSameRaggedShape) {
  const NestedTensor x = NestedTensor::from_lengths(random_tensor({3}), {1, 2}),
                     other = NestedTensor::from_lengths(random_tensor({3}), {2, 1});
  const auto f = [](const NestedTensor& y) { return y * y; };
  expect_error([&] { jvp(f, x, other); }, "jvp: tangent does not fit: ragged shapes differ");
  expect_error([&] { vjp(f, x, other); }, "vjp: cotangent does not fit: ragged shapes differ");
  expect_error([&] { hvp([&](const NestedTensor& y) { return sum(f(y).values()); }, x, other); },
               "hvp: tangent does not fit: ragged shapes differ");
  expect_close(jvp(f, x, x).second.values(), x.values() * x.values() * 2.0);
  expect_close(vjp(f, x, x).second.values(), x.values() * x.values() * 2.0);
}

TEST(Transforms, WhatIsUndefinedStandsForZeros) {
  const Tensors x = {random_tensor({2}), random_tensor({2})};
  expect_close(jvp(product, x, Tensors{x[0], Tensor()}).second, x[0] * x[1]);
  const Tensors gradients = vjp(product_and_first, x, Tensors{Tensor(), x[0]}).second;
  expect_equal(gradients[0], x[0]);
  expect_equal(gradients[1], tensor_of({0, 0}));
}

TEST(Transforms, GradWantsOneElement) {
  const Tensor x = random_tensor({3});
  expect_error([&] { grad([](const Tensor&) { return Tensor(); }, x); }, "an undefined tensor");
  expect_error([&] { grad([](const Tensor& y) { return y * 2.0; }, x); }, "a tensor of shape [3]");
}

}  // namespace
}  // namespace deckle
