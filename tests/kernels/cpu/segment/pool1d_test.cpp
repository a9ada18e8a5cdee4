// The largest rows of windows and where their gradients go, against plain loops.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

#include "deckle/kernels/args/context.h"
#include "tests/kernels/cpu/support/buffer.h"
#include "tests/kernels/cpu/support/components.h"
#include "tests/kernels/cpu/support/threads.h"

namespace deckle::kernels::cpu {
void segment_max_pool1d(const Context&, const View& values, const RaggedView& ragged, const RaggedView& windows, int64_t size,
                        int64_t stride, int64_t lead, const View& result, const View& positions);
void segment_max_pool1d_backward(const Context&, const View& gradient, const RaggedView& windows, const View& positions,
                                 const RaggedView& ragged, int64_t size, int64_t stride, int64_t lead, const View& result);
void segment_window_gather(const Context&, const View& values, const RaggedView& ragged, const View& positions,
                           const RaggedView& windows, int64_t size, int64_t stride, int64_t lead, const View& result);
}  // namespace deckle::kernels::cpu

namespace deckle {
namespace {

using testing::Buffer;
using testing::Components;
using testing::poisoned;
using testing::values;

constexpr DType kTypes[] = {DType::float32, DType::bfloat16, DType::float64, DType::float16};

/// Sequences, and windows that have a row each, as many as there are or some fewer.
struct Windows {
  int64_t size, stride, lead;
  Components rows, windows;

  Windows(int64_t size_, int64_t stride_, int64_t lead_, const std::vector<int64_t>& lengths, int64_t fewer = 0)
      : size(size_), stride(stride_), lead(lead_), rows(lengths), windows(counts(lengths, stride_, lead_, size_, fewer)) {}

