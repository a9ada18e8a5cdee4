#include <gtest/gtest.h>

#include "deckle/autograd/grad_mode.h"
#include "deckle/base/error.h"
#include "deckle/functional/transforms.h"
#include "deckle/ops/generated/factory.h"
#include "deckle/ops/generated/foreach.h"
#include "deckle/ops/generated/random.h"
#include "deckle/ops/generated/shape.h"

namespace deckle {
namespace {

TEST(Foreach, WritesTensorsThatAreNotContiguousAndBumpsVersions) {
  const Tensor base = zeros({3, 2});
  const Tensor x = transpose(base, 0, 1);
  const Tensor step = view(arange(6, DType::float32), {2, 3});
  const uint64_t version = x.version();
  foreach_add_({x}, {step}, 2.0);
  EXPECT_EQ(contiguous(x).to_vector(), (std::vector<double>{0, 2, 4, 6, 8, 10}));
  EXPECT_GT(base.version(), version);
}

TEST(Foreach, TakesExpandedGradients) {
  const Tensor x = zeros({2, 3});
  foreach_sgd_({x}, {expand(ones({1}), {2, 3})}, 0.5);
  EXPECT_EQ(x.to_vector(), std::vector<double>(6, -0.5));
}

TEST(Foreach, RefusesToRunWhereHistoryWouldBeLost) {
  const Tensor x = zeros({2});
  x.requires_grad_();
  EXPECT_THROW(foreach_scale_({x}, 2.0), Error);
  const NoGrad guard;
  EXPECT_NO_THROW(foreach_scale_({x}, 2.0));
}

TEST(Foreach, RefusesTensorsWithTangents) {
  const Tensor x = ones({2});
  const auto with = [&](const auto& write) {
    return jvp(
        [&](const Tensor& y) {
          const NoGrad guard;
          const Tensor z = clone(y);
          write(z);
          return z;
        },
        x, x);
  };
  EXPECT_THROW(with([](const Tensor& z) { foreach_scale_({z}, 2.0); }), Error);
  EXPECT_THROW(with([](const Tensor& z) { foreach_add_({ones({2})}, {z}, 1.0); }), Error);
  EXPECT_THROW(with([](const Tensor& z) { foreach_zero_({z}); }), Error);
}

TEST(Foreach, ZeroKeepsTheRulesOfTheOthers) {
  const Tensor x = ones({2}), counts = ones({2}, DType::int64);
  foreach_zero_({x});
  EXPECT_EQ(x.to_vector(), (std::vector<double>{0, 0}));
  EXPECT_THROW(foreach_zero_({counts}), Error);
  x.requires_grad_();
  EXPECT_THROW(foreach_zero_({x * 1.0}), Error);
}

TEST(Foreach, NamesTheListsThatDoNotMatch) {
  try {
    foreach_add_({zeros({2})}, {zeros({3})});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.message(),
              "foreach_add_: tensor 0 of list 1 is float32 [3], that of list 0 is float32 [2] (expected the same)");
  }
}

}  // namespace
}  // namespace deckle
