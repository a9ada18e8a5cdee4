#include "deckle/core/from_data.h"

#include "deckle/core/scalar.h"
#include "deckle/core/tensor_impl.h"
#include "tests/support/expect.h"

namespace deckle {
namespace {

using testing::expect_error;

constexpr int64_t kBeyondDouble = (int64_t{1} << 53) + 1;  // no float64

TEST(FromData, CopiesVectorsAndLists) {
  std::vector<float> values = {1, 2, 3};
  const Tensor copy = tensor(values);
  values[0] = 7;
  EXPECT_EQ(copy.dtype(), DType::float32);
  EXPECT_EQ(copy.to_vector<float>(), (std::vector<float>{1, 2, 3}));
  EXPECT_EQ(tensor({kBeyondDouble, int64_t{-1}}).dtype(), DType::int64);
  EXPECT_EQ(tensor(std::vector<double>{}).numel(), 0);
}

TEST(FromData, BlobsShareTheMemoryAndReleaseItOnce) {
  double memory[6] = {0, 1, 2, 3, 4, 5};
  int released = 0;
  {
    const Tensor blob = from_blob(memory, {3, 2}, [&] { ++released; });
    const Tensor transposed = from_blob(memory, {2, 3}, {1, 2});
    memory[1] = 10;
    EXPECT_EQ(blob.to_vector(), (std::vector<double>{0, 10, 2, 3, 4, 5}));
    EXPECT_EQ(transposed.to_vector(), (std::vector<double>{0, 2, 4, 10, 3, 5}));
    const Tensor view = alias(blob, {2}, {2}, 0);
    EXPECT_EQ(released, 0);
  }
  EXPECT_EQ(released, 1);
}

TEST(FromData, RefusesWhatDoesNotFit) {
  double memory[2] = {};
  expect_error([&] { from_blob(memory, {2}, {1, 1}); }, "other dims than strides [1, 1]");
  expect_error([&] { from_blob(memory, {2}, {-1}); }, "must not be negative");
  expect_error([&] { from_blob(memory, {int64_t{1} << 31}, {int64_t{1} << 33}); }, "overflows");
  expect_error([] { from_blob(static_cast<double*>(nullptr), {2}); }, "no memory for shape [2]");
  EXPECT_EQ(from_blob(static_cast<double*>(nullptr), {0, 3}).numel(), 0);
}

TEST(FromData, IntegersAreReadAndPrintedExactly) {
  const Tensor x = tensor({kBeyondDouble});
  EXPECT_EQ(x.item<int64_t>(), kBeyondDouble);
  EXPECT_EQ(x.to_vector<int64_t>()[0], kBeyondDouble);
  EXPECT_NE(to_string(x).find("9007199254740993"), std::string::npos) << to_string(x);
}

TEST(FromData, FloatsThatAreNoIntegerAreNotReadAsOne) {
  EXPECT_EQ(tensor({-2.75}).item<int64_t>(), -2);
  expect_error([] { tensor({1e19}).item<int64_t>(); }, "is no 64-bit integer");
  expect_error([] { tensor({std::nan("")}).to_vector<int64_t>(); }, "is no 64-bit integer");
}

TEST(Scalar, KeepsAndComparesIntegersExactly) {
  EXPECT_FALSE(Scalar(kBeyondDouble) == Scalar(kBeyondDouble - 1));
  EXPECT_TRUE(Scalar(2) == Scalar(2.0));
  expect_error([] { Scalar(uint64_t{1} << 63); }, "an integer is too large");
  expect_error([] { Scalar(1e30).to_int64(); }, "is no 64-bit integer");
}

}  // namespace
}  // namespace deckle
