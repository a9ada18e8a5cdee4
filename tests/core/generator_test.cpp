#include "deckle/core/generator.h"

#include <gtest/gtest.h>

#include <barrier>
#include <thread>
#include <vector>

namespace deckle {
namespace {

TEST(ManualSeed, RestartsTheGeneratorsOfAllThreads) {
  std::barrier<> meet(2);
  uint64_t seed = 0, offset = 1, own = 0;
  std::thread other([&] {
    default_generator().reserve(400);
    own = default_generator().offset();
    meet.arrive_and_wait();  // both have drawn
    meet.arrive_and_wait();  // the seed is set
    seed = default_generator().seed();
    offset = default_generator().offset();
  });
  default_generator().reserve(8);
  meet.arrive_and_wait();
  manual_seed(77);
  meet.arrive_and_wait();
  other.join();
  EXPECT_EQ(own % kThreadOffset, 100u);
  EXPECT_EQ(seed, 77u);
  EXPECT_EQ(offset, kThreadOffset);
  EXPECT_EQ(default_generator().seed(), 77u);
  EXPECT_EQ(default_generator().offset(), 0u);
}

TEST(ManualSeed, GivesEveryThreadNumbersOfItsOwn) {
  manual_seed(5);
  std::vector<uint64_t> offsets;
  for (int i = 0; i < 3; ++i) {
    std::thread([&] {
      EXPECT_EQ(default_generator().seed(), 5u);
      offsets.push_back(default_generator().offset());
    }).join();
  }
  offsets.push_back(default_generator().offset());  // asks last, and has called manual_seed
  EXPECT_EQ(offsets, (std::vector<uint64_t>{kThreadOffset, 2 * kThreadOffset, 3 * kThreadOffset, 0}));
}

TEST(ManualSeed, ByAThreadThatHasDrawnNothingIsItsFirstPart) {
  std::thread([] {
    manual_seed(6);
    EXPECT_EQ(default_generator().offset(), 0u);
  }).join();
  EXPECT_EQ(default_generator().seed(), 6u);
  EXPECT_EQ(default_generator().offset(), kThreadOffset);
}

}  // namespace
}  // namespace deckle
