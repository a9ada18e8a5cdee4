#include <fmt/format.h>
#include <gtest/gtest.h>

#include <span>

#include "deckle/base/error.h"
#include "deckle/base/parallel.h"
#include "deckle/kernels/args/context.h"
#include "tests/kernels/cpu/support/buffer.h"
#include "tests/kernels/cpu/support/threads.h"

namespace deckle::kernels::cpu {
void embedding(const Context&, const View& weight, const View& indices, const View& result);
void embedding_backward(const Context&, const View& grad, const View& indices, int64_t rows, const View& result);
void index_select(const Context&, const View& self, int64_t dim, const View& index, const View& result);
void index_add(const Context&, const View& self, int64_t dim, const View& index, const View& source, const View& result);
void gather(const Context&, const View& self, int64_t dim, const View& index, const View& result);
void scatter_add(const Context&, const View& self, int64_t dim, const View& index, const View& src, const View& result);
void scatter_sum(const Context&, const View& src, int64_t dim, const View& index, std::span<const int64_t> sizes,
                 const View& result);
void one_hot(const Context&, const View& self, int64_t classes, const View& result);
void cat(const Context&, std::span<const View> tensors, int64_t dim, std::span<const int64_t> lengths, const View& result);
}  // namespace deckle::kernels::cpu

