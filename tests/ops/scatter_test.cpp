// scatter writes in order, whatever the layout and the number of threads; its gradient is that of what stayed.

#include <vector>

#include "deckle/base/parallel.h"
#include "deckle/ops/generated/factory.h"
#include "deckle/ops/generated/index.h"
#include "deckle/ops/generated/pointwise.h"
#include "deckle/ops/generated/random.h"
#include "deckle/ops/generated/shape.h"
#include "tests/support/expect.h"
#include "tests/support/random.h"

namespace deckle {
namespace {

using testing::expect_equal;
using testing::expect_error;
using testing::random_integer;
using testing::random_tensor;

struct Written {
  std::vector<double> values;   // of self after all writes
  std::vector<int64_t> winner;  // for each place the element of index that stayed, or -1
};

/// One element of index after the other, in three dims.
Written naive(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& src) {
  Written result{self.to_vector(), std::vector<int64_t>(static_cast<size_t>(self.numel()), -1)};
  const std::vector<int64_t> places = index.to_vector<int64_t>();
  const std::vector<double> from = src.to_vector();
  for (int64_t i = 0; i < index.numel(); ++i) {
    int64_t at[3] = {i / (index.size(1) * index.size(2)), i / index.size(2) % index.size(1), i % index.size(2)};
    const int64_t source = (at[0] * src.size(1) + at[1]) * src.size(2) + at[2];
    at[dim] = places[static_cast<size_t>(i)];
    const auto place = static_cast<size_t>((at[0] * self.size(1) + at[1]) * self.size(2) + at[2]);
    result.values[place] = from[static_cast<size_t>(source)];
    result.winner[place] = source;
  }
  return result;
}

/// Of any number of threads, and src of other strides, indices of another dtype.
void check(const Dims& sizes, int64_t dim, const Dims& reach, const Dims& given, DType dtype) {
  const int threads = num_threads();
  const Tensor self = random_tensor(sizes).to(dtype), src = random_tensor(given).to(dtype),
               gradient = random_tensor(sizes).to(dtype);
  const Tensor index = randint(0, sizes[static_cast<size_t>(dim)], reach);
  const Written expected = naive(self, dim, index, src);
  const Tensor strided = src.transpose(0, 2).contiguous().transpose(0, 2);
  std::vector<double> of_self = gradient.to_vector(), of_src(static_cast<size_t>(src.numel()), 0.0);
  for (size_t place = 0; place < of_self.size(); ++place) {
    if (expected.winner[place] < 0) continue;
    of_src[static_cast<size_t>(expected.winner[place])] = of_self[place];
    of_self[place] = 0;
  }
  for (const int count : {1, 3, 8}) {
    set_num_threads(count);
    EXPECT_EQ(scatter(self, dim, index, src).to_vector(), expected.values);
    EXPECT_EQ(scatter(self, dim, index.to(DType::int32), strided).to_vector(), expected.values);
    EXPECT_EQ(scatter_zero(gradient, dim, index).to_vector(), of_self);
    EXPECT_EQ(scatter_backward(gradient, dim, index, src.sizes()).to_vector(), of_src);
  }
  set_num_threads(threads);
}

TEST(Scatter, WritesInOrderAndSoDoItsGradients) {
  for (int round = 0; round < 60; ++round) {
    const int64_t dim = round % 3;
    Dims sizes, reach, given;  // of self, index and src
    for (int64_t d = 0; d < 3; ++d) {
      sizes.push_back(random_integer(1, round % 2 == 0 ? 4 : 90));
      reach.push_back(d == dim ? random_integer(0, 120) : random_integer(1, sizes.back()));
      given.push_back(reach.back() + random_integer(0, 2));
    }
    check(sizes, dim, reach, given, DType::float32);
  }
}

/// Lanes that lie side by side, further apart than caches hold: all of them, some, few elements of each.
TEST(Scatter, OfLargeTensorsAlongAnOuterDim) {
  for (const DType dtype : {DType::float32, DType::bfloat16, DType::float64, DType::uint8}) {
    const int64_t dim = random_integer(0, 1);
    const int64_t item = item_size(dtype), rows = random_integer(300, 400), wide = random_integer(3600 / item, 4000 / item);
    const Dims sizes = dim == 0 ? Dims{rows, 2, wide / 2} : Dims{2, rows, wide};
    for (const auto& [length, fewer] :
         {std::pair<int64_t, int64_t>{rows, 0}, {rows / 2, 3}, {rows + 90, wide / 2 - 5}, {rows / 20, 1}}) {
      Dims reach = sizes, given;
      reach[static_cast<size_t>(dim)] = length;
      reach[2] -= fewer;
      for (const int64_t size : reach) given.push_back(size + random_integer(0, 2));
      SCOPED_TRACE(::testing::Message() << "dim " << dim << ", " << rows << " rows, " << wide << " columns, " << length
                                        << " indices, " << fewer << " columns fewer, " << name(dtype));
      check(sizes, dim, reach, given, dtype);
    }
  }
}

TEST(Scatter, OfEveryDtypeKeepsItsBits) {
  for (const DType dtype : {DType::bool_, DType::uint8, DType::int32, DType::int64, DType::bfloat16, DType::float32}) {
    const Tensor self = ones({2, 3}).to(dtype), src = zeros({2, 2}).to(dtype),
                 index = testing::tensor_of({0, 0, 2, 1}).to(DType::int64);
    expect_equal(scatter(self, 1, index.view({2, 2}), src).to(DType::float64),
                 testing::tensor_of({0, 1, 1, 1, 0, 0}).view({2, 3}));
  }
}

TEST(Scatter, RefusesPlacesThatAreNotThere) {
  const Tensor self = ones({2, 3}), index = zeros({2, 2}, DType::int64);
  expect_error([&] { scatter(self, 1, full_like(index, 3), ones({2, 2})); }, "scatter: index 3 is out of range (expected 0..2)");
  expect_error(
      [&] {
        scatter(self, 1, full_like(index, -1), ones({2, 2}));
      },
      "scatter: index -1 is out of range (expected 0..2)");
  expect_error([&] { scatter(self, 1, index, ones({2, 1})); }, "(expected index to fit into both");
  expect_error([&] { scatter(self, 1, index, ones({2, 2}, DType::float64)); }, "(expected one dtype)");
  expect_error([&] { scatter(self, 1, ones({2, 2}), ones({2, 2})); }, "(expected int64 or int32)");
}

TEST(ScatterSum, RefusesAnIndexIntoAnEmptyDim) {
  expect_error([&] { scatter_sum(ones({2, 3}), 0, zeros({2, 3}, DType::int64), {0, 3}); }, "for sizes [0, 3] (expected none");
  expect_error([&] { scatter_sum(ones({2, 3}), -1, zeros({2, 3}, DType::int64), {2, 0}); }, "for sizes [2, 0] (expected none");
  EXPECT_EQ(to_string(scatter_sum(ones({0, 3}), 0, zeros({0, 3}, DType::int64), {0, 3}).sizes()), "[0, 3]");
}

// Indices of many blocks are checked together: each of them, before anything of its block is written.
TEST(ScatterAdd, ChecksTheIndicesOfEveryBlock) {
  const Tensor self = random_tensor({600, 5, 8}), src = random_tensor({600, 4, 8});
  const Tensor index = randint(0, 5, {600, 4, 8});
  std::vector<double> sums = self.to_vector();
  const std::vector<double> added = src.to_vector();
  const std::vector<int64_t> places = index.to_vector<int64_t>();
  for (size_t i = 0; i < places.size(); ++i) sums[(i / 32 * 5 + static_cast<size_t>(places[i])) * 8 + i % 8] += added[i];
  const std::vector<double> got = scatter_add(self, 1, index, src).to_vector();
  for (size_t i = 0; i < sums.size(); ++i) ASSERT_NEAR(got[i], sums[i], 1e-12) << i;
  for (const DType dtype : {DType::int64, DType::int32}) {
    for (const int64_t block : {0, 1, 31, 32, 33, 599}) {
      for (const int64_t bad : {-1, 5}) {
        const Tensor wrong = index.clone();
        wrong.data<int64_t>()[block * 32 + 17] = bad;
        const Tensor given = wrong.to(dtype);
        SCOPED_TRACE(block);
        expect_error([&] { scatter_add(self, 1, given, src); }, std::to_string(bad));
      }
    }
  }
}

}  // namespace
}  // namespace deckle
