// Rows that ops keep with a ragged shape from call to call.
#include "deckle/nested/generated/arrange.h"
#include "deckle/nested/generated/index.h"
#include "deckle/nested/generated/shape.h"
#include "deckle/nested/padding.h"
#include "deckle/nested/structure.h"
#include "deckle/ops/generated/arrange.h"
#include "deckle/ops/generated/index.h"
#include "tests/nested/support.h"

namespace deckle {
namespace {

using namespace testing;

TEST(KeptRows, AreThoseOfTheirNumbersInWhateverOrderTheseCome) {
  const NestedTensor x = random_nested({3, 0, 5, 1}, {2});
  for (int turn = 0; turn < 3; ++turn) {
    for (int64_t by = -6; by <= 6; ++by) {  // more than are kept
      expect_components(roll(x, by, 1), 4, [&](int64_t b) { return roll(x[b], by, 0); });
      const NestedTensor shifted = shift(x, by, 1, -7.0), padded = pad(x, {0, 0, std::abs(by), 1});
      for (int64_t b = 0; b < 4; ++b) {
        for (int64_t i = 0; i < x[b].size(0); ++i) {
          const bool inside = i - by >= 0 && i - by < x[b].size(0);
          EXPECT_EQ(shifted[b][i][0].item(), inside ? x[b][i - by][0].item() : -7.0);
          EXPECT_EQ(padded[b][i + std::abs(by)][0].item(), x[b][i][0].item());
        }
      }
    }
    expect_components(flip(x, {1}), 4, [&](int64_t b) { return flip(x[b], {0}); });
  }
}

TEST(KeptRows, OfSeveralShapesAreThoseOfAllOfThem) {
  const NestedTensor x = random_nested({3, 0, 5}, {2}), longer = random_nested({2, 4, 1}, {2}),
                     shorter = random_nested({0, 1, 1}, {2});
  for (int turn = 0; turn < 2; ++turn) {
    for (const NestedTensor& y : {longer, shorter, x}) {
      expect_components(cat({x, y}, 1), 3, [&](int64_t b) { return cat({x[b], y[b]}, 0); });
      expect_components(cat({y, x}, 1), 3, [&](int64_t b) { return cat({y[b], x[b]}, 0); });
      expect_components(cat({x, y, x}, 1), 3, [&](int64_t b) { return cat({x[b], y[b], x[b]}, 0); });
    }
  }
}

TEST(KeptRows, AreNotMadeAgainAndEndWithTheirShapes) {
  std::weak_ptr<const RaggedShape> first, second;
  {
    const NestedTensor x = random_nested({3, 0, 5}, {2}), y = random_nested({1, 2, 1}, {2});
    first = x.ragged().shared();
    second = y.ragged().shared();
    EXPECT_EQ(cat({x, y}, 1).ragged().shared(), cat({x, y}, 1).ragged().shared());
    EXPECT_EQ(pad(x, {0, 0, 1, 1}).ragged().shared(), pad(x, {0, 0, 1, 1}).ragged().shared());
    cat({y, x}, 1), cat({x, x}, 1), stack({x, x}, 1);
    roll(x, 1, 1), flip(x, {1}), shift(x, 1, 1, 0.0), pad(x, {0, 0, 2, 1});
    from_padded(to_padded(x, {}), x.ragged());
  }
  EXPECT_TRUE(first.expired());
  EXPECT_TRUE(second.expired());
}

TEST(KeptRows, AMaskOfPaddingIsTheCallers) {
  const NestedTensor x = random_nested({3, 0, 5}, {2});
  padding_mask(x, {}).fill_(0);
  EXPECT_EQ(padding_mask(x, {}).to_vector<bool>(), (std::vector<bool>{1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1}));
}

}  // namespace
}  // namespace deckle
