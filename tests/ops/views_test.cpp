#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "deckle/base/error.h"
#include "deckle/core/from_data.h"
#include "deckle/core/tensor_impl.h"
#include "deckle/ops/copy.h"
#include "deckle/ops/generated/arrange.h"
#include "deckle/ops/generated/factory.h"
#include "deckle/ops/generated/foreach.h"
#include "deckle/ops/generated/index.h"
#include "deckle/ops/generated/pointwise.h"
#include "deckle/ops/generated/random.h"
#include "deckle/ops/generated/reduce.h"
#include "deckle/ops/generated/shape.h"
#include "deckle/ops/shape_tools.h"
#include "tests/support/expect.h"
#include "tests/support/random.h"

namespace deckle {
namespace {

using testing::error_of;
using Values = std::vector<double>;

Tensor numbers(Ints sizes) { return view(arange(numel_of(sizes)), sizes); }

TEST(Cat, PromotesDtypes) {
  const Tensor whole = full({2}, 3, DType::int64), half = full({1}, 0.5, DType::float16), wide = full({2}, 0.25, DType::float32);
  EXPECT_EQ(cat({whole, half}, 0).dtype(), DType::float16);
  EXPECT_EQ(cat({full({1}, true, DType::bool_), whole}, 0).dtype(), DType::int64);
  half.requires_grad_();
  wide.requires_grad_();
  const Tensor joined = cat({half, whole, wide}, 0);
  EXPECT_EQ(joined.dtype(), DType::float32);
  EXPECT_EQ(joined.to_vector(), (std::vector<double>{0.5, 3, 3, 0.25, 0.25}));
  sum(joined * joined).backward();
  EXPECT_EQ(half.grad().dtype(), DType::float16);
  EXPECT_EQ(half.grad().to_vector(), (std::vector<double>{1}));
  EXPECT_EQ(wide.grad().to_vector(), (std::vector<double>{0.5, 0.5}));
  EXPECT_EQ(stack({full({}, 1, DType::int64), full({}, 0.5, DType::float64)}, 0).to_vector(), (std::vector<double>{1, 0.5}));
}

TEST(Dropout, ChecksItsShareEvenWhereItDoesNothing) {
  for (const double p : {-1.0, 1.5, std::nan("")})
    EXPECT_NE(error_of([&] { dropout(ones({2}), p, {.train = false}); }).find("(expected 0 to 1)"), std::string::npos);
}

TEST(View, SharesStorageAndFillsInMinusOne) {
  const Tensor x = numbers({4, 6});
  const Tensor y = view(x, {2, -1, 3});
  EXPECT_EQ(y.sizes(), (Ints{2, 4, 3}));
  EXPECT_EQ(y.storage(), x.storage());
  EXPECT_EQ(y.to_vector(), x.to_vector());
  EXPECT_EQ(error_of([&] { view(x, {5, 5}); }), "view: shape [4, 6] has 24 elements, [5, 5] has not (expected as many)");
  EXPECT_EQ(error_of([&] { view(x, {-1, -1}); }), "view: -1 appears twice in [-1, -1] (expected once at most)");
}

TEST(View, OfATransposeNeedsACopyThatReshapeMakes) {
  const Tensor x = transpose(numbers({2, 3}), 0, 1);
  EXPECT_NE(error_of([&] { view(x, {6}); }), "no error");
  EXPECT_EQ(reshape(x, {6}).to_vector(), (Values{0, 3, 1, 4, 2, 5}));
  EXPECT_EQ(view(x, {3, 1, 2}).storage(), x.storage());
}

TEST(View, AgreesWithTheElementsOfRandomStridedTensors) {
  std::mt19937_64& engine = testing::random_engine();
  int viewed = 0;
  for (int round = 0; round < 500; ++round) {
    std::vector<int64_t> sizes, order;
    for (int dim = 0; dim < 4; ++dim) {
      sizes.push_back(std::vector<int64_t>{1, 2, 3, 4}[engine() % 4]);
      order.push_back(dim);
    }
    if (round % 3 == 0) std::shuffle(order.begin(), order.end(), engine);
    Tensor x = permute(numbers(sizes), order);
    if (round % 2 == 0) x = slice(x, static_cast<int64_t>(engine() % 4), 0, 2);
    // Cut the elements anew: merge neighbours at random, split sizes by 2 where possible.
    Dims wanted;
    for (const int64_t size : x.sizes()) {
      if (!wanted.empty() && engine() % 2)
        wanted.back() *= size;
      else
        wanted.push_back(size);
    }
    if (wanted.back() % 2 == 0 && engine() % 2) {
      wanted.back() /= 2;
      wanted.push_back(2);
    }
    const auto strides = view_strides(x, wanted);
    const Values want = native::contiguous(x).to_vector();
    EXPECT_EQ(reshape(x, wanted).to_vector(), want);
    if (!strides) continue;
    ++viewed;
    EXPECT_EQ(view(x, wanted).to_vector(), want)
        << to_string(x.sizes()) << " " << to_string(x.strides()) << " " << to_string(wanted);
    EXPECT_EQ(view(x, wanted).storage(), x.storage());
  }
  EXPECT_GT(viewed, 100);
}

TEST(Select, SliceAndNarrowCountAsInPython) {
  const Tensor x = numbers({5});
  EXPECT_EQ(select(x, 0, -1).item(), 4);
  EXPECT_EQ(slice(x, 0, -3, 100).to_vector(), (Values{2, 3, 4}));
  EXPECT_EQ(slice(x, 0, 0, -1, 2).to_vector(), (Values{0, 2}));
  EXPECT_EQ(slice(x, 0, 4, 2).numel(), 0);
  EXPECT_EQ(narrow(x, 0, -2, 2).to_vector(), (Values{3, 4}));
  EXPECT_EQ(error_of([&] { select(x, 0, 5); }), "select: index 5 is out of range for dim 0 of shape [5] (expected -5..4)");
  EXPECT_EQ(error_of([&] { select(x, 1, 0); }), "select: dim 1 is out of range for shape [5] (expected -1..0)");
  EXPECT_EQ(error_of([&] { slice(x, 0, 0, 5, 0); }), "slice: step is 0 (expected 1 or more)");
}

TEST(Split, PiecesCoverTheDim) {
  const Tensor x = numbers({7, 2});
  const std::vector<Tensor> pieces = split(x, 3);
  ASSERT_EQ(pieces.size(), 3u);
  EXPECT_EQ(pieces[2].to_vector(), (Values{12, 13}));
  EXPECT_EQ(cat(pieces, 0).to_vector(), x.to_vector());
  EXPECT_EQ(chunk(x, 3, 0)[0].size(0), 3);
  EXPECT_EQ(unbind(x, 1)[1].to_vector(), (Values{1, 3, 5, 7, 9, 11, 13}));
  EXPECT_EQ(error_of([&] {
              split_with_sizes(x, {3, 3});
            }),
            "split_with_sizes: sizes [3, 3] add up to 6 in dim 0 of shape [7, 2] (expected 7)");
}

TEST(Expand, HasStrideZeroAndSumToIsItsTranspose) {
  const Tensor x = numbers({3, 1});
  const Tensor y = expand(x, {2, -1, 4});
  EXPECT_EQ(y.sizes(), (Ints{2, 3, 4}));
  EXPECT_EQ(y.stride(0), 0);
  EXPECT_EQ(select(select(y, 0, 1), 1, 3).to_vector(), (Values{0, 1, 2}));
  EXPECT_EQ(sum_to(to(y, DType::float32), {3, 1}).to_vector(), (Values{0, 8, 16}));
  EXPECT_EQ(error_of([&] { expand(x, {2, 2}); }), "expand: shape [3, 1] does not broadcast to [2, 2]");
}

TEST(Views, HugeNumbersAreRefusedOrMeanTheEnd) {
  const int64_t most = std::numeric_limits<int64_t>::max(), huge = int64_t{1} << 62;
  const Tensor x = numbers({3});
  EXPECT_NE(error_of([&] { narrow(x, 0, 1, most); }).find("(expected 0.."), std::string::npos);
  EXPECT_EQ(slice(x, 0, 0, 3, most).to_vector(), (Values{0}));
  EXPECT_EQ(slice(x, 0, 2, most, 2).to_vector(), (Values{2}));
  EXPECT_EQ(slice(x, 0, 3, 3, most).numel(), 0);
  EXPECT_NE(error_of([&] { view(numbers({4}), {huge, huge, 4}); }).find("2^63"), std::string::npos);
  const Tensor empty_cube = zeros({huge, huge, 0});
  EXPECT_EQ(flatten(empty_cube, 1, 2).sizes(), (Ints{huge, 0}));
  EXPECT_NE(error_of([&] { flatten(empty_cube, 0, 1); }).find("2^63"), std::string::npos);
}

// Under the sanitizers: nothing overflows on the way to the error, or to the view of one element.
TEST(Views, NumbersOfAnySizeAreCountedWithoutOverflow) {
  const Tensor x = arange(6, DType::float64);
  constexpr int64_t kHuge = INT64_MAX;
  for (const Dims& strides : {Dims{kHuge, kHuge}, Dims{kHuge, 1}, Dims{1, kHuge}, Dims{kHuge / 2 + 1, kHuge / 2 + 1}})
    EXPECT_NE(error_of([&] { as_strided(x, {3, 3}, strides, 0); }).find("leave the 6 elements"), std::string::npos);
  EXPECT_NE(error_of([&] { as_strided(x, {2}, {1}, kHuge); }).find("leave the 6 elements"), std::string::npos);
  EXPECT_NE(error_of([&] { as_strided(x, {2}, {1}, INT64_MIN); }).find("leave the 6 elements"), std::string::npos);
  EXPECT_NE(error_of([&] { as_strided(x, {2, 2}, {3, 3}, 0); }).find("leave the 6 elements"), std::string::npos);
  EXPECT_EQ(as_strided(x, {2, 2}, {2, 3}, 0).to_vector(), (Values{0, 3, 2, 5}));
  EXPECT_EQ(as_strided(x, {1, 2}, {kHuge, 3}, 2).to_vector(), (Values{2, 5}));
  EXPECT_EQ(as_strided(x, {0, 2}, {kHuge, kHuge}, 7).numel(), 0);
  const Tensor matrix = x.view({3, 2});
  EXPECT_EQ(slice(matrix, 0, 1, 3, kHuge).to_vector(), (Values{2, 3}));
  EXPECT_EQ(slice(slice(matrix, 0, 0, 3, kHuge), 0, 0, 1, kHuge).to_vector(), (Values{0, 1}));
}

// Strides that nobody follows: views add and multiply them.
TEST(Views, OfDimsOfOneElementOfAnyStrideLieInTheirStorage) {
  constexpr int64_t kHuge = INT64_MAX;
  double memory[6] = {0, 1, 2, 3, 4, 5};
  const Tensor x = arange(6, DType::float64);
  for (const Tensor& one : {as_strided(x, {1, 2, 1}, {kHuge, 3, kHuge - 1}, 1), from_blob(memory, {1, 2, 1}, {kHuge, 3, kHuge}),
                            as_strided(x, {0, 2, 3}, {kHuge, kHuge, kHuge}, 1)}) {
    for (const Tensor& view : {slice(one, 0, 1, 2), slice(one, 2, 1, 5, kHuge), diagonal(one, 0, 0, 2), unsqueeze(one, 1),
                               unsqueeze(one, 0), transpose(one, 0, 2), select(one, 1, 1)}) {
      EXPECT_GE(view.offset(), 0);
      EXPECT_LE(view.offset(), 6);
      for (const int64_t stride : view.strides()) EXPECT_TRUE(stride >= 0 && stride <= 18) << stride;
    }
  }
  EXPECT_EQ(diagonal(as_strided(x, {1, 2, 1}, {kHuge, 3, kHuge}, 1), 0, 0, 2).to_vector(), (Values{1, 4}));
  const Tensor none = zeros({0, int64_t{1} << 62, int64_t{1} << 62});
  EXPECT_EQ(unsqueeze(none, 1).numel() + select(none, 1, (int64_t{1} << 62) - 1).numel() + slice(none, 1, 7, 99, 9).numel(), 0);
}

TEST(Reshape, ToTheSameShapeIsAViewAndNotTheSameVariable) {
  for (const Tensor& x : {zeros({2, 3}), zeros({3, 2}).transpose(0, 1)}) {
    const Tensor y = reshape(x, {2, 3});
    EXPECT_EQ(y.storage(), x.storage());
    EXPECT_EQ(y.strides(), x.strides());
    y.requires_grad_();
    EXPECT_FALSE(x.requires_grad());
    EXPECT_FALSE(flatten(x, 1, 1).is_same(x));
  }
}

TEST(AsStrided, BackwardOfElementsThatLieApartIsAScatter) {
  const Tensor gradient = numbers({2, 3});
  EXPECT_EQ(as_strided_backward(to(gradient, DType::float64), {8}, {1, 2}, 1).to_vector(), (Values{0, 0, 3, 1, 4, 2, 5, 0}));
  EXPECT_EQ(as_strided_backward(to(gradient, DType::float64), {4}, {1, 1}, 0).to_vector(), (Values{0, 4, 6, 5}));
}

TEST(Pointwise, AnIntegerResultDoesNotGoIntoABool) {
  const Tensor flags = full({2}, true, DType::bool_), counts = full({2}, 2, DType::int64);
  EXPECT_NE(error_of([&] { flags.add_(counts); }).find("the result is int64 and cannot be written into bool"), std::string::npos);
  counts.add_(flags);
  EXPECT_EQ(counts.to_vector(), (Values{3, 3}));
}

TEST(Copy, OverlappingMemoryIsReadBeforeItIsWritten) {
  const Tensor x = numbers({6});
  copy_(slice(x, 0, 1, 6), slice(x, 0, 0, 5));
  EXPECT_EQ(x.to_vector(), (Values{0, 0, 1, 2, 3, 4}));
}

TEST(Copy, BroadcastsConvertsAndRefusesWhatDoesNotFit) {
  const Tensor x = zeros({2, 3});
  copy_(x, arange(3));
  EXPECT_EQ(x.to_vector(), (Values{0, 1, 2, 0, 1, 2}));
  EXPECT_EQ(to(full({2}, 2.75), DType::int64).to_vector(), (Values{2, 2}));
  EXPECT_EQ(to(full({1}, 0.5), DType::bool_).to_vector(), (Values{1}));
  EXPECT_EQ(error_of([&] { copy_(x, zeros({4})); }), "copy_: source of shape [4] does not broadcast to [2, 3]");
}

TEST(Writing, IsRefusedWhereElementsShareAPlace) {
  const Tensor x = zeros({9}), windows = as_strided(x, {4, 3}, {2, 1}), expanded = expand(zeros({3}), {2, 3});
  const std::string message =
      "the tensor to write into, of shape [4, 3] and strides [2, 1], has several elements in one place (expected its clone)";
  EXPECT_EQ(error_of([&] { add_(windows, ones({4, 3})); }), "add_: " + message);
  EXPECT_EQ(error_of([&] { copy_(windows, ones({4, 3})); }), "copy_: " + message);
  EXPECT_EQ(error_of([&] { fill_(windows, 1); }), "fill_: " + message);
  EXPECT_EQ(error_of([&] { zero_(windows); }), "zero_: " + message);
  EXPECT_EQ(error_of([&] { exp_out(windows, ones({4, 3})); }), "exp_out: " + message);
  EXPECT_EQ(error_of([&] { foreach_scale_({windows}, 2); }), "foreach_scale_: " + message);
  for (const auto& write : {+[](const Tensor& t) { add_(t, 1); },
                            +[](const Tensor& t) {
                              copy_(t, ones({2, 3}));
                            },
                            +[](const Tensor& t) { fill_(t, 1); }}) {
    EXPECT_NE(error_of([&] { write(expanded); }), "no error");
  }
  EXPECT_EQ(x.to_vector(), Values(9, 0));
}

TEST(Writing, ReachesEveryOtherView) {
  const Tensor x = zeros({4, 6});
  for (const Tensor& part : {x, transpose(x, 0, 1), slice(x, 1, 0, 6, 2), select(x, 0, 1), as_strided(x, {2, 3}, {2, 5}),
                             expand(select(x, 0, 0), {1, 6}), slice(x, 0, 2, 2), as_strided(x, {4, 3}, {3, 1})}) {
    fill_(part, 1);
    for (const double value : part.to_vector()) EXPECT_EQ(value, 1);
    zero_(x);
  }
}

TEST(Factories, CountIntegersAsIntegers) {
  constexpr int64_t kLarge = int64_t{1} << 53;
  EXPECT_EQ(arange(kLarge + 1, kLarge + 3).to_vector<int64_t>(), (std::vector<int64_t>{kLarge + 1, kLarge + 2}));
  EXPECT_EQ(arange(5, -4, -3).to_vector(), (Values{5, 2, -1}));
  EXPECT_EQ(arange(-4, 5, 4).to_vector(), (Values{-4, 0, 4}));
  EXPECT_EQ(arange(INT64_MIN, INT64_MAX, INT64_MAX).to_vector<int64_t>(), (std::vector<int64_t>{INT64_MIN, -1, INT64_MAX - 1}));
  EXPECT_EQ(arange(INT64_MAX, INT64_MIN, INT64_MIN).to_vector<int64_t>(), (std::vector<int64_t>{INT64_MAX, -1}));
  EXPECT_EQ(arange(3, 3).numel() + arange(3, 4, -1).numel(), 0);
  EXPECT_NE(error_of([] { arange(INT64_MIN, INT64_MAX); }).find("elements"), std::string::npos);
}

// 1 + 2^-8 + 2^-40 is above the middle of two bfloat16 numbers, and in the middle once it is a float32.
TEST(Factories, RoundHalvesOnce) {
  EXPECT_EQ(full({3}, 1 + 0x1p-8 + 0x1p-40, DType::bfloat16).to_vector(), std::vector<double>(3, 1 + 0x1p-7));
  EXPECT_EQ(full({3}, -1 - 0x1p-11 - 0x1p-40, DType::float16).to_vector(), std::vector<double>(3, -1 - 0x1p-10));
  EXPECT_EQ(full({3}, 65519.999999, DType::float16).to_vector(), std::vector<double>(3, 65504));
  const int64_t large = int64_t{1} << 60;
  EXPECT_EQ(full({3}, large + (int64_t{1} << 52) + 1, DType::bfloat16).to_vector(), std::vector<double>(3, 0x1p60 + 0x1p53));
  EXPECT_EQ(full({3}, -large - (int64_t{1} << 36) - 1, DType::float32).to_vector(), std::vector<double>(3, -0x1p60 - 0x1p37));
  EXPECT_EQ(full({1}, INT64_MIN, DType::float32).to_vector(), std::vector<double>{-0x1p63});
}

TEST(Factories, MakeWhatTheyPromise) {
  EXPECT_EQ(arange(2, 9, 3).to_vector(), (Values{2, 5, 8}));
  EXPECT_EQ(arange(1.5, -1, -0.5).to_vector(), (Values{1.5, 1, 0.5, 0, -0.5}));
  EXPECT_EQ(arange(1.5, -1, -0.5).dtype(), DType::float32);
  EXPECT_EQ(arange(5, 5).numel(), 0);
  EXPECT_EQ(eye(2).to_vector(), (Values{1, 0, 0, 1}));
  EXPECT_EQ(full({}, 7, DType::int32).item(), 7);
  EXPECT_EQ(ones_like(numbers({2})).dtype(), DType::int64);
  EXPECT_EQ(error_of([&] { arange(0, 3, 0); }), "arange: step is 0 (expected any other number)");
}

TEST(Composites, StackFlipRollAndPad) {
  const Tensor x = numbers({2, 3});
  EXPECT_EQ(stack({x, x}, -1).sizes(), (Ints{2, 3, 2}));
  EXPECT_EQ(flip(x, {0, -1}).to_vector(), (Values{5, 4, 3, 2, 1, 0}));
  EXPECT_EQ(roll(x, 1, 1).to_vector(), (Values{2, 0, 1, 5, 3, 4}));
  EXPECT_EQ(roll(x, -4, 1).to_vector(), (Values{1, 2, 0, 4, 5, 3}));
  EXPECT_EQ(pad_end(x, {3, 4}).to_vector(), (Values{0, 1, 2, 0, 3, 4, 5, 0, 0, 0, 0, 0}));
}

}  // namespace
}  // namespace deckle
