// A program of its own: Deckle's first use is in a child, and the OpenMP pool is other code's.
#include <gtest/gtest.h>
#include <omp.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <mutex>
#include <thread>

#include "deckle/base/parallel.h"
#include "deckle/base/scratch.h"
#include "deckle/base/thread_lists.h"

namespace deckle {
namespace {

/// Whether body() is true in a child, which has some seconds for it.
template <typename Body>
bool in_child(Body body) {
  const pid_t child = fork();
  if (child == 0) {
    alarm(20);  // a hang is a failure
    _exit(body() ? 0 : 1);
  }
  int status = -1;
  return waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/// In this order: a pool that has started stays.
TEST(Fork, AChildMayBeTheFirstToUseDeckle) {
  EXPECT_TRUE(in_child([] {  // of a process with one thread: it may have as many as it likes
    set_num_threads(2);
    std::atomic<int> inside{0};
    bool together[2] = {false, false};
    parallel_for(2, 1, [&](int64_t i, int64_t) {
      ++inside;
      const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(5);
      while (inside < 2 && std::chrono::steady_clock::now() < end) std::this_thread::yield();
      together[i] = inside == 2;
    });
    return together[0] && together[1];
  }));
  int threads = 0;
#pragma omp parallel reduction(+ : threads) num_threads(2)
  threads += 1;
  ASSERT_EQ(threads, 2);
  EXPECT_TRUE(in_child([] {
    std::atomic<int> count{0};
    parallel_for(64, 1, [&](int64_t, int64_t) { ++count; });
    return count == 64;
  }));
}

TEST(Fork, WaitsForAThreadThatIsListingItsMemory) {
  std::atomic<bool> held{false};
  std::thread other([&] {
    const std::lock_guard lock(thread_lists_mutex());
    held = true;
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
  });
  while (!held) std::this_thread::yield();
  EXPECT_TRUE(in_child([] {
    Scratch scratch;  // the first of this thread, so it is listed
    *scratch.take<char>(8) = 1;
    return true;
  }));
  other.join();
}

}  // namespace
}  // namespace deckle
