// Sums and fills of halves are rounded once, from float64.
#include "deckle/autograd/backward.h"
#include "deckle/core/from_data.h"
#include "deckle/nested/generated/arrange.h"
#include "deckle/nested/generated/index.h"
#include "deckle/nested/padding.h"
#include "deckle/nested/structure.h"
#include "deckle/ops/generated/factory.h"
#include "deckle/ops/generated/index.h"
#include "deckle/ops/generated/reduce.h"
#include "deckle/ops/generated/segment.h"
#include "tests/support/expect.h"
#include "tests/support/random.h"

namespace deckle {
namespace {

using testing::error_of;
using testing::expect_error;
using testing::tensor_of;

/// Three numbers of a half dtype whose exact sum is just above the middle between 1 and `next`, the next number, and whose
/// float32 sum is that middle.
struct Terms {
  DType dtype;
  double middle, next;
};
constexpr Terms kTerms[] = {{DType::bfloat16, 0x1p-8, 1 + 0x1p-7}, {DType::float16, 0x1p-11, 1 + 0x1p-10}};

/// The smallest term that a half holds and float32 loses beside 1.
double small(DType dtype) { return dtype == DType::bfloat16 ? 0x1p-40 : 0x1p-24; }

TEST(Halves, SumsAreRoundedOnce) {
  for (const auto& [dtype, middle, next] : kTerms) {
    SCOPED_TRACE(name(dtype));
    const std::vector<double> want{next};
    const Tensor terms = tensor_of({1, middle, small(dtype)}).to(dtype), rows = terms.view({3, 1});
    const Tensor zero = zeros({1}, dtype), to_first = zeros({3}, DType::int64);
    EXPECT_EQ(index_add(zero, 0, to_first, terms).to_vector(), want);
    EXPECT_EQ(scatter_add(zero, 0, to_first, terms).to_vector(), want);
    EXPECT_EQ(scatter_sum(terms, 0, to_first, {1}).to_vector(), want);
    // Where few elements of many are added to.
    EXPECT_EQ(scatter_sum(terms, 0, to_first, {100}).to_vector()[0], next);
    const Tensor named = arange(3, DType::int64).view({1, 3});
    EXPECT_EQ(embedding_bag(rows, named, Tensor(), BagMode::sum).view({1}).to_vector(), want);
    EXPECT_EQ(embedding_backward(rows, to_first, 1).view({1}).to_vector(), want);
    EXPECT_EQ(index_add_or(terms, to_first, 1).to_vector(), want);
    const Ragged one = Ragged::from_lengths(std::vector<int64_t>{1}), three = Ragged::from_lengths(std::vector<int64_t>{3});
    EXPECT_EQ(segment_scatter_add(zero, one, to_first, three, terms).to_vector(), want);
  }
}

TEST(Halves, FillsOfNestedOpsAreRoundedOnce) {
  for (const auto& [dtype, middle, next] : kTerms) {
    SCOPED_TRACE(name(dtype));
    const double value = 1 + middle + 0x1p-40;
    const NestedTensor x = NestedTensor::from_lengths(zeros({3}, dtype), {1, 2});
    EXPECT_EQ(to_padded(x, {.value = value}).to_vector(), (std::vector<double>{0, next, 0, 0}));
    EXPECT_EQ(pad(x, {0, 1}, PadMode::constant, value).values().to_vector(), (std::vector<double>{0, next, 0, 0, next}));
    EXPECT_EQ(shift(x, 1, 1, value).values().to_vector(), (std::vector<double>{next, next, 0}));
  }
}

TEST(Fills, OfNestedIntegersAreExactAndHeldToTheDtype) {
  const int64_t large = (int64_t{1} << 53) + 1;
  const auto of = [](DType dtype) { return NestedTensor::from_lengths(zeros({3}, dtype), {1, 2}); };
  EXPECT_EQ(to_padded(of(DType::int64), {.value = large}).to_vector<int64_t>(), (std::vector<int64_t>{0, large, 0, 0}));
  EXPECT_EQ(pad(of(DType::int64), {0, 1}, PadMode::constant, large).values().to_vector<int64_t>(),
            (std::vector<int64_t>{0, large, 0, 0, large}));
  EXPECT_EQ(shift(of(DType::int64), 1, 1, large).values().to_vector<int64_t>(), (std::vector<int64_t>{large, large, 0}));
  for (const double wrong : {double{NAN}, 1e30, -1.0, 256.0, double{INFINITY}}) {
    SCOPED_TRACE(wrong);
    const std::string expected = error_of([&] { full({1}, wrong, DType::uint8); });
    const std::string said = expected.substr(expected.find(": ") + 2);  // after the op's name
    expect_error([&] { to_padded(of(DType::uint8), {.value = wrong}); }, said);
    expect_error([&] { pad(of(DType::uint8), {0, 1}, PadMode::constant, wrong); }, said);
    expect_error([&] { shift(of(DType::uint8), 1, 1, wrong); }, said);
  }
  EXPECT_EQ(to_padded(of(DType::uint8), {.value = 1.5}).to_vector(), (std::vector<double>{0, 1, 0, 0}));  // truncated, as by full
  EXPECT_EQ(to_padded(of(DType::bool_), {.value = 0.5}).to_vector(), (std::vector<double>{0, 1, 0, 0}));
}

TEST(EmbeddingBag, OfNoIndicesIsZeroInEveryMode) {
  const Tensor weight = ones({4, 3}, DType::float64).requires_grad_(), none = zeros({2, 0}, DType::int64);
  for (const BagMode mode : {BagMode::sum, BagMode::mean, BagMode::max}) {
    const Tensor bags = embedding_bag(weight, none, Tensor(), mode);
    testing::expect_equal(bags.detach(), zeros({2, 3}, DType::float64));
    testing::expect_equal(grad({sum(bags)}, {weight})[0], zeros({4, 3}, DType::float64));
    const NestedTensor ragged = NestedTensor::from_lengths(zeros({0}, DType::int64), {0, 0});
    testing::expect_equal(embedding_bag(weight, ragged, Tensor(), mode).values().detach(), zeros({2, 3}, DType::float64));
  }
}

}  // namespace
}  // namespace deckle
