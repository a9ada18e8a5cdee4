#include "deckle/functional/checkpoint.h"

#include <utility>

#include "deckle/autograd/backward.h"
#include "deckle/core/allocator.h"
#include "deckle/core/generator.h"
#include "deckle/functional/gradcheck.h"
#include "deckle/functional/transforms.h"
#include "deckle/ops/generated/factory.h"
#include "deckle/ops/generated/matmul.h"
#include "deckle/ops/generated/pointwise.h"
#include "deckle/ops/generated/random.h"
#include "deckle/ops/generated/reduce.h"
#include "deckle/ops/generated/shape.h"
#include "tests/support/expect.h"
#include "tests/support/random.h"

namespace deckle {
namespace {

using testing::expect_equal;
using testing::expect_error;
using testing::random_tensor;

Tensor deep(const Tensor& x) {
  Tensor y = x;
  for (int i = 0; i < 10; ++i) y = tanh(y * 1.1) * y;
  return y;
}

TEST(Checkpoint, HasTheDerivativesOfTheFunction) {
  const Tensor x = random_tensor({5});
  const auto f = [](const Tensor& v) { return checkpoint(deep, v * 1.0); };
  gradcheck(f, x);
  gradgradcheck(f, x);
  forward_gradcheck(f, x);
  forward_gradgradcheck(f, x);
  expect_equal(grad([&](const Tensor& v) { return sum(f(v)); }, x), grad([](const Tensor& v) { return sum(deep(v)); }, x));
}

TEST(Checkpoint, KeepsOnlyItsInputs) {
  const Tensor x = random_tensor({100000}).requires_grad_();
  const auto in_use = [&] { return memory_stats(x.device()).in_use; };
  const int64_t before = in_use();
  const Tensor plain = deep(x);
  const int64_t kept = in_use() - before;
  const Tensor again = checkpoint(deep, x);
  const int64_t kept_again = in_use() - before - kept;
  EXPECT_GT(kept, 10 * 800000);
  EXPECT_LT(kept_again, 2 * 800000);
  const Tensor expected = grad(sum(plain), {x})[0];
  expect_equal(grad(sum(again), {x})[0], expected);
}

TEST(Checkpoint, ReachesParametersThatTheFunctionCaptures) {
  const Tensor weight = random_tensor({3, 3}).requires_grad_(), x = random_tensor({2, 3});
  const auto layer = [&](const Tensor& v) { return tanh(matmul(v, weight)); };
  sum(checkpoint(layer, x)).backward();
  const Tensor got = weight.grad();
  weight.set_grad({});
  sum(layer(x)).backward();
  expect_equal(got, weight.grad());
}

TEST(Checkpoint, DrawsTheSameRandomNumbersAgain) {
  const Tensor x = random_tensor({100}).requires_grad_();
  const auto f = [](const Tensor& v) { return tanh(dropout(v, 0.5)) * v; };
  manual_seed(5);
  const Tensor expected = grad(sum(f(x)), {x})[0];
  const Tensor after = rand({1});
  manual_seed(5);
  const Tensor y = sum(checkpoint(f, x));
  expect_equal(rand({1}), after);
  const uint64_t offset = default_generator().offset();
  expect_equal(grad(y, {x})[0], expected);
  EXPECT_EQ(default_generator().offset(), offset);  // what comes later does not see that numbers were drawn again
}

TEST(Checkpoint, DrawsTheSameRandomNumbersAgainFromAnyGenerator) {
  const Tensor x = random_tensor({200}).requires_grad_();
  Generator own(3), twin(3);
  const auto f = [&](const Tensor& v) { return dropout(exp(v), 0.5, {.generator = &own}); };  // its own derivative
  const Tensor y = checkpoint(f, x);
  dropout(x, 0.5, {.generator = &twin});
  expect_equal(rand({1}, {.generator = &own}), rand({1}, {.generator = &twin}));
  const uint64_t offset = own.offset();
  expect_equal(grad(sum(y), {x})[0], y.detach());
  EXPECT_EQ(own.offset(), offset);
  const Tensor nested = checkpoint([&](const Tensor& v) { return checkpoint(f, v * 1.0) * checkpoint(f, v); }, x);
  expect_equal(grad(sum(nested), {x})[0], 2 * nested.detach());
  // Two that live one after another, maybe at one place.
  const auto local = [](Tensor v) {
    for (const uint64_t seed : {uint64_t{1}, uint64_t{2}}) {
      Generator generator(seed);
      v = dropout(exp(v), 0.3, {.generator = &generator});
    }
    return v;
  };
  expect_equal(grad(sum(checkpoint(local, x)), {x})[0], grad(sum(local(x)), {x})[0]);
}

TEST(Checkpoint, NestsAndMayBeReadTwice) {
  const Tensor x = random_tensor({4}).requires_grad_();
  const auto f = [](const Tensor& v) { return checkpoint(deep, tanh(checkpoint(deep, v))); };
  const Tensor y = sum(checkpoint(f, x));
  const Tensor first = grad(y, {x}, {.retain_graph = true})[0];
  expect_equal(grad(y, {x})[0], first);
  expect_equal(first, grad(sum(deep(tanh(deep(x)))), {x})[0]);
}

TEST(Checkpoint, ANewDirectionInForwardModeFindsTheValues) {
  const Tensor x = random_tensor({4}).requires_grad_();
  const Tensor y = checkpoint(deep, x), plain = deep(x), c = random_tensor({4}), t = random_tensor({4});
  const auto pulled = [&](const Tensor& of) {
    return jvp([&](const Tensor& v) { return grad(of, {x}, {.grad_outputs = {v}, .retain_graph = true})[0]; }, c, t).second;
  };
  expect_equal(pulled(y), pulled(plain));
}

TEST(Checkpoint, SaysWhatItsFunctionMustNotDo) {
  const Tensor x = random_tensor({4}).requires_grad_();
  int calls = 0;
  const Tensor y = checkpoint([&calls](const Tensor& v) { return calls++ == 0 ? exp(v) : exp(v) * exp(v); }, x);
  expect_error([&] { grad(sum(y), {x}); }, "(expected the same each time)");
  bool first = true;
  const Tensor drawn =
      checkpoint([&](const Tensor& v) { return exp(v) * (std::exchange(first, false) ? rand({4}) : ones({4})); }, x);
  expect_error([&] { grad(sum(drawn), {x}); }, "drew random numbers 1 times when it was called and 0 when it was called again");
  const Tensor written = random_tensor({4});
  const Tensor z = checkpoint([&](const Tensor& a, const Tensor& b) { return a * b; }, std::tuple(written, x));
  written.add_(x.detach());
  expect_error([&] { grad(sum(z), {x}); }, "changed in place");
  const auto overwrites = [](const Tensor& v) {
    const Tensor saved = exp(v), squared = saved * saved;
    saved.fill_(7);
    return sum(squared);
  };
  expect_error([&] { grad(overwrites(x), {x}); }, "changed in place");
  expect_error([&] { grad(checkpoint(overwrites, x), {x}); }, "changed in place");
}

TEST(Checkpoint, OfAFunctionThatTakesAGradient) {
  const Tensor x = random_tensor({3}).requires_grad_();
  const auto slope = [](const Tensor& v) {
    const Tensor z = exp(v) * v;
    return grad(sum(z), {v}, {.create_graph = true})[0];
  };
  const Tensor plain = grad(sum(slope(x * 1.0)), {x})[0];
  const Tensor again = grad(sum(checkpoint(slope, x * 1.0)), {x})[0];
  EXPECT_EQ(again.to_vector(), plain.to_vector());
}

}  // namespace
}  // namespace deckle
