// What one is told without CUDA or without a GPU.
#include "deckle/core/from_data.h"
#include "tests/cuda/gpu.h"
#include "tests/support/expect.h"

namespace deckle {
namespace {

TEST(NoGpu, IsSaidInOneSentenceThatNamesTheOp) {
  if (cuda::device_count() > 0) GTEST_SKIP() << "there is a GPU";
  const Tensor x = tensor({1.0f, 2.0f});
  testing::expect_error([&] { x.to(Device::cuda()); },
                        cuda::built() ? "to: " : "to: cuda:0 asked of a build without CUDA (expected");
  EXPECT_EQ(cuda::device_count(), 0);
}

TEST(OneGpu, AnotherNumberIsRefused) {
  NEEDS_GPU();
  const Tensor x = tensor({1.0f, 2.0f});
  testing::expect_error([&] { x.to(Device::cuda(63)); }, "to: cuda:63 asked of a machine with");
  testing::expect_error([&] { x.to(Device::cuda(1 << 16)); }, "to: cuda:-1 asked of a machine with");  // no number of 16 bits
}

}  // namespace
}  // namespace deckle
