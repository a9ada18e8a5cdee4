// Tensors written and read as NumPy and PyTorch do: literals, operators, brackets.

#include "deckle/ops/indexing.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <sstream>

#include "deckle/core/allocator.h"
#include "deckle/core/from_data.h"
#include "deckle/functional/gradcheck.h"
#include "deckle/functional/transforms.h"
#include "deckle/nested/operators.h"
#include "deckle/ops/generated/factory.h"
#include "deckle/ops/generated/index.h"
#include "deckle/ops/generated/pointwise.h"
#include "deckle/ops/generated/random.h"
#include "deckle/ops/generated/reduce.h"
#include "deckle/ops/generated/shape.h"
#include "tests/support/expect.h"

namespace deckle {
namespace {

using Values = std::vector<double>;

/// [2, 3, 4] holding 0 .. 23.
Tensor counted() { return reshape(arange(24).to(DType::float64), {2, 3, 4}); }

TEST(Literals, GiveShapeAndDtype) {
  EXPECT_EQ(Dims(tensor(3.0).sizes()), Dims{});
  EXPECT_EQ(tensor(3.0).item(), 3.0);
  const Tensor matrix = tensor({{1.0f, 2.0f}, {3.0f, 4.0f}});
  EXPECT_TRUE(matrix.sizes() == Ints({2, 2}));
  EXPECT_EQ(matrix.dtype(), DType::float32);
  EXPECT_EQ(matrix.to_vector(), (Values{1, 2, 3, 4}));
  EXPECT_TRUE(tensor({{{1, 2, 3}}, {{4, 5, 6}}}).sizes() == Ints({2, 1, 3}));
  EXPECT_EQ(tensor({{true, false}}).to_vector(), (Values{1, 0}));
  EXPECT_TRUE(zeros(3).sizes() == Ints({3}));
  EXPECT_THROW(tensor({{1.0, 2.0}, {3.0}}), Error);
}

TEST(Operators, CompareElementByElement) {
  const Tensor x = tensor({-1.0, 0.0, 2.0}), y = tensor({1.0, 0.0, 1.0});
  EXPECT_EQ((x > 0).to_vector(), (Values{0, 0, 1}));
  EXPECT_EQ((0 < x).to_vector(), (Values{0, 0, 1}));
  EXPECT_EQ((1 >= x).to_vector(), (Values{1, 1, 0}));
  EXPECT_EQ((x == y).to_vector(), (Values{0, 1, 0}));
  EXPECT_EQ((2.0 == x).to_vector(), (Values{0, 0, 1}));
  EXPECT_EQ((x != 0.0).to_vector(), (Values{1, 0, 1}));
  EXPECT_EQ(((x > 0) & (y > 0)).to_vector(), (Values{0, 0, 1}));
  EXPECT_EQ((~(x > 0) | (y > 0)).to_vector(), (Values{1, 1, 1}));
  EXPECT_EQ(((x > 0) ^ (y > 0)).to_vector(), (Values{1, 0, 0}));
  EXPECT_THROW(x & y, Error);
}

TEST(Operators, NoNumberEqualsNaN) {
  for (const DType dtype : {DType::float32, DType::float64, DType::bfloat16}) {
    const Tensor x = full({37}, std::numeric_limits<double>::quiet_NaN(), dtype), y = ones({37}, dtype);
    for (const Tensor& unequal : {x != x, x != y, y != x, x != 1.0, where(x, y, zeros({37}, dtype)) == 1.0})
      EXPECT_EQ(sum(unequal).item(), 37) << dtype;
    EXPECT_EQ(sum(x == x).item(), 0) << dtype;
    EXPECT_TRUE(any(x).item<bool>()) << dtype;
  }
}

TEST(Operators, WriteInPlace) {
  Tensor x = tensor({1.0, 2.0});
  const Tensor same = x;
  x += 1;
  x *= tensor({2.0, 3.0});
  x -= 1.0;
  x /= 3;
  EXPECT_EQ(same.to_vector(), (Values{1, 8.0 / 3}));
}

TEST(Operators, OnNestedTensors) {
  const NestedTensor x = NestedTensor::from_lengths(tensor({-1.0, 0.0, 2.0}), {1, 2});
  EXPECT_EQ((x > 0).values().to_vector(), (Values{0, 0, 1}));
  EXPECT_EQ((1 > x).values().to_vector(), (Values{1, 1, 0}));
  EXPECT_EQ((~(x == x)).values().to_vector(), (Values{0, 0, 0}));
  x += 1;
  EXPECT_EQ(x.values().to_vector(), (Values{0, 1, 3}));
}

TEST(Assignment, ToAnUnnamedViewWritesIt) {
  Tensor x = zeros({2, 3});
  x[0] = tensor({1.0f, 2.0f, 3.0f});
  x[1][2] = 7;
  EXPECT_EQ(x.to_vector(), (Values{1, 2, 3, 0, 0, 7}));
  x[1] = x[0];
  EXPECT_EQ(x.to_vector(), (Values{1, 2, 3, 1, 2, 3}));
  Tensor y = ones({2});
  y = x;  // another handle
  EXPECT_TRUE(y.is_same(x));
}

TEST(Assignment, ToACopyThatNobodyHoldsIsAnError) {
  const Tensor x = counted(), mask = x > 2, rows = tensor<int64_t>({0, 1});
  const char* const lost = "nothing holds the tensor that is assigned to";
  testing::expect_error([&] { x[mask][0] = 9; }, lost);
  testing::expect_error([&] { x[rows][slice(0, 1)] = 9; }, lost);
  testing::expect_error([&] { x[rows][rows] = 9; }, lost);
  testing::expect_error([&] { (x + 1)[0] = 9; }, lost);
  testing::expect_error([&] { x.clone()[0][1] += 9; }, lost);
  testing::expect_error([&] { (x + 1) += 9; }, lost);
  testing::expect_error([&] { x.index({mask}) *= 2; }, lost);
  EXPECT_TRUE(x.equal(counted()));
}

TEST(Assignment, ToAViewOfAViewWritesIt) {
  const Tensor x = counted();
  x[0][1][2] = -1;
  x[1][x[1] > 20] = -2;
  x[0][slice(2)][0] += 100;
  EXPECT_EQ(x.to_vector(), (Values{0, 1, 2, 3, 4, 5, -1, 7, 108, 109, 110, 111, 12, 13, 14, 15, 16, 17, 18, 19, 20, -2, -2, -2}));
}

TEST(Assignment, ByEveryCompoundOperatorReachesWhatAMaskChooses) {
  const Tensor i = arange(6);
  const Tensor mask = i > 2;
  i[mask] %= 4;
  EXPECT_EQ(i.to_vector(), (Values{0, 1, 2, 3, 0, 1}));
  i[mask] |= 8;
  i[mask] ^= 1;
  i[mask] &= 14;
  EXPECT_EQ(i.to_vector(), (Values{0, 1, 2, 10, 8, 8}));
  i[mask] <<= 2;
  i[mask] >>= 1;
  EXPECT_EQ(i.to_vector(), (Values{0, 1, 2, 20, 16, 16}));
}

TEST(Assignment, ToANameForWhatAMaskChoseLeavesTheRest) {
  const Tensor x = tensor({1.0, 2.0, 3.0});
  auto chosen = x[x > 1];
  chosen = chosen * 2;
  chosen += 1;
  auto other = x[x > 2];
  std::swap(chosen, other);
  EXPECT_EQ(other.to_vector(), (Values{5, 7}));
  EXPECT_EQ(chosen.to_vector(), (Values{3}));
  EXPECT_EQ(x.to_vector(), (Values{1, 2, 3}));
}

TEST(Assignment, ToPartsOfALeafNamesTheLeaf) {
  const Tensor x = ones({3}).requires_grad_();
  testing::expect_error([&] { x[x > 0] = 1; }, "an in-place write to a leaf that requires grad");
}

TEST(Lists, KeepTheirNumbers) {
  const Ints sizes = {2, 3};
  const OptionalInts dims = {0, 1};
  auto shape = (zeros({4}) + 1).shape();
  Tensor x = zeros({5, 6});
  auto before = x.shape();
  x = zeros({7});
  const Tensor others = zeros({9, 9, 9});  // where freed memory is used again
  EXPECT_EQ(zeros(sizes).shape(), Dims({2, 3}));
  EXPECT_EQ(ones(sizes).sum(dims).item(), 6);
  EXPECT_EQ(shape, Dims({4}));
  EXPECT_EQ(before, Dims({5, 6}));
  EXPECT_EQ(zeros(std::vector<int>{2, 3}).shape(), Dims({2, 3}));
}

TEST(Temporaries, AreKeptByWhatTheirInPlaceOpsReturn) {
  int rows = 0;
  for (const Tensor& row : add_(ones({2, 2}), 1)) rows += row.sum().item<int>();
  for (const Tensor& row : (ones({2, 2}) * 1).fill_(3)) rows += row.sum().item<int>();
  EXPECT_EQ(rows, 8 + 12);
}

TEST(Numbers, TooLargeForAnIndexAreRefused) {
  const std::vector<float> none;
  testing::expect_error([&] { zeros({3})[none.size() - 1]; }, "an integer is too large");
}

TEST(Rows, AreWalked) {
  double total = 0;
  for (const Tensor& row : counted()) total += sum(row).item();
  EXPECT_EQ(total, 276);
  EXPECT_THROW(tensor(1.0).begin(), Error);
}

TEST(Index, NumbersSlicesAndAxesAreViews) {
  const Tensor x = counted();
  EXPECT_EQ(x.index({1, slice(1, -1), ellipsis}).to_vector(), (Values{16, 17, 18, 19}));
  EXPECT_EQ(x.index({ellipsis, -1}).to_vector(), (Values{3, 7, 11, 15, 19, 23}));
  EXPECT_TRUE(x.index({newaxis, 0, slice(), newaxis}).sizes() == Ints({1, 3, 1, 4}));
  EXPECT_EQ(x.index({0, 0, slice({}, {}, 3)}).to_vector(), (Values{0, 3}));
  EXPECT_EQ(x.index({0, slice(5, 9)}).numel(), 0);
  EXPECT_EQ(x.index({0}).storage(), x.storage());
}

TEST(Index, TensorsChooseAsInNumPy) {
  const Tensor x = counted();
  const Tensor rows = tensor<int64_t>({1, 0, -1}), columns = tensor<int64_t>({3, 0, 1});
  // x[:, rows]: the place of the tensor
  EXPECT_TRUE(x.index({slice(), rows}).sizes() == Ints({2, 3, 4}));
  EXPECT_EQ(x.index({slice(), rows}).index({1, 2}).to_vector(), (Values{20, 21, 22, 23}));
  // x[:, rows, columns]: neighbours stay in place; x[rows, :, columns]: the chosen dim goes in front
  EXPECT_EQ(x.index({slice(), rows, columns}).to_vector(), (Values{7, 0, 9, 19, 12, 21}));
  const Tensor apart = x.index({tensor<int64_t>({1, 0, 1}), slice(), columns});
  EXPECT_TRUE(apart.sizes() == Ints({3, 3}));
  EXPECT_EQ(apart.to_vector(), (Values{15, 19, 23, 0, 4, 8, 13, 17, 21}));
  EXPECT_EQ(x.index({x > 21}).to_vector(), (Values{22, 23}));
  EXPECT_EQ(x.index({ellipsis, tensor({true, false, false, true})}).index({0, 0}).to_vector(), (Values{0, 3}));
  EXPECT_EQ(x.index({tensor<int64_t>({{1}, {0}}), tensor<int64_t>({0, 2})}).sizes().size(), 3u);
}

TEST(Index, WritesThroughEveryKind) {
  Tensor x = counted();
  x.index_put_({slice(), 0, slice(1, 3)}, tensor(-1.0));
  EXPECT_EQ(x.index({slice(), 0}).to_vector(), (Values{0, -1, -1, 3, 12, -1, -1, 15}));
  x.index_put_({x < 0}, tensor(5.0));
  EXPECT_EQ(min(x).item(), 0);
  x.index_put_({slice(), tensor<int64_t>({2, 2}), 0}, tensor({10.0, 20.0}), true);
  EXPECT_EQ(x.index({slice(), 2, 0}).to_vector(), (Values{38, 50}));
  const Tensor y = x.index_put({0}, tensor(0.0));
  EXPECT_EQ(sum(y[0]).item(), 0);
  EXPECT_NE(sum(x[0]).item(), 0);
}

TEST(Index, WritesWhatItIsGiven) {
  Tensor flags = zeros({4}, DType::bool_);
  flags.index_put_({tensor<int64_t>({0, 2})}, tensor(true));
  EXPECT_EQ(flags.to_vector(), (Values{1, 0, 1, 0}));
  Tensor x = ones({2});
  x.index_put_({tensor<int64_t>({1})}, tensor(-0.0f));
  EXPECT_TRUE(std::signbit(x[1].item()));
  x.index_put_({x > 5}, tensor(1.0f));  // nowhere
  EXPECT_EQ(x.to_vector(), (Values{1, -0.0}));
}

TEST(Index, HasGradients) {
  const Tensor x = randn({3, 4}, {.dtype = DType::float64}), values = randn({2, 2}, {.dtype = DType::float64});
  const Tensor rows = tensor<int64_t>({2, 0});
  const auto read = [&](const Tensor& a) { return a.index({rows, slice(1, -1)}) * a.index({newaxis, 0, slice(0, 2)}); };
  EXPECT_NO_THROW(gradcheck(read, x));
  EXPECT_NO_THROW(gradgradcheck([&](const Tensor& a) { return square(read(a)); }, x));
  EXPECT_NO_THROW(gradcheck([&](const Tensor& a) { return square(a.index_put({rows, slice(0, 2)}, values)); }, x));
  EXPECT_NO_THROW(gradcheck([&](const Tensor& v) { return square(x.index_put({rows, slice(0, 2)}, v, true)); }, values));
}

TEST(Index, RefusesWhatHasNoMeaning) {
  const Tensor x = counted();
  EXPECT_THROW(x.index({0, 0, 0, 0}), Error);
  EXPECT_THROW(x.index({ellipsis, ellipsis}), Error);
  EXPECT_THROW(x.index({slice(0, 2, -1)}), Error);
  EXPECT_THROW(x.index({5}), Error);
  EXPECT_THROW(x.index({tensor<int64_t>({2})}), Error);
  EXPECT_THROW(x.index({tensor({true, false, true})}), Error);
  EXPECT_THROW(x.index({tensor({0.5})}), Error);
}

TEST(Printing, ShowsShapeDtypeAndValues) {
  std::ostringstream text;
  text << tensor({1.0, -std::numeric_limits<double>::quiet_NaN()}) << "\n" << DType::bfloat16 << " " << Device{};
  EXPECT_EQ(text.str(), "Tensor[2] float64\n[1, nan]\nbfloat16 cpu");
  std::ostringstream nested;
  nested << NestedTensor::from_lengths(tensor({1.0, 2.0, 3.0}), {1, 2});
  EXPECT_EQ(nested.str(),
            "NestedTensor[2, 1..2 (mean 2)] float64, 3 rows\n0: Tensor[1] float64\n[1]\n1: Tensor[2] float64\n[2, 3]");
}

TEST(Indexing, APutCopiesOnce) {
  const Tensor x = zeros({1000, 1000}), values = tensor(1.0);
  const int64_t before = memory_stats().in_use;
  reset_peak_memory();
  const Tensor y = x.index_put({tensor<int64_t>({3, -1, 3})}, values, true);
  EXPECT_LT(memory_stats().peak - before, x.numel() * item_size(x.dtype()) * 3 / 2);
  EXPECT_EQ(y[3][0].item(), 2.0);
  EXPECT_EQ(y[999][7].item(), 1.0);
  EXPECT_EQ(x.sum().item(), 0.0);
  const Tensor crossed = x.index_put({slice(), tensor<int64_t>({5})}, values, true);  // whose indexed dim is not the first
  EXPECT_EQ(crossed.select(1, 5).sum().item(), 1000.0);
  EXPECT_EQ(crossed.sum().item(), 1000.0);
}

TEST(Indexing, OutOfRangeSaysWhere) {
  testing::expect_error([] { zeros({4, 5}).index({slice(), tensor<int64_t>({0, 5})}); }, "index 5 is out of range");
  testing::expect_error([] { zeros({4, 5}).index({tensor<int64_t>({-5})}); }, "index -5 is out of range");
  constexpr int64_t most = std::numeric_limits<int64_t>::max();
  testing::expect_error(
      [] {
        zeros({4, 5}).index_put_({tensor<int64_t>({1}), tensor<int64_t>({most})}, tensor(1.0f));
      },
      "index 9223372036854775807 is out of range for dim 1");
  testing::expect_error(
      [] {
        zeros({4, 5}).index_put_({tensor<int64_t>({1}), tensor<int64_t>({-most - 1})}, tensor(1.0f));
      },
      "index -9223372036854775808 is out of range for dim 1");
}

// More elements than one thread takes, rows without any, and the last element set or not.
TEST(Nonzero, FindsTheElementsOfLargeTensorsInOrder) {
  for (const double threshold : {-10.0, 0.0, 2.0, 10.0}) {
    const Tensor mask = gt(randn({7, 130, 110}), threshold), places = nonzero(mask);
    const bool* const set = mask.data<bool>();
    int64_t row = 0;
    for (int64_t i = 0; i < mask.numel(); ++i) {
      if (!set[i]) continue;
      ASSERT_LT(row, places.size(0));
      const int64_t* const at = places.data<int64_t>() + 3 * row++;
      ASSERT_EQ((at[0] * 130 + at[1]) * 110 + at[2], i);
      ASSERT_TRUE(at[1] < 130 && at[2] < 110);
    }
    EXPECT_TRUE(places.sizes() == Ints({row, 3}));
  }
}

}  // namespace
}  // namespace deckle
