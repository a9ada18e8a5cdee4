#include "deckle/core/ragged_shape.h"

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