namespace deckle {
namespace {

using namespace kernels::cpu;
using testing::Buffer;
using testing::expect_close;
using testing::poisoned;
using testing::random_integers;
using testing::random_normal;
using testing::values;

constexpr DType kAll[] = {DType::uint8,    DType::int32,   DType::int64,  DType::float16,
                          DType::bfloat16, DType::float32, DType::float64};

// One rounding of a sum that the kernel takes in float64.
double rounding(DType dtype) {
  switch (dtype) {
    case DType::float16:
      return 1e-3;
    case DType::bfloat16:
      return 8e-3;
    case DType::float32:
      return 1e-7;
    case DType::float64:
      return 1e-13;
    default:
      return 0;
  }
}

Buffer random_values(std::vector<int64_t> sizes, DType dtype) {
  return is_floating(dtype) ? random_normal(std::move(sizes), dtype) : random_integers(std::move(sizes), dtype, 0, 4);
}

class EveryDType : public ::testing::TestWithParam<DType> {};
INSTANTIATE_TEST_SUITE_P(All, EveryDType, ::testing::ValuesIn(kAll),
                         [](const auto& info) { return std::string(name(info.param)); });

TEST_P(EveryDType, EmbeddingTakesRowsAndItsBackwardAddsThem) {
  const int64_t rows = 11, width = 37;
  const Buffer weight = random_values({rows, width}, GetParam()), indices = random_integers({6, 9}, DType::int64, 0, rows);
  const std::vector<double> w = values(weight.view), chosen = values(indices.view);
  const Buffer result = poisoned({6, 9, width}, GetParam());
  embedding({}, weight.view, indices.view, result.view);
  std::vector<double> want;
  for (const double row : chosen)
    for (int64_t j = 0; j < width; ++j) want.push_back(w[static_cast<size_t>(static_cast<int64_t>(row) * width + j)]);
  expect_close(result.view, want, 0);

  const Buffer grad = random_values({6, 9, width}, GetParam()), back = poisoned({rows, width}, GetParam());
  embedding_backward({}, grad.view, indices.view, rows, back.view);
  const std::vector<double> g = values(grad.view);
  std::vector<double> sums(static_cast<size_t>(rows * width), 0.0);
  for (size_t i = 0; i < chosen.size(); ++i)
    for (size_t j = 0; j < static_cast<size_t>(width); ++j) sums[static_cast<size_t>(chosen[i]) * width + j] += g[i * width + j];
  expect_close(back.view, sums, rounding(GetParam()));
}

TEST_P(EveryDType, IndexSelectAndIndexAddWorkAlongEveryDim) {
  for (int64_t dim = 0; dim < 3; ++dim) {
    const std::vector<int64_t> sizes = {5, 7, 3};
    const int64_t taken = 10;
    std::vector<int64_t> picked = sizes;
    picked[static_cast<size_t>(dim)] = taken;
    const Buffer self = random_values(sizes, GetParam()),
                 index = random_integers({taken}, DType::int32, 0, sizes[static_cast<size_t>(dim)]);
    const Buffer result = poisoned(picked, GetParam()), source = random_values(picked, GetParam()),
                 added = poisoned(sizes, GetParam());
    const std::vector<double> s = values(self.view), from = values(source.view), ix = values(index.view);
    index_select({}, self.view, dim, index.view, result.view);
    index_add({}, self.view, dim, index.view, source.view, added.view);
    std::vector<double> want(from.size()), sums = s;
    int64_t position[3];
    size_t n = 0;
    for (position[0] = 0; position[0] < picked[0]; ++position[0])
      for (position[1] = 0; position[1] < picked[1]; ++position[1])
        for (position[2] = 0; position[2] < picked[2]; ++position[2], ++n) {
          int64_t at[3] = {position[0], position[1], position[2]};
          at[dim] = static_cast<int64_t>(ix[static_cast<size_t>(position[dim])]);
          const auto target = static_cast<size_t>((at[0] * sizes[1] + at[1]) * sizes[2] + at[2]);
          want[n] = s[target];
          sums[target] += from[n];
        }
    expect_close(result.view, want, 0);
    expect_close(added.view, sums, rounding(GetParam()));
  }
}

/// One dim of a gather and its transposes, against the definition.
void expect_gathered(const std::vector<int64_t>& sizes, const std::vector<int64_t>& picked, int64_t dim, DType dtype) {
  SCOPED_TRACE(fmt::format("dim {} index {} x {} x {}", dim, picked[0], picked[1], picked[2]));
  const Buffer self = random_values(sizes, dtype),
               index = random_integers(picked, DType::int64, 0, sizes[static_cast<size_t>(dim)]);
  const Buffer result = poisoned(picked, dtype), src = random_values(picked, dtype), added = poisoned(sizes, dtype),
               from_zero = poisoned(sizes, dtype);
  const std::vector<double> s = values(self.view), from = values(src.view), ix = values(index.view);
  gather({}, self.view, dim, index.view, result.view);
  scatter_add({}, self.view, dim, index.view, src.view, added.view);
  scatter_sum({}, src.view, dim, index.view, sizes, from_zero.view);
  std::vector<double> want(from.size()), sums = s, alone(s.size());
  int64_t position[3];
  size_t n = 0;
  for (position[0] = 0; position[0] < picked[0]; ++position[0])
    for (position[1] = 0; position[1] < picked[1]; ++position[1])
      for (position[2] = 0; position[2] < picked[2]; ++position[2], ++n) {
        int64_t at[3] = {position[0], position[1], position[2]};
        at[dim] = static_cast<int64_t>(ix[n]);
        const auto target = static_cast<size_t>((at[0] * sizes[1] + at[1]) * sizes[2] + at[2]);
        want[n] = s[target];
        sums[target] += from[n];
        alone[target] += from[n];
      }
  expect_close(result.view, want, 0);
  expect_close(added.view, sums, rounding(dtype));
  expect_close(from_zero.view, alone, rounding(dtype));
}

TEST_P(EveryDType, GatherAndItsTransposesWorkAlongEveryDimWithSmallerIndices) {
  for (const bool smaller : {false, true}) {
    for (int64_t dim = 0; dim < 3; ++dim) {
      std::vector<int64_t> picked = smaller ? std::vector<int64_t>{4, 69, 2} : std::vector<int64_t>{5, 70, 3};
      for (const int64_t length : {9, 1}) {
        picked[static_cast<size_t>(dim)] = length;
        expect_gathered({5, 70, 3}, picked, dim, GetParam());
      }
    }
  }
}

// Lanes of several pieces, and more side by side than are taken together.
TEST_P(EveryDType, GatherAndItsTransposesWorkOnLongLanes) {
  expect_gathered({2, 3, 300}, {100, 3, 300}, 0, GetParam());
  expect_gathered({2, 3, 300}, {2, 300, 299}, 1, GetParam());
  expect_gathered({2, 3, 300}, {2, 2, 17000}, 2, GetParam());
}

TEST_P(EveryDType, CatPutsTensorsOneAfterAnother) {
  for (int64_t dim = 0; dim < 2; ++dim) {
    std::vector<Buffer> parts;
    std::vector<View> views;
    const int64_t lengths[] = {3, 0, 40000, 1};
    int64_t total = 0;
    for (const int64_t length : lengths) {
      parts.push_back(random_values(dim == 0 ? std::vector<int64_t>{length, 4} : std::vector<int64_t>{4, length}, GetParam()));
      views.push_back(parts.back().view);
      total += length;
    }
    const Buffer result = poisoned(dim == 0 ? std::vector<int64_t>{total, 4} : std::vector<int64_t>{4, total}, GetParam());
    cat({}, views, dim, lengths, result.view);
    std::vector<double> want;
    for (int64_t row = 0; row < (dim == 0 ? 1 : 4); ++row) {
      for (size_t part = 0; part < views.size(); ++part) {
        const std::vector<double> all = values(views[part]);
        const auto length = static_cast<std::ptrdiff_t>(dim == 0 ? lengths[part] * 4 : lengths[part]);
        want.insert(want.end(), all.begin() + row * length, all.begin() + (row + 1) * length);
      }
    }
    expect_close(result.view, want, 0);
  }
}

// What flip calls: an index that counts down, from the end or from within, and one that only seems to.
TEST_P(EveryDType, IndexSelectReverses) {
  for (const int64_t inner : {1, 3}) {
    const Buffer self = random_values({5, 100, inner}, GetParam());
    for (const std::vector<int64_t>& places :
         {std::vector<int64_t>{99, 98, 97, 96}, {60, 59, 58}, {7}, {2, 1, 0}, {5, 4, 3, 3}}) {
      const auto count = static_cast<int64_t>(places.size());
      Buffer index(std::vector<int64_t>{count}, DType::int64);
      const Buffer result = poisoned({5, count, inner}, GetParam());
      for (int64_t i = 0; i < count; ++i)
        testing::store(index.view.data, DType::int64, i, static_cast<double>(places[static_cast<size_t>(i)]));
      index_select({}, self.view, 1, index.view, result.view);
      const std::vector<double> all = values(self.view);
      std::vector<double> want;
      for (int64_t outer = 0; outer < 5; ++outer)
        for (const int64_t place : places)
          for (int64_t j = 0; j < inner; ++j) want.push_back(all[static_cast<size_t>((outer * 100 + place) * inner + j)]);
      expect_close(result.view, want, 0);
    }
  }
  const Buffer self = random_values({3, 20000}, GetParam()), result = poisoned({3, 20000}, GetParam());  // of several pieces
  Buffer index(std::vector<int64_t>{20000}, DType::int64);
  for (int64_t i = 0; i < 20000; ++i) testing::store(index.view.data, DType::int64, i, static_cast<double>(19999 - i));
  index_select({}, self.view, 1, index.view, result.view);
  std::vector<double> want = values(self.view);
  for (int64_t outer = 0; outer < 3; ++outer) std::reverse(want.begin() + outer * 20000, want.begin() + (outer + 1) * 20000);
  expect_close(result.view, want, 0);
}

// A lane that counts down past its beginning is out of range, as any other.
TEST(Index, CountingDownBelowZeroIsAnError) {
  const Buffer self = random_normal({2, 4}, DType::float32), result = poisoned({2, 3}, DType::float32);
  Buffer index(std::vector<int64_t>{3}, DType::int64);
  for (int64_t i = 0; i < 3; ++i) testing::store(index.view.data, DType::int64, i, static_cast<double>(1 - i));
  EXPECT_THROW(index_select({}, self.view, 1, index.view, result.view), Error);
}

TEST(Index, OneHotMarksTheClass) {
  const Buffer self = random_integers({4, 3}, DType::int64, 0, 5), result = poisoned({4, 3, 5}, DType::int64);
  one_hot({}, self.view, 5, result.view);
  const std::vector<double> classes = values(self.view), got = values(result.view);
  for (size_t i = 0; i < classes.size(); ++i)
    for (size_t c = 0; c < 5; ++c) EXPECT_EQ(got[i * 5 + c], static_cast<size_t>(classes[i]) == c ? 1 : 0);
}

TEST(Index, IndicesOutOfRangeAreErrorsThatNameThem) {
  const Buffer self = random_normal({4, 3}, DType::float32), result = poisoned({2, 3}, DType::float32),
               sums = poisoned({4, 3}, DType::float32);
  for (const int64_t wrong : {-1, 4}) {
    Buffer index = random_integers({2}, DType::int64, 0, 4), wide = random_integers({2, 3}, DType::int64, 0, 4);
    testing::store(index.view.data, DType::int64, 1, static_cast<double>(wrong));
    testing::store(wide.view.data, DType::int64, 5, static_cast<double>(wrong));
    const std::string want = fmt::format("index {} is out of range (expected 0..3)", wrong);
    const auto message = [](auto&& call) {
      try {
        call();
      } catch (const Error& error) {
        return error.message();
      }
      return std::string("no error");
    };
    EXPECT_EQ(message([&] { index_select({}, self.view, 0, index.view, result.view); }), want);
    EXPECT_EQ(message([&] { embedding({}, self.view, index.view, result.view); }), want);
    EXPECT_EQ(message([&] { index_add({}, self.view, 0, index.view, result.view, sums.view); }), want);
    EXPECT_EQ(message([&] { gather({}, self.view, 0, wide.view, result.view); }), want);
    EXPECT_EQ(message([&] { scatter_add({}, self.view, 0, wide.view, result.view, sums.view); }), want);
  }
}

TEST(Index, EmptyInputsGiveEmptyOrUnchangedResults) {
  const Buffer self = random_normal({4, 3}, DType::float32), none = random_integers({0}, DType::int64, 0, 1);
  const Buffer taken = poisoned({0, 3}, DType::float32), kept = poisoned({4, 3}, DType::float32),
               source = poisoned({0, 3}, DType::float32);
  index_select({}, self.view, 0, none.view, taken.view);
  index_add({}, self.view, 0, none.view, source.view, kept.view);
  expect_close(kept.view, values(self.view), 0);
  const Buffer no_index = random_integers({0, 3}, DType::int64, 0, 1), same = poisoned({4, 3}, DType::float32);
  gather({}, self.view, 0, no_index.view, taken.view);
  scatter_add({}, self.view, 0, no_index.view, source.view, same.view);
  expect_close(same.view, values(self.view), 0);
}

TEST(Index, SumsAreBitEqualForAnyNumberOfThreads) {
  const Buffer grad = random_normal({5000, 64}, DType::float32), index = random_integers({5000}, DType::int64, 0, 256);
  const Buffer wide = random_integers({5000, 64}, DType::int64, 0, 256), self = random_normal({256, 64}, DType::float32),
               lanes = random_integers({5000, 64}, DType::int64, 0, 99);
  testing::expect_same_for_thread_counts([&] {
    const Buffer back = poisoned({256, 64}, DType::float32), scattered = poisoned({256, 64}, DType::float32);
    embedding_backward({}, grad.view, index.view, 256, back.view);
    scatter_add({}, self.view, 0, wide.view, grad.view, scattered.view);
    const Buffer along = poisoned({5000, 99}, DType::float32);  // the last dim
    scatter_sum({}, grad.view, 1, lanes.view, {}, along.view);
    return testing::bytes(back, scattered, along);
  });
}

}  // namespace
}  // namespace deckle
