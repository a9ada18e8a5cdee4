// The fake device: what it refuses, what it counts, and that what the host may not touch is out of its reach.
#include <fmt/format.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <thread>

#include "deckle/core/tensor_impl.h"
#include "deckle/deckle.h"
#include "tests/cuda/gpu.h"
#include "tests/support/expect.h"

namespace deckle {
namespace {

#define NEEDS_FAKE() \
  if (!cuda::fake()) GTEST_SKIP() << "needs DECKLE_FAKE_DEVICES"

TEST(FakeDevice, CrashesAHostThatReadsItsMemory) {
  NEEDS_FAKE();
  const Tensor x = ones({3}, DType::float32, kGpu);
  EXPECT_DEATH(std::exit(static_cast<int>(*static_cast<const volatile float*>(address(x)))), "");
}

TEST(FakeDevice, FillsWhatIsNotWrittenWithNaN) {
  NEEDS_FAKE();
  { const Tensor x = ones({64}, DType::float32, kGpu); }
  const Tensor x = empty({64}, DType::float32, kGpu);
  EXPECT_TRUE(all(isnan(x)).item<bool>());
}

TEST(FakeDevice, ThereAreAsManyAsAreAskedFor) {
  NEEDS_FAKE();
  testing::expect_error([] { zeros({1}, DType::float32, Device::cuda(63)); },
                        fmt::format("cuda:63 asked of a machine with {} GPU", cuda::device_count()));
}

TEST(FakeDevice, ThreadsThatReplayOneGraphTakeTurns) {
  NEEDS_FAKE();
  std::atomic<int> inside = 0, together = 0;
  const cuda::Graph graph(kGpu, [&] {
    if (++inside > 1) ++together;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    --inside;
  });
  std::thread other([&] {
    for (int i = 0; i < 4; ++i) graph.replay();
  });
  for (int i = 0; i < 4; ++i) graph.replay();
  other.join();
  EXPECT_EQ(together, 0);
}

}  // namespace
}  // namespace deckle
