#include "deckle/kernels/cpu/simd/peak_rate.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>

namespace deckle::kernels::cpu::simd {
namespace {

std::atomic<int64_t> steps_done{0};

/// A second for every 1e9 of the operations that were done, two a step.
double now() { return 2e-9 * static_cast<double>(steps_done.load()); }

TEST(PeakRate, IsOfAllThatWasDoneInTheTime) {
  const PeakLoop loop{2, [](int64_t steps) { steps_done += steps; }};
  const int before = num_threads();
  for (const int threads : {1, 3}) {
    set_num_threads(threads);
    for (const double seconds : {1e-9, 0.5, 2.0}) {
      steps_done = 12345;  // the clock does not begin at 0
      EXPECT_NEAR(peak_rate(loop, seconds, now), 1e9, 1);
      EXPECT_GE(now() - 2e-9 * 12345, seconds);
    }
  }
  set_num_threads(before);
}

TEST(PeakRate, IsZeroWhereTheLoopIsNotHere) { EXPECT_EQ(peak_rate({0, nullptr}, 0.1, now), 0); }

TEST(PeakRate, IsMeasuredOfEveryUnitOfThisProcessor) {
  const auto seconds = [] { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); };
  for (const PeakLoop& loop : {float32_peak_loop(), pair_dot_peak_loop(), tiles_peak_loop()}) {
    EXPECT_EQ(peak_rate(loop, 0.01, seconds) > 0, loop.run != nullptr);
  }
}

}  // namespace
}  // namespace deckle::kernels::cpu::simd
