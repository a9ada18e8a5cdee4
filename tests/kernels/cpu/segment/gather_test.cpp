// Elements by position in their component, and the transpose, against plain loops.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "deckle/kernels/args/context.h"
#include "tests/kernels/cpu/support/buffer.h"
#include "tests/kernels/cpu/support/components.h"
#include "tests/support/expect.h"

namespace deckle::kernels::cpu {
void segment_gather(const Context&, const View& values, const RaggedView& ragged, const View& index,
                    const RaggedView& index_ragged, const View& result);
void segment_scatter_add(const Context&, const View& values, const RaggedView& ragged, const View& index,
                         const RaggedView& index_ragged, const View& source, const View& result);
}  // namespace deckle::kernels::cpu

namespace deckle {
namespace {

using testing::Buffer;
using testing::Components;
using testing::poisoned;
using testing::values;

/// body(component, index row, column, position) for every element of the index.
template <typename Body>
void for_elements(const Components& index_rows, const View& index, int64_t inner, Body body) {
  for (size_t b = 0; b < index_rows.lengths.size(); ++b) {
    for (int64_t row = index_rows.offsets[b]; row < index_rows.offsets[b + 1]; ++row) {
      for (int64_t c = 0; c < inner; ++c) body(b, row, c, index.ptr<int64_t>()[row * inner + c]);
    }
  }
}

/// An index of random positions, and what it indexes.
struct Indexed {
  Components rows{{3, 0, 700, 1}}, index_rows{{5, 0, 300, 0}};
  int64_t width, index_width;
  Buffer index;

  Indexed(int64_t width_, int64_t index_width_)
      : width(width_), index_width(index_width_), index({305, index_width_}, DType::int64) {
    for_elements(index_rows, index.view, index_width, [&](size_t b, int64_t row, int64_t c, int64_t) {
      std::uniform_int_distribution<int64_t> position(0, rows.lengths[b] - 1);
      index.view.ptr<int64_t>()[row * index_width + c] = position(testing::engine());
    });
  }
};

TEST(SegmentGather, TakesAndAddsInTheComponentItself) {
  // Small integers, exact in every dtype.
  for (const DType dtype : {DType::float32, DType::bfloat16, DType::float64, DType::int64, DType::uint8}) {
    for (const auto& [width, index_width] : {std::pair<int64_t, int64_t>{1, 1}, {5, 3}, {300, 300}}) {
      const Indexed given(width, index_width);
      const Buffer x = testing::random_integers({704, width}, dtype, 0, 4),
                   source = testing::random_integers({305, index_width}, dtype, 0, 4);
      const Buffer taken = poisoned({305, index_width}, dtype), added = poisoned({704, width}, dtype);
      kernels::cpu::segment_gather({}, x.view, given.rows.view(), given.index.view, given.index_rows.view(), taken.view);
      kernels::cpu::segment_scatter_add({}, x.view, given.rows.view(), given.index.view, given.index_rows.view(), source.view,
                                        added.view);
      const std::vector<double> data = values(x.view), more = values(source.view);
      std::vector<double> want_taken(more.size()), want_added = data;
      for_elements(given.index_rows, given.index.view, index_width,
                   [&, width = width, index_width = index_width](size_t b, int64_t row, int64_t c, int64_t position) {
                     const auto at = static_cast<size_t>((given.rows.offsets[b] + position) * width + c),
                                from = static_cast<size_t>(row * index_width + c);
                     want_taken[from] = data[at];
                     want_added[at] += more[from];
                   });
      EXPECT_EQ(values(taken.view), want_taken) << name(dtype);
      EXPECT_EQ(values(added.view), want_added) << name(dtype);
    }
  }
}

TEST(SegmentGather, APositionOutsideItsComponentIsAnError) {
  const Components rows({2, 3}), index_rows({1, 1});
  const Buffer x = testing::random_normal({5, 1}, DType::float32), result = poisoned({2, 1}, DType::float32),
               index({2, 1}, DType::int64);
  index.view.ptr<int64_t>()[1] = 2;
  for (const int64_t outside : {-1, 2}) {
    index.view.ptr<int64_t>()[0] = outside;
    const auto gather = [&] {
      kernels::cpu::segment_gather({}, x.view, rows.view(), index.view, index_rows.view(), result.view);
    };
    testing::expect_error(gather, fmt::format("index {} is out of range for component 0 (expected 0..1)", outside));
  }
}

}  // namespace
}  // namespace deckle
