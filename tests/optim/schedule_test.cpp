#include "deckle/optim/schedule.h"

#include <gtest/gtest.h>

namespace deckle::optim {
namespace {

TEST(WarmupCosine, RisesThenFallsToTheFloor) {
  const WarmupCosine schedule{.peak = 2, .warmup = 0.1, .floor = 0.25};
  EXPECT_GT(schedule.at(0), 0);
  EXPECT_LT(schedule.at(0), 0.2);
  EXPECT_NEAR(schedule.at(0.1), 2, 1e-12);
  EXPECT_NEAR(schedule.at(0.55), 2 * (0.25 + 0.75 / 2), 1e-12);
  EXPECT_NEAR(schedule.at(1), 0.5, 1e-12);
  EXPECT_NEAR(schedule.at(3), 0.5, 1e-12);
  double before = 0;
  for (double progress = 0; progress < 0.1; progress += 0.01) {
    EXPECT_GT(schedule.at(progress), before);
    before = schedule.at(progress);
  }
  for (double progress = 0.1; progress < 1; progress += 0.01) EXPECT_GT(schedule.at(progress), schedule.at(progress + 0.01));
}

TEST(WarmupCosine, NeedsNoWarmup) {
  EXPECT_DOUBLE_EQ((WarmupCosine{.peak = 3, .warmup = 0}.at(0)), 3);
  EXPECT_GT((WarmupCosine{.peak = 3, .warmup = 1}.at(0.99)), 2.9);
}

}  // namespace
}  // namespace deckle::optim
