#include "deckle/core/generator.h"

#include <gtest/gtest.h>

#include <barrier>
#include <thread>

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
  EXPECT_EQ(own, 100u);
  EXPECT_EQ(seed, 77u);
  EXPECT_EQ(offset, 0u);
  EXPECT_EQ(default_generator().seed(), 77u);
  EXPECT_EQ(default_generator().offset(), 0u);
}

TEST(ManualSeed, IsWhereAFreshThreadStarts) {
  manual_seed(5);
  uint64_t seed = 0;
  std::thread([&] { seed = default_generator().seed(); }).join();
  EXPECT_EQ(seed, 5u);
}

}  // namespace
}  // namespace deckle