  static std::vector<int64_t> counts(const std::vector<int64_t>& lengths, int64_t stride, int64_t lead, int64_t size,
                                     int64_t fewer) {
    std::vector<int64_t> result;
    for (const int64_t length : lengths) {
      int64_t count = 0;
      while (length > 0 && count * stride - lead < length && count * stride - lead + size > 0) ++count;
      result.push_back(std::max<int64_t>(count - fewer, 0));
    }
    return result;
  }
  bool has(int64_t w, int64_t row) const { return w * stride - lead <= row && row < w * stride - lead + size; }
};

/// body(sequence, window among all, window of the sequence)
template <typename Body>
void for_windows(const Windows& given, Body body) {
  for (size_t b = 0; b < given.rows.lengths.size(); ++b) {
    for (int64_t at = given.windows.offsets[b]; at < given.windows.offsets[b + 1]; ++at)
      body(b, at, at - given.windows.offsets[b]);
  }
}

std::vector<double> by_loop(const Windows& given, const View& gradient, const View& positions, int64_t width) {
  std::vector<double> result(static_cast<size_t>(given.rows.offsets.back() * width), 0.0);
  const std::vector<double> g = values(gradient), where = values(positions);
  for_windows(given, [&](size_t b, int64_t at, int64_t w) {
    for (int64_t c = 0; c < width; ++c) {
      const auto row = static_cast<int64_t>(where[static_cast<size_t>(at * width + c)]);
      if (row < 0 || row >= given.rows.lengths[b] || !given.has(w, row)) continue;
      result[static_cast<size_t>((given.rows.offsets[b] + row) * width + c)] += g[static_cast<size_t>(at * width + c)];
    }
  });
  return result;
}

void expect_gradient_of_a_loop(const Windows& given, const Buffer& gradient, const Buffer& positions, int64_t width) {
  const DType dtype = gradient.view.dtype;
  const Buffer result = poisoned({given.rows.offsets.back(), width}, dtype);
  kernels::cpu::segment_max_pool1d_backward({}, gradient.view, given.windows.view(), positions.view, given.rows.view(),
                                            given.size, given.stride, given.lead, result.view);
  EXPECT_EQ(values(result.view), by_loop(given, gradient.view, positions.view, width)) << name(dtype);
}

/// As often as not outside of the window or of the sequence, and some by `far`.
Buffer stray_positions(int64_t count, int64_t width, int64_t far) {
  Buffer result = testing::random_integers({count, width}, DType::int64, -2, 34);
  for (int64_t i = 0; i < count * width; i += 5) result.view.ptr<int64_t>()[i] += (i % 3 - 1) * far;
  return result;
}

template <typename Body>
void for_cases(Body body) {
  for (const int64_t width : {1, 3, 16, 37, 1024, 1500}) {
    for (const auto& [size, stride, lead] : std::vector<std::array<int64_t, 3>>{{3, 3, 0},
                                                                                {3, 1, 1},
                                                                                {3, 2, 2},
                                                                                {2, 5, 0},
                                                                                {2, 5, 1},
                                                                                {5, 2, 4},
                                                                                {1, 1, 0},
                                                                                {9, 9, 4},
                                                                                {16, 1, 3},
                                                                                {40, 3, 20},
                                                                                {13, 1, 12},
                                                                                {100, 2, 0}}) {
      for (const int64_t fewer : {0, 1}) {
        SCOPED_TRACE(fmt::format("width {} size {} stride {} lead {} fewer {}", width, size, stride, lead, fewer));
        body(Windows(size, stride, lead, {4, 0, 17, 1, 30}, fewer), width);
        if (::testing::Test::HasFatalFailure()) return;
      }
    }
  }
  body(Windows(3, 3, 0, {}), 4);
  body(Windows(3, 3, 0, {0, 0}), 4);
  body(Windows(3, 3, 0, {6}), 0);
}

TEST(MaxPool1d, GradientsGoToTheLargestRows) {
  for (const DType dtype : kTypes) {
    for_cases([dtype](const Windows& given, int64_t width) {
      const int64_t rows = given.rows.offsets.back(), count = given.windows.offsets.back();
      const Buffer x = testing::random_integers({rows, width}, dtype, -3, 4), largest = poisoned({count, width}, dtype),
                   positions = poisoned({count, width}, DType::int64);
      kernels::cpu::segment_max_pool1d({}, x.view, given.rows.view(), given.windows.view(), given.size, given.stride, given.lead,
                                       largest.view, positions.view);
      const std::vector<double> data = values(x.view), best = values(largest.view), where = values(positions.view);
      for_windows(given, [&](size_t b, int64_t at, int64_t w) {
        for (int64_t c = 0; c < width; ++c) {
          int64_t first = -1;
          for (int64_t row = 0; row < given.rows.lengths[b]; ++row) {
            if (!given.has(w, row)) continue;
            const auto value = [&](int64_t r) { return data[static_cast<size_t>((given.rows.offsets[b] + r) * width + c)]; };
            if (first < 0 || value(row) > value(first)) first = row;
          }
          ASSERT_EQ(where[static_cast<size_t>(at * width + c)], static_cast<double>(first));
        }
      });
      expect_gradient_of_a_loop(given, testing::random_integers({count, width}, dtype, -9, 10), positions, width);
    });
  }
}

TEST(MaxPool1d, PositionsOutsideOfTheirWindowsGetNothing) {
  // Far ones equal a row in their lower half.
  for (const DType dtype : kTypes) {
    for_cases([dtype](const Windows& given, int64_t width) {
      const int64_t count = given.windows.offsets.back();
      const Buffer positions = stray_positions(count, width, int64_t{1} << 32);
      expect_gradient_of_a_loop(given, testing::random_integers({count, width}, dtype, 1, 10), positions, width);
    });
  }
}

TEST(MaxPool1d, ElementsAreGatheredFromWindowsAlone) {
  for (const DType dtype : kTypes) {
    for_cases([dtype](const Windows& given, int64_t width) {
      const int64_t rows = given.rows.offsets.back(), count = given.windows.offsets.back();
      const Buffer positions = stray_positions(count, width, int64_t{1} << 50);
      const Buffer x = testing::random_normal({rows, width}, dtype), result = poisoned({count, width}, dtype);
      kernels::cpu::segment_window_gather({}, x.view, given.rows.view(), positions.view, given.windows.view(), given.size,
                                          given.stride, given.lead, result.view);
      const std::vector<double> data = values(x.view), got = values(result.view);
      for_windows(given, [&](size_t b, int64_t at, int64_t w) {
        for (int64_t c = 0; c < width; ++c) {
          const int64_t row = positions.view.ptr<int64_t>()[at * width + c];
          const bool inside = row >= 0 && row < given.rows.lengths[b] && given.has(w, row);
          const double want = inside ? data[static_cast<size_t>((given.rows.offsets[b] + row) * width + c)] : 0;
          ASSERT_EQ(got[static_cast<size_t>(at * width + c)], want) << name(dtype);
        }
      });
    });
  }
}

TEST(MaxPool1d, ANanOfAGradientStaysWhereItBelongs) {
  for (const auto& [size, stride] : {std::pair<int64_t, int64_t>{2, 2}, {2, 1}, {14, 1}}) {
    for (const DType dtype : kTypes) {
      const Windows given(size, stride, 0, {20});
      const int64_t width = 33, count = given.windows.offsets.back();
      const Buffer gradient = testing::random_normal({count, width}, dtype), positions({count, width}, DType::int64),
                   result = poisoned({20, width}, dtype);
      for (int64_t i = 0; i < count * width; ++i) positions.view.ptr<int64_t>()[i] = i / width * stride;  // the first of each
      testing::store(gradient.view.data, dtype, 3 * width + 7, NAN);
      testing::store(gradient.view.data, dtype, 4 * width + 8, INFINITY);
      kernels::cpu::segment_max_pool1d_backward({}, gradient.view, given.windows.view(), positions.view, given.rows.view(), size,
                                                stride, 0, result.view);
      const std::vector<double> got = values(result.view);
      for (size_t i = 0; i < got.size(); ++i) {
        EXPECT_EQ(std::isnan(got[i]), i == static_cast<size_t>(3 * stride * width + 7));
        EXPECT_EQ(std::isinf(got[i]), i == static_cast<size_t>(4 * stride * width + 8));
      }
    }
  }
}

TEST(MaxPool1d, GradientsAreTheSameForAnyNumberOfThreads) {
  for (const auto& [size, stride] : {std::pair<int64_t, int64_t>{3, 3}, {5, 2}, {40, 2}}) {
    const Windows given(size, stride, 0, {300, 7, 500});
    const int64_t width = 700, count = given.windows.offsets.back();
    const Buffer x = testing::random_normal({807, width}, DType::float32),
                 gradient = testing::random_normal({count, width}, DType::float32);
    const Buffer largest = poisoned({count, width}, DType::float32), positions = poisoned({count, width}, DType::int64);
    kernels::cpu::segment_max_pool1d({}, x.view, given.rows.view(), given.windows.view(), size, stride, 0, largest.view,
                                     positions.view);
    std::vector<double> sums = by_loop(given, gradient.view, positions.view, width);  // in float64, in the order of windows
    for (double& sum : sums) sum = static_cast<double>(static_cast<float>(sum));
    testing::expect_same_for_thread_counts([&, size = size, stride = stride] {
      const Buffer result = poisoned({807, width}, DType::float32);
      kernels::cpu::segment_max_pool1d_backward({}, gradient.view, given.windows.view(), positions.view, given.rows.view(), size,
                                                stride, 0, result.view);
      EXPECT_EQ(values(result.view), sums);
      return testing::bytes(result);
    });
  }
}

}  // namespace
}  // namespace deckle
