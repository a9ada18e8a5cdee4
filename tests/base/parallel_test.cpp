#include "deckle/base/parallel.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <stdexcept>
#include <string>
#include <vector>

#include "deckle/base/error.h"

namespace deckle {
namespace {

class ParallelFor : public ::testing::TestWithParam<int> {
 protected:
  void SetUp() override {
    before_ = num_threads();
    set_num_threads(GetParam());
  }
  void TearDown() override { set_num_threads(before_); }

 private:
  int before_ = 1;
};

TEST_P(ParallelFor, VisitsEveryIndexOnce) {
  std::vector<int> visits(1003, 0);
  parallel_for(1003, 10, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) ++visits[static_cast<size_t>(i)];
  });
  for (const int count : visits) EXPECT_EQ(count, 1);
}

TEST_P(ParallelFor, CutsByGrainAlone) {
  std::vector<int64_t> ends(101, -1);
  parallel_for(1003, 10, [&](int64_t begin, int64_t end) { ends[static_cast<size_t>(begin / 10)] = end; });
  for (int64_t chunk = 0; chunk < 101; ++chunk)
    EXPECT_EQ(ends[static_cast<size_t>(chunk)], std::min<int64_t>(chunk * 10 + 10, 1003));
}

TEST_P(ParallelFor, CarriesExceptionsOut) {
  const auto body = [](int64_t begin, int64_t) {
    if (begin == 500) throw std::runtime_error("at 500");
  };
  EXPECT_THROW(parallel_for(1000, 10, body), std::runtime_error);
}

TEST_P(ParallelFor, Nests) {
  std::atomic<int> inner{0};
  parallel_for(8, 1, [&](int64_t, int64_t) { parallel_for(8, 1, [&](int64_t, int64_t) { ++inner; }); });
  EXPECT_EQ(inner.load(), 64);
}

TEST_P(ParallelFor, SurvivesFork) {
  std::atomic<int> warm{0};
  parallel_for(64, 1, [&](int64_t, int64_t) { ++warm; });
  const pid_t child = fork();
  if (child == 0) {
    alarm(20);  // a hang is a failure
    std::atomic<int> count{0};
    parallel_for(64, 1, [&](int64_t, int64_t) { ++count; });
    _exit(count.load() == 64 ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

INSTANTIATE_TEST_SUITE_P(Threads, ParallelFor, ::testing::Values(1, 2, 3, 8));

TEST(Threads, TheirNumberIsOneOrMore) {
  const int before = num_threads();
  for (const int count : {0, -5}) {
    try {
      set_num_threads(count);
      ADD_FAILURE() << "no error for " << count;
    } catch (const Error& error) {
      EXPECT_EQ(error.message(), "set_num_threads: " + std::to_string(count) + " threads (expected 1 or more)");
    }
  }
  EXPECT_EQ(num_threads(), before);
}

}  // namespace
}  // namespace deckle
