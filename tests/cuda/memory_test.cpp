// The allocator: what it reuses, counts and says when there is no more.
#include "deckle/core/allocator.h"

#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <string>
#include <thread>

#include "deckle/core/tensor.h"
#include "deckle/core/tensor_impl.h"
#include "deckle/ops/generated/factory.h"
#include "deckle/ops/generated/pointwise.h"
#include "tests/cuda/gpu.h"
#include "tests/support/expect.h"

namespace deckle {
namespace {

TEST(CudaMemory, IsCountedReusedAndGivenBack) {
  NEEDS_GPU();
  empty_cache(kGpu);
  const int64_t before = memory_stats(kGpu).in_use;
  reset_peak_memory(kGpu);
  const void* first = nullptr;
  {
    const Tensor x = empty({1 << 20}, DType::float32, kGpu);
    first = address(x);
    EXPECT_EQ(memory_stats(kGpu).in_use - before, 4 << 20);
  }
  EXPECT_EQ(memory_stats(kGpu).in_use, before);
  EXPECT_EQ(memory_stats(kGpu).peak - before, 4 << 20);
  EXPECT_GE(memory_stats(kGpu).cached, 4 << 20);
  EXPECT_EQ(address(empty({1 << 20}, DType::float32, kGpu)), first) << "a freed block is used again";
  empty_cache(kGpu);
  EXPECT_EQ(memory_stats(kGpu).cached, 0);
}

TEST(CudaMemory, OutOfMemoryHasFiguresAndLeavesTheDeviceUsable) {
  NEEDS_GPU();
  testing::expect_error([] { empty({int64_t{1} << 42}, DType::float32, kGpu); }, "bytes on cuda:0: ");
  testing::expect_error([] { empty({int64_t{1} << 42}, DType::float32, kGpu); },
                        "(expected smaller batches, or fewer tensors and graphs that live)");
  // What other tensors freed serves after all: two thirds of the memory twice, in pieces of two sizes.
  const int64_t piece = int64_t{1} << (cuda::fake() ? 27 : 30);
  std::vector<Tensor> held;
  try {
    while (held.size() < 1024) held.push_back(empty({piece}, DType::uint8, kGpu));
    FAIL() << "a terabyte on one GPU";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::out_of_memory);
  }
  const size_t fitted = held.size();
  ASSERT_GT(fitted, 4u);
  held.clear();
  const Tensor large = empty({piece * static_cast<int64_t>(fitted) / 2}, DType::uint8, kGpu);
  EXPECT_EQ(large.device(), kGpu);
  const Tensor x = full({3}, 2.0).to(kGpu);
  EXPECT_EQ((x + x).to_vector(), (std::vector<double>{4, 4, 4}));
}

TEST(CudaMemory, AChildOfForkHasNoGpuAndDoesNotWaitForLocksOfItsParent) {
  NEEDS_GPU();
  std::atomic<bool> goes_on{true};
  std::thread other([&] {  // which may hold any lock when the process forks
    while (goes_on) empty({64}, DType::float32, kGpu);
  });
  for (int i = 0; i < 20; ++i) {
    Tensor x = empty({1 << 10}, DType::float32, kGpu);
    const pid_t child = fork();
    if (child == 0) {
      alarm(20);
      x = Tensor();
      try {
        empty({3}, DType::float32, kGpu);
      } catch (const Error& error) {
        _exit(std::string(error.what()).find("cannot use the GPUs of its parent (expected a new process)") != std::string::npos
                  ? 0
                  : 2);
      }
      _exit(3);
    }
    int status = -1;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  }
  goes_on = false;
  other.join();
}

}  // namespace
}  // namespace deckle
