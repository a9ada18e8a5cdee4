// Ops whose slope is zero wherever there is one: gradients and tangents of zeros, also where they write in place.

#include "deckle/autograd/backward.h"
#include "deckle/functional/transforms.h"
#include "deckle/ops/generated/pointwise.h"
#include "deckle/ops/generated/reduce.h"
#include "deckle/ops/generated/shape.h"
#include "tests/support/expect.h"
#include "tests/support/random.h"

namespace deckle {
namespace {

using testing::expect_equal;
using testing::expect_error;
using testing::random_tensor;
using testing::tensor_of;

using Write = Tensor (*)(const Tensor&);

struct FlatWrite {
  const char* name;
  Write write;
  Tensor (*call)(const Tensor&);
};
const FlatWrite kFlat[] = {{"floor_", floor_, floor},
                           {"ceil_", ceil_, ceil},
                           {"round_", round_, round},
                           {"trunc_", trunc_, trunc},
                           {"sign_", sign_, sign}};

TEST(FlatOps, HaveAGradientOfZeros) {
  for (const FlatWrite& op : kFlat) {
    SCOPED_TRACE(op.name);
    const Tensor x = random_tensor({3}).requires_grad_();
    expect_equal(grad(sum(op.call(x)), {x})[0], tensor_of({0, 0, 0}));
    sum(op.call(x * 2.0)).backward();
    expect_equal(x.grad(), tensor_of({0, 0, 0}));
    const Tensor dual = jvp([&](const Tensor& y) { return op.call(y); }, x.detach(), random_tensor({3})).second;
    expect_equal(dual, tensor_of({0, 0, 0}));
  }
}

TEST(FlatOps, HaveSecondDerivativesOfZero) {
  const Tensor x = tensor_of({-1.5, 0.5, 2.5}).requires_grad_();
  const Tensor first = grad(sum(relu(x)), {x}, {.create_graph = true})[0];
  expect_equal(first.detach(), tensor_of({0, 1, 1}));
  expect_equal(grad(sum(first), {x})[0], tensor_of({0, 0, 0}));
}

TEST(FlatOps, AnUnusedInputIsStillAnError) {
  const Tensor x = random_tensor({3}).requires_grad_(), y = random_tensor({3}).requires_grad_();
  expect_error([&] { grad(sum(floor(x)), {y}); }, "no output depends on input 0");
  EXPECT_FALSE(grad(sum(floor(x)), {y}, {.allow_unused = true})[0].defined());
  const auto rows = unbind(x * 1.0, 0);
  expect_error([&] { grad(rows[0] * 1.0, {rows[1]}); }, "no output depends on input 0");  // another output of the same node
}

TEST(FlatOps, OfIntegersHaveNone) {
  const Tensor x = to(tensor_of({1, 2}), DType::int64);
  EXPECT_FALSE(sign(x).requires_grad());
}

TEST(InplaceHistory, AFlatWriteDropsTheEarlierGradient) {
  for (const FlatWrite& op : kFlat) {
    SCOPED_TRACE(op.name);
    const Tensor x = random_tensor({3}).requires_grad_();
    const Tensor y = x * 2.0;
    op.write(y);
    expect_equal(grad(sum(y), {x})[0], tensor_of({0, 0, 0}));
  }
}

TEST(InplaceHistory, AFlatWriteToAViewDropsTheGradientOfThatPart) {
  for (const FlatWrite& op : kFlat) {
    SCOPED_TRACE(op.name);
    const Tensor x = random_tensor({4}).requires_grad_();
    const Tensor y = x * 2.0, other = y.slice(0, 0, 2);
    op.write(y.slice(0, 1, 3));
    expect_equal(grad(sum(y), {x}, {.retain_graph = true})[0], tensor_of({2, 0, 0, 2}));
    expect_equal(grad(sum(other), {x})[0], tensor_of({2, 0, 0, 0}));
  }
}

TEST(InplaceHistory, AFlatWriteDropsTheEarlierTangent) {
  for (const FlatWrite& op : kFlat) {
    SCOPED_TRACE(op.name);
    const Tensor x = random_tensor({4}), t = tensor_of({1, 2, 3, 4});
    const auto whole = [&](const Tensor& v) {
      const Tensor y = v * 2.0;
      op.write(y);
      return y;
    };
    expect_equal(jvp(whole, x, t).second, tensor_of({0, 0, 0, 0}));
    const auto part = [&](const Tensor& v) {
      const Tensor y = v * 2.0;
      op.write(y.slice(0, 1, 3));
      return y;
    };
    expect_equal(jvp(part, x, t).second, tensor_of({2, 0, 0, 8}));
  }
}

}  // namespace
}  // namespace deckle
