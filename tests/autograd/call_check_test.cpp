#include "deckle/autograd/call_check.h"

#include "deckle/autograd/history.h"
#include "deckle/ops/generated/pointwise.h"
#include "deckle/ops/generated/shape.h"
#include "tests/support/expect.h"
#include "tests/support/random.h"

namespace deckle {
namespace {

using testing::expect_error;
using testing::random_tensor;

TEST(CallCheck, FindsWhatACallMustNotDo) {
  if (!autograd::checks_this_call()) GTEST_SKIP() << "DECKLE_CHECK_CALLS has calls unchecked";
  const Tensor x = random_tensor({3}), y = random_tensor({3}), other = random_tensor({2});
  const autograd::CallCheck check(x, TensorList{y, Tensor()});
  EXPECT_TRUE(check.fresh(other).is_same(other));
  EXPECT_TRUE(std::get<0>(check.fresh(std::tuple(other, int64_t{3}))).is_same(other));
  expect_error([&] { check.fresh(y.slice(0, 0, 2)); }, "lies in the memory of an input");
  expect_error([&] { check.fresh(std::vector<Tensor>{other, x}); }, "lies in the memory of an input");
  check.view(x.slice(0, 0, 2));
  expect_error([&] { check.view(other); }, "memory of its own");
  autograd::bump_version(y);
  expect_error([&] { check.fresh(other); }, "written by an op that writes none");
}

}  // namespace
}  // namespace deckle
