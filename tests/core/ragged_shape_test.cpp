#include "deckle/core/ragged_shape.h"

#include <limits>
#include <utility>
#include <vector>

#include "tests/support/expect.h"

namespace deckle {
namespace {

using testing::expect_error;

std::vector<int64_t> offsets_of(const Ragged& ragged) { return {ragged->offsets().begin(), ragged->offsets().end()}; }

TEST(RaggedShape, OffsetsAreTheSumsOfLengths) {
  const Ragged ragged = Ragged::from_lengths(std::vector<int64_t>{3, 0, 5});
  EXPECT_EQ(offsets_of(ragged), (std::vector<int64_t>{0, 3, 3, 8}));
  EXPECT_EQ(ragged->max_size(), 5);
  EXPECT_EQ(ragged->min_size(), 0);
  EXPECT_EQ(to_string(ragged), "3 components of lengths [3, 0, 5]");
}

TEST(RaggedShape, SeveralRaggedDimsMultiply) {
  const RaggedShape images({2, 3, 0, 7, 4, 1}, 2);
  EXPECT_EQ(images.components(), 3);
  EXPECT_EQ(images.rows(), 10);
  EXPECT_EQ(images.max_size(1), 7);
}

TEST(RaggedShape, KnowsTheComponentOfEachRow) {
  const RaggedShape shape({2, 0, 3}), apart({2, 0, 3}, 1, {4, 1, 0, 2, 3});
  EXPECT_EQ(std::vector<int64_t>(shape.row_map().components().begin(), shape.row_map().components().end()),
            (std::vector<int64_t>{0, 0, 2, 2, 2}));
  EXPECT_EQ(std::vector<int64_t>(apart.row_map().components().begin(), apart.row_map().components().end()),
            (std::vector<int64_t>{2, 0, 2, 2, 0}));
  EXPECT_FALSE(shape == apart);
}

TEST(RowMap, KnowsThePositionOfEachRowAndAnyAffineIndexOfThem) {
  const RaggedShape images({2, 3, 0, 7, 4, 1}, 2);  // 2 x 3, 0 x 7 and 4 x 1
  std::vector<std::pair<int64_t, int64_t>> positions;
  for (int64_t row = 0; row < images.rows(); ++row)
    positions.emplace_back(images.row_map().position(row, 0), images.row_map().position(row, 1));
  EXPECT_EQ(positions, (std::vector<std::pair<int64_t, int64_t>>{
                           {0, 0}, {0, 1}, {0, 2}, {1, 0}, {1, 1}, {1, 2}, {0, 0}, {1, 0}, {2, 0}, {3, 0}}));
  const std::vector<int64_t> first = {100, 200, 300}, strides = {10, 1, 0, 0, -1, 5};
  EXPECT_EQ(images.row_map().affine(first, strides), (std::vector<int64_t>{100, 101, 102, 110, 111, 112, 300, 299, 298, 297}));
}

TEST(RowMap, GroupsRowsThatDifferInSomeDimsAlone) {
  const RaggedShape batch({2, 0, 3});
  const auto over_batch = batch.row_map().groups(1);  // by position
  EXPECT_EQ(std::vector<int64_t>(over_batch->sizes().begin(), over_batch->sizes().end()), (std::vector<int64_t>{2, 2, 1}));
  EXPECT_EQ(std::vector<int64_t>(over_batch->order().begin(), over_batch->order().end()), (std::vector<int64_t>{0, 2, 1, 3, 4}));
  EXPECT_EQ(batch.row_map().groups(1), over_batch) << "made once";
  const RaggedShape images({2, 3}, 2);
  const auto rows = images.row_map().groups(0b100), columns = images.row_map().groups(0b010);
  EXPECT_EQ(std::vector<int64_t>(rows->sizes().begin(), rows->sizes().end()), (std::vector<int64_t>{3, 3}));
  EXPECT_TRUE(rows->order().empty());
  EXPECT_EQ(std::vector<int64_t>(columns->order().begin(), columns->order().end()), (std::vector<int64_t>{0, 3, 1, 4, 2, 5}));
}

TEST(RowMap, RefusesMorePositionsThanThereIsMemoryFor) {
  constexpr int64_t kLargest = std::numeric_limits<int64_t>::max();
  const RaggedShape no_rows({kLargest - 1, 0}, 2), two({kLargest - 1, 0, 0, kLargest - 1}, 2);
  expect_error([&] { no_rows.row_map().groups(0b100); }, "no memory");
  expect_error([&] { two.row_map().groups(0b001); }, "more than 2^63");
}

TEST(RaggedShape, EqualityIsByContent) {
  const std::vector<int64_t> lengths = {1, 2};
  EXPECT_TRUE(Ragged::from_lengths(lengths) == Ragged::from_lengths(lengths));
  EXPECT_FALSE(Ragged::from_lengths(lengths) == Ragged::from_lengths(std::vector<int64_t>{2, 1}));
  EXPECT_FALSE(Ragged::from_lengths(lengths) == Ragged());
}

TEST(RaggedShape, RefusesWhatIsNoRaggedShape) {
  expect_error([] { Ragged::from_lengths(std::vector<int64_t>{1, -2}); }, "component 1 has the negative length -2");
  expect_error([] { Ragged::from_offsets(std::vector<int64_t>{1, 2}); }, "start with 0");
  expect_error([] { Ragged::from_offsets(std::vector<int64_t>{0, 4, 2}); }, "must not fall");
  expect_error([] { Ragged::from_lengths(std::vector<int64_t>{int64_t{1} << 62, int64_t{1} << 62}); }, "2^63");
  expect_error([] { RaggedShape({1, 2, 3}, 2); }, "no whole number of components");
  expect_error([] { RaggedShape({1, 2}, 1, {0, 1}); }, "an order of 2 rows for the 3 of the components");
}

}  // namespace
}  // namespace deckle
