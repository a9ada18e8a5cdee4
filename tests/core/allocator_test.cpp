#include "deckle/core/allocator.h"

#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <thread>
#include <vector>

#include "deckle/core/tensor_impl.h"
#include "tests/support/expect.h"

namespace deckle {
namespace {

TEST(Allocator, BlocksAreAlignedAndCounted) {
  const MemoryStats before = memory_stats();
  for (int64_t bytes = 1; bytes < 100'000; bytes = bytes * 5 / 4 + 1) {
    void* const block = detail::allocate(bytes);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(block) % 64, 0u);
    EXPECT_GE(memory_stats().in_use, before.in_use + bytes);
    EXPECT_LE(memory_stats().in_use, before.in_use + bytes * 5 / 4 + 64);
    static_cast<char*>(block)[bytes - 1] = 1;
    detail::deallocate(block, bytes);
  }
  EXPECT_EQ(memory_stats().in_use, before.in_use);
}

TEST(Allocator, AFreedBlockIsUsedAgain) {
  void* const first = detail::allocate(12'345);
  detail::deallocate(first, 12'345);
  void* const second = detail::allocate(12'345);
  EXPECT_EQ(first, second);
  detail::deallocate(second, 12'345);
}

TEST(Allocator, PeakIsTheLargestUse) {
  reset_peak_memory();
  const int64_t before = memory_stats().in_use;
  { const Tensor a = empty({1 << 20}), b = empty({1 << 20}); }
  EXPECT_GE(memory_stats().peak, before + (int64_t{8} << 20));
  EXPECT_EQ(memory_stats().in_use, before);
}

TEST(Allocator, WhatCannotBeHadIsAnError) {
  testing::expect_error([] { empty({int64_t{1} << 59}); }, "cannot allocate");
  EXPECT_LT(memory_stats().peak, int64_t{1} << 59) << "counted what was not had";
  testing::expect_error([] { empty({int64_t{1} << 40, int64_t{1} << 40}); }, "2^63");
}

TEST(Allocator, ThreadsShareIt) {
  const int64_t before = memory_stats().in_use;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([] {
      for (int i = 1; i < 2000; ++i) detail::deallocate(detail::allocate(i), i);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(memory_stats().in_use, before);
}

TEST(Allocator, AChildOfForkAllocatesWhateverOtherThreadsDid) {
  std::atomic<bool> stop{false};
  std::thread busy([&] {
    while (!stop) detail::deallocate(detail::allocate(100), 100);
  });
  for (int i = 0; i < 200; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      alarm(20);  // ends a child that deadlocks
      detail::deallocate(detail::allocate(100), 100);
      _exit(0);
    }
    int status = -1;
    waitpid(child, &status, 0);
    ASSERT_EQ(status, 0) << "the child " << i << " did not come back";
  }
  stop = true;
  busy.join();
}

}  // namespace
}  // namespace deckle
