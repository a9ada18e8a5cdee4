// Ops on packed values: what the ragged forms of other ops do not ask of them.
#include "deckle/core/from_data.h"
#include "deckle/functional/gradcheck.h"
#include "deckle/functional/transforms.h"
#include "deckle/ops/generated/pointwise.h"
#include "deckle/ops/generated/reduce.h"
#include "deckle/ops/generated/scan.h"
#include "deckle/ops/generated/segment.h"
#include "tests/support/expect.h"
#include "tests/support/random.h"

namespace deckle {
namespace {

using testing::expect_close;
using testing::random_tensor;

Tensor indices(std::vector<double> values, Ints sizes) { return tensor(values).to(DType::int64).view(sizes); }

// The rows of a component are the product of its ragged dims: 4 and 6 here, longer than any of them.
TEST(SegmentCumprod, OfTwoRaggedDimsGoesToTheEndOfEachComponent) {
  const Ragged ragged(std::make_shared<const RaggedShape>(std::vector<int64_t>{1, 4, 2, 3, 0, 7}, 2));
  const Tensor values = random_tensor({10, 2});
  const std::vector<double> x = values.to_vector();
  std::vector<double> want = x;
  for (size_t row = 0; row < 10; ++row) {
    for (size_t c = 0; c < 2; ++c)
      if (row != 0 && row != 4) want[row * 2 + c] *= want[(row - 1) * 2 + c];
  }
  expect_close(segment_cumprod(values, ragged).view({20}), tensor(want));
  gradcheck([&](const Tensor& of) { return segment_cumprod(of, ragged); }, values);
}

TEST(SegmentTake, ARowThatStandsTwiceGetsTheGradientsOfBothPlaces) {
  const Tensor values = random_tensor({3, 2});
  const Tensor rows = indices({0, 2, 0, -1, 1, 2, 0, 2}, {4, 2});
  const Tensor gradient = grad([&](const Tensor& of) { return sum(segment_take(of, rows)); }, values);
  EXPECT_EQ(gradient.to_vector(), (std::vector<double>{3, 0, 1, 0, 0, 3}));
  const auto taken = [&](const Tensor& of) { return segment_take(of, rows); };
  gradcheck(taken, values);
  gradgradcheck(taken, values);
  forward_gradcheck(taken, values);
  const Tensor none = indices({-1, -1}, {2});  // of nothing
  EXPECT_EQ(grad([&](const Tensor& of) { return sum(segment_take(of, none)); }, random_tensor({0})).numel(), 0);
}

}  // namespace
}  // namespace deckle
