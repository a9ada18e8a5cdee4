// What is made of a ragged shape is kept with it.
#include "deckle/core/kept.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace deckle {
namespace {

Ragged ragged(const std::vector<int64_t>& lengths) { return Ragged::from_lengths(lengths); }

/// The number that `make` was the first to give for this, with a device of which no memory is taken.
int64_t number(const Ragged& of, std::string_view what, IntSpan numbers, int64_t made, std::span<const Ragged> others = {},
               Device device = Device::cuda()) {
  return *std::static_pointer_cast<const int64_t>(
      kept(*of, what, numbers, others, device, [&] { return std::make_shared<const int64_t>(made); }));
}

TEST(Kept, IsMadeOnceForAllThatItDependsOn) {
  const Ragged shape = ragged({2, 3}), same = ragged({2, 3});
  EXPECT_EQ(number(shape, "a", {1, 2}, 10), 10);
  EXPECT_EQ(number(shape, "a", {1, 2}, 11), 10);
  EXPECT_EQ(number(shape, "b", {1, 2}, 12), 12);
  EXPECT_EQ(number(shape, "a", {1}, 13), 13);
  EXPECT_EQ(number(shape, "a", {1, 3}, 14), 14);
  EXPECT_EQ(number(shape, "a", {1, 2}, 15, {}, Device::cuda(1)), 15);
  EXPECT_EQ(number(same, "a", {1, 2}, 16), 16) << "of each shape its own";
  EXPECT_EQ(number(shape, "a", {1, 2}, 17), 10);
}

TEST(Kept, KnowsOtherShapesAlsoWhenTheyAreGone) {
  const Ragged shape = ragged({2, 3});
  for (int64_t i = 0; i < 20; ++i) {  // one after the other in the same memory, perhaps
    const Ragged other = ragged({i});
    EXPECT_EQ(number(shape, "with", {}, i, std::span(&other, 1)), i);
    EXPECT_EQ(number(shape, "with", {}, -1, std::span(&other, 1)), i);
  }
  const Ragged pair[] = {shape, shape};
  EXPECT_EQ(number(shape, "with", {}, 77, pair), 77);
}

TEST(Kept, TheLastThirtyTwo) {
  const Ragged shape = ragged({2, 3});
  for (int64_t i = 0; i < 33; ++i) number(shape, "a", {i}, i);
  EXPECT_EQ(number(shape, "a", {32}, -1), 32);
  EXPECT_EQ(number(shape, "a", {1}, -1), 1);
  EXPECT_EQ(number(shape, "a", {0}, 100), 100) << "the oldest went";
}

TEST(Kept, EndsWithTheShapeAndChainsOfShapesEnd) {
  std::weak_ptr<const RaggedShape> last;
  int kept_ones = 0;
  {
    const Ragged first = ragged({1});
    Ragged at = first;
    for (int64_t i = 0; i < 100; ++i) {
      const auto next = std::static_pointer_cast<const Ragged>(kept(*at, "next", {}, {}, Device::cuda(), [&] {
        const Ragged made = ragged({i});
        note_made_shape(*at, *made);
        return std::make_shared<const Ragged>(made);
      }));
      last = next->shared();
      kept_ones += next.use_count() > 1;
      at = *next;
    }
    EXPECT_EQ(kept_ones, 64);
  }
  EXPECT_TRUE(last.expired());
}

TEST(Kept, WhatWasMadeMeanwhileIsGivenToAll) {
  const Ragged shape = ragged({2, 3});
  const auto late = kept(*shape, "a", {}, {}, Device::cuda(), [&] {
    EXPECT_EQ(number(shape, "a", {}, 1), 1);  // as another thread would
    return std::make_shared<const int64_t>(2);
  });
  EXPECT_EQ(*std::static_pointer_cast<const int64_t>(late), 1);
  EXPECT_EQ(number(shape, "a", {}, 3), 1);
}

TEST(Kept, ThreadsMayAskAtOnce) {
  const Ragged shape = ragged({2, 3});
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int64_t i = 0; i < 400; ++i) EXPECT_EQ(number(shape, "a", {i % 40}, i % 40), i % 40);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace deckle
