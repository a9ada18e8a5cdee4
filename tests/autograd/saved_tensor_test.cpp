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

TEST(SavedTensor, WritesToTheBaseOfASavedViewMakeNoCycle) {
  expect_no_leak([] {
    const Tensor a = random_tensor({500}).requires_grad_();
    const Tensor base = random_tensor({1000});
    const Tensor y = base.slice(0, 0, 500) * a;  // saves a view of the base
    base.slice(0, 500, 1000).add_(y);            // the base now comes from y
    const Tensor leaf = base.detach().slice(0, 0, 500).requires_grad_();
    const Tensor other = base.detach();
    other.slice(0, 500, 1000).add_(leaf * a);
    const Tensor written = other.slice(0, 0, 500);
    exp_(written);  // saves its result, a view
    tanh_(written);
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
  const int64_t before = memory_stats(a.device()).in_use;
  y.backward();
  EXPECT_LT(memory_stats(a.device()).in_use, before);
}

/// Destroyed after main, when this thread's own objects are gone: the sanitizers watch.
Tensor with_history_until_exit;

TEST(SavedTensor, AGraphMayLiveInStaticStorage) {
  with_history_until_exit = random_tensor({3}).requires_grad_();
  for (int i = 0; i < 1000; ++i) with_history_until_exit = with_history_until_exit * 1.0;
  EXPECT_TRUE(with_history_until_exit.requires_grad());
}

}  // namespace
}  // namespace deckle
