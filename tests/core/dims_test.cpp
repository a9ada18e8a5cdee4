#include "deckle/core/dims.h"

#include <algorithm>
#include <set>

#include "deckle/core/strides.h"
#include "tests/support/expect.h"

namespace deckle {
namespace {

using testing::expect_error;

TEST(Dims, BroadcastFollowsNumPy) {
  EXPECT_EQ(broadcast_shapes({3, 1}, {4}), Dims({3, 4}));
  EXPECT_EQ(broadcast_shapes({}, {2, 0}), Dims({2, 0}));
  EXPECT_EQ(broadcast_shapes({1}, {0}), Dims({0}));
  expect_error([] { broadcast_shapes({3, 2}, {4}); }, "[3, 2] and [4] do not broadcast (dim -1: 2 against 4)");
  expect_error([] { broadcast_shapes({3}, {0}); }, "do not broadcast");
}

TEST(Dims, WrapDim) {
  EXPECT_EQ(wrap_dim(-1, {4, 7}), 1);
  EXPECT_EQ(wrap_dim(0, {}), 0);
  expect_error([] { wrap_dim(3, {4, 7}); }, "dim 3 is out of range for shape [4, 7] (expected -2..1)");
}

TEST(Dims, NumelGuardsAgainstOverflowAndNegativeSizes) {
  EXPECT_EQ(numel_of({}), 1);
  EXPECT_EQ(numel_of({int64_t{1} << 40, int64_t{1} << 40, 0}), 0);
  expect_error([] { numel_of({int64_t{1} << 40, int64_t{1} << 40}); }, "2^63");
  expect_error([] { numel_of({2, -1}); }, "is negative");
}

TEST(Dims, DistinctPlaces) {
  EXPECT_TRUE(distinct_places({}, {}));
  EXPECT_TRUE(distinct_places({2, 3}, {3, 1}));
  EXPECT_TRUE(distinct_places({3, 2}, {1, 3}));
  EXPECT_TRUE(distinct_places({2, 3}, {20, 4}));
  EXPECT_TRUE(distinct_places({3, 1}, {1, 0}));
  EXPECT_TRUE(distinct_places({3, 0}, {0, 0}));
  EXPECT_FALSE(distinct_places({3}, {0}));
  EXPECT_FALSE(distinct_places({2, 2}, {1, 1}));
  EXPECT_FALSE(distinct_places({5, 3}, {2, 1}));
}

// Beside the places of both, one by one.
TEST(Dims, MeetsItself) {
  const std::pair<Dims, Dims> layouts[] = {
      {{4}, {3}}, {{3, 4}, {1, 5}}, {{2, 3}, {20, 4}}, {{3, 2, 2}, {2, 7, 16}}, {{1, 3}, {INT64_MAX, 2}}, {{2, 2, 3}, {1, 4, 9}},
      {{}, {}},   {{2, 0}, {1, 1}}};
  for (const auto& [sizes, strides] : layouts) {
    ASSERT_TRUE(distinct_places(sizes, strides));
    std::set<int64_t> places;
    const int64_t count = numel_of(sizes);
    for (int64_t i = 0; i < count; ++i) {
      int64_t rest = i, place = 0;
      for (size_t dim = sizes.size(); dim-- > 0; rest /= sizes[dim])
        place += sizes[dim] > 1 ? rest % sizes[dim] * strides[dim] : 0;
      places.insert(place);
    }
    for (int64_t distance = -60; distance <= 60; ++distance) {
      const bool meets =
          std::any_of(places.begin(), places.end(), [&](int64_t place) { return places.contains(place + distance); });
      EXPECT_EQ(meets_itself(sizes, strides, distance), meets) << to_string(sizes) << to_string(strides) << distance;
    }
  }
}

TEST(Dims, StridesOfEmptyShapesDoNotOverflow) {
  const int64_t huge = int64_t{1} << 62;
  EXPECT_EQ(contiguous_strides({0, huge, huge}), Dims({0, huge, 1}));
}

TEST(Dims, CopiesAndMovesBetweenTheRoomInsideAndTheHeap) {
  const Dims few({1, 2}), many({1, 2, 3, 4, 5, 6, 7, 8, 9});
  for (const Dims& from : {few, many}) {
    for (const Dims& into : {few, many}) {
      Dims to = into;
      to = from;
      EXPECT_EQ(to, from);
      to = into;
      Dims source = from;
      to = std::move(source);
      EXPECT_EQ(to, from);
      EXPECT_TRUE(source.empty());
      source = into;  // one that was moved from takes values again
      EXPECT_EQ(source, into);
    }
  }
  Dims shrunk = many;  // few values on the heap
  shrunk.resize(2);
  EXPECT_EQ(Dims(shrunk), few);
  Dims assigned = few;
  assigned = shrunk;
  EXPECT_EQ(assigned, few);
  const Dims& same = assigned;
  assigned = same;
  EXPECT_EQ(assigned, few);
}

TEST(Dims, GrowsPastItsInlineRoomAndKeepsValues) {
  Dims dims;
  for (int64_t i = 0; i < 40; ++i) dims.push_back(i);
  const Dims copy = dims;
  dims[3] = 99;
  ASSERT_EQ(copy.size(), 40u);
  for (int64_t i = 0; i < 40; ++i) EXPECT_EQ(copy[static_cast<size_t>(i)], i);
}

}  // namespace
}  // namespace deckle
