#include <fmt/format.h>
#include <gtest/gtest.h>

#include "deckle/kernels/args/context.h"
#include "tests/kernels/cpu/support/buffer.h"
#include "tests/kernels/cpu/support/threads.h"

namespace deckle::kernels::cpu {
void copy(const Context&, const View& source, const View& target);
}

namespace deckle {
namespace {

using testing::Buffer;
using testing::expect_close;
using testing::poisoned;
using testing::random_integers;
using testing::values;

// A view of 3 dims: padded at the end of each row, every second row of the middle dim, dims in a random order.
Buffer strided(std::vector<int64_t> sizes, DType dtype, bool fill) {
  std::vector<int> order = {0, 1, 2};
  std::shuffle(order.begin(), order.end(), testing::engine());
  std::vector<int64_t> stored;
  for (const int dim : order) stored.push_back(sizes[static_cast<size_t>(dim)]);
  stored[1] *= 2;
  stored[2] += 3;
  Buffer buffer = fill ? random_integers(stored, dtype, 0, 3) : poisoned(stored, dtype);
  View view = buffer.view;
  view.strides[1] *= 2;
  for (size_t i = 0; i < 3; ++i) {
    buffer.view.sizes[order[i]] = sizes[static_cast<size_t>(order[i])];
    buffer.view.strides[order[i]] = view.strides[i];
  }
  return buffer;
}

constexpr DType kAll[] = {DType::bool_,   DType::uint8,    DType::int32,   DType::int64,
                          DType::float16, DType::bfloat16, DType::float32, DType::float64};

TEST(Copy, ConvertsBetweenEveryPairOfDTypesAndAnyStrides) {
  for (const DType from : kAll) {
    for (const DType to : kAll) {
      for (const auto& sizes : {std::vector<int64_t>{1, 1, 1}, {70, 3, 65}, {5, 40, 33}, {2, 1, 1300}, {0, 3, 2}}) {
        const Buffer source = strided(sizes, from, true), target = strided(sizes, to, false);
        kernels::cpu::copy({}, source.view, target.view);
        std::vector<double> want = values(source.view);
        if (to == DType::bool_)
          for (double& value : want) value = value != 0;
        SCOPED_TRACE(fmt::format("{} to {}", name(from), name(to)));
        expect_close(target.view, want, 0);
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST(Copy, ContiguousAndTransposedCopiesOfManyElementsAreExact) {
  for (const DType dtype : {DType::uint8, DType::bfloat16, DType::float32, DType::float64}) {
    Buffer source = random_integers({300, 501}, dtype, 0, 100);
    const Buffer target = poisoned({300, 501}, dtype), turned = poisoned({501, 300}, dtype);
    kernels::cpu::copy({}, source.view, target.view);
    expect_close(target.view, values(source.view), 0);
    std::swap(source.view.sizes[0], source.view.sizes[1]);
    std::swap(source.view.strides[0], source.view.strides[1]);
    kernels::cpu::copy({}, source.view, turned.view);
    expect_close(turned.view, values(source.view), 0);
  }
}

TEST(Copy, OneElementFillsManyOfAnySize) {
  for (const DType dtype : {DType::bool_, DType::uint8, DType::float16, DType::int32, DType::float64}) {
    const Buffer one = random_integers({1}, dtype, 1, 2);
    for (const int64_t count : {65535, 65536, 65537, 300001}) {
      View wide = one.view;
      wide.sizes[0] = count;
      wide.strides[0] = 0;
      const Buffer target = poisoned({count}, dtype);
      kernels::cpu::copy({}, wide, target.view);
      expect_close(target.view, std::vector<double>(static_cast<size_t>(count), 1.0), 0);
    }
  }
}

TEST(Copy, LeavesTheGapsOfAStridedTargetAlone) {
  const Buffer source = random_integers({4, 5}, DType::float32, 1, 9);
  Buffer target = random_integers({4, 8}, DType::float32, 20, 30);
  const std::vector<double> before = values(target.view);
  View part = target.view;
  part.sizes[1] = 5;
  kernels::cpu::copy({}, source.view, part);
  const std::vector<double> after = values(target.view), want = values(source.view);
  for (size_t row = 0; row < 4; ++row)
    for (size_t col = 0; col < 8; ++col) EXPECT_EQ(after[row * 8 + col], col < 5 ? want[row * 5 + col] : before[row * 8 + col]);
}

TEST(Copy, ResultsDoNotDependOnTheNumberOfThreads) {
  const Buffer source = strided({300, 40, 33}, DType::float32, true);
  testing::expect_same_for_thread_counts([&] {
    const Buffer target = poisoned({300, 40, 33}, DType::bfloat16);
    kernels::cpu::copy({}, source.view, target.view);
    return testing::bytes(target);
  });
}

TEST(Copy, ExpandsAndRoundsToHalves) {
  Buffer one = random_integers({1}, DType::float32, 0, 1);
  testing::store(one.view.data, DType::float32, 0, 1.00390625 + 1e-7);  // just above the tie between 1 and 1 + 2^-7
  View wide = one.view;
  wide.sizes[0] = 1000;
  wide.strides[0] = 0;
  const Buffer target = poisoned({1000}, DType::bfloat16);
  kernels::cpu::copy({}, wide, target.view);
  expect_close(target.view, std::vector<double>(1000, 1.0078125), 0);
}

}  // namespace
}  // namespace deckle
