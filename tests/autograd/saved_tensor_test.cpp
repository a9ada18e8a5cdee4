#include "deckle/autograd/saved_tensor.h"

#include "deckle/autograd/backward.h"
#include "deckle/core/allocator.h"
#include "deckle/functional/transforms.h"
#include "deckle/ops/generated/pointwise.h"
#include "deckle/ops/generated/reduce.h"
#include "deckle/ops/generated/shape.h"
#include "tests/support/expect.h"
#include "tests/support/random.h"

namespace deckle {
namespace {

using testing::random_tensor;

/// Bytes in use must not grow when `body` runs again: a reference cycle through saved values would.
template <typename Body>
void expect_no_leak(Body&& body) {
  body();
  const int64_t before = memory_stats().in_use;
  for (int i = 0; i < 3; ++i) body();
  EXPECT_EQ(memory_stats().in_use, before);
}

TEST(SavedTensor, SavedOutputsMakeNoCycle) {
  expect_no_leak([] {
    const Tensor a = random_tensor({1000}).requires_grad_();
    const Tensor y = sum(exp(tanh(a)));
    (void)y;
  });
}

TEST(SavedTensor, InplaceOpsMakeNoCycle) {
  expect_no_leak([] {
    const Tensor a = random_tensor({1000}).requires_grad_();
    const Tensor x = random_tensor({1000});
    const Tensor y = x * a;  // saves x
    x.add_(y);               // x now comes from y, which saved x
    const Tensor z = a * 1.0;
    z.mul_(z * 1.0);
    z.slice(0, 3, 9).mul_(a.slice(0, 3, 9));
  });
}

TEST(SavedTensor, ForwardModeMakesNoCycle) {
  expect_no_leak([] {
    const Tensor a = random_tensor({1000}).requires_grad_(), t = random_tensor({1000});
    const Tensor y = jvp([](const Tensor& x) { return exp(tanh(x)); }, a, t).second;
    (void)y;
  });
}

TEST(SavedTensor, BackwardReleasesWhatWasSaved) {
  const Tensor a = random_tensor({100000}).requires_grad_();
  const Tensor y = sum(exp(a) * tanh(a));
  const int64_t before = memory_stats().in_use;
  y.backward();
  EXPECT_LT(memory_stats().in_use, before);
}

}  // namespace
}  // namespace deckle
