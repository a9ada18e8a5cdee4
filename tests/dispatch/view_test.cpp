#include "deckle/dispatch/view.h"

#include "deckle/core/from_data.h"
#include "deckle/core/tensor_impl.h"
#include "tests/support/expect.h"

namespace deckle {
namespace {

TEST(View, IsTheTensorAsAKernelSeesIt) {
  const Tensor memory = empty({20}, DType::float64);
  const Tensor tensor = make_tensor(memory.storage(), {2, 3}, {1, 4}, 5, DType::float64);
  const View view = dispatch::view(tensor);
  EXPECT_TRUE(view.defined);
  EXPECT_EQ(view.data, memory.data<double>() + 5);
  EXPECT_EQ(view.dtype, DType::float64);
  ASSERT_EQ(view.ndim, 2);
  EXPECT_EQ(view.sizes[1], 3);
  EXPECT_EQ(view.strides[1], 4);
  EXPECT_EQ(view.numel(), 6);
}

TEST(View, OfAnUndefinedTensorIsNotDefined) { EXPECT_FALSE(dispatch::view(Tensor()).defined); }

TEST(View, TooManyDimsAreAnError) {
  const std::vector<int64_t> sizes(kMaxDims + 1, 1);
  testing::expect_error([&] { dispatch::view(deckle::empty(sizes)); },
                        fmt::format("a tensor of {} dims (expected {} at most)", kMaxDims + 1, kMaxDims));
}

TEST(View, RowsThatRepeatAreReadThroughATable) {
  const Tensor rows = make_tensor(tensor({1.f, 2.f, 3.f, 4.f, 5.f, 6.f}).storage(), {3, 2}, {2, 1}, 0, DType::float32);
  const Ragged ragged = Ragged::from_lengths(std::vector<int64_t>{2, 0, 1});
  View view = dispatch::view(rows);
  EXPECT_EQ(view.table, nullptr);
  dispatch::repeat_rows(view, ragged);
  EXPECT_EQ(view.data, rows.raw_data());
  EXPECT_EQ(view.sizes[0], 3);
  ASSERT_NE(view.table, nullptr);
  EXPECT_EQ(std::vector<int64_t>(view.table, view.table + 3), (std::vector<int64_t>{0, 0, 2}));
}

TEST(View, OfARaggedShapeHasItsSizesAndOffsets) {
  const Ragged ragged = Ragged::from_lengths(std::vector<int64_t>{2, 0, 3});
  const RaggedView view = dispatch::view(ragged, Device());
  EXPECT_EQ(view.components, 3);
  EXPECT_EQ(view.ragged_dims, 1);
  EXPECT_EQ(view.offsets[3], 5);
  testing::expect_error([] { dispatch::view(Ragged(), Device()); }, "ragged is undefined");
}

}  // namespace
}  // namespace deckle
