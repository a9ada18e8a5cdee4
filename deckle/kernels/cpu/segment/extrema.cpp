// The largest and smallest value of each column of each component, their rows, and gather and scatter of values there.
//
// The extrema read 4 bytes per element; segment_take and segment_put touch one element per column of a component. Ties go to the
// first; NaN wins. Instances: float (float32 and the halves), double, int64_t (integers, bool).

#include <algorithm>
#include <cstring>
#include <functional>
#include <limits>

#include "deckle/base/check.h"
#include "deckle/base/range.h"
#include "deckle/kernels/args/context.h"
#include "deckle/kernels/args/item.h"
#include "deckle/kernels/cpu/segment/tasks.h"
#include "deckle/kernels/cpu/segment/values.h"

namespace deckle::kernels::cpu {
namespace {

/// The largest or the smallest value representable in `dtype`, as T.
template <typename T>
T bound(DType dtype, bool largest) {
  if (is_floating(dtype)) return largest ? std::numeric_limits<T>::infinity() : -std::numeric_limits<T>::infinity();
  return visit(dtype, [&]<typename Element>(TypeTag<Element>) -> T {
    if constexpr (std::is_integral_v<Element>)
      return static_cast<T>(largest ? std::numeric_limits<Element>::max() : std::numeric_limits<Element>::lowest());
    else
      return T{0};
  });
}

/// The first of the rows that no other beats, or the first NaN; `holds(a, b)`: a stays where it is b's turn, false for NaN. A
/// component without rows gives `nothing` and row -1. `values` may be undefined.
template <typename T, typename Holds>
void find(const View& self, const RaggedView& ragged, T nothing, Holds holds, const View* values, const View& rows) {
  const int64_t inner = segment::inner_size(self);
  segment::for_components(ragged, inner, [&](int64_t b, int64_t first, int64_t columns) {
    T best[segment::kColumns], buffer[segment::kColumns];
    const int64_t begin = ragged.offsets[b], end = ragged.offsets[b + 1];
    int64_t* const where = rows.ptr<int64_t>() + b * inner + first;
    std::fill_n(where, columns, begin < end ? ragged.row(begin) : -1);
    if (begin < end)
      std::copy_n(segment::read_run(self, ragged, inner, begin, first, columns, buffer), columns, best);
    else
      std::fill_n(best, columns, nothing);
    for (int64_t row = begin + 1; row < end; ++row) {
      const T* const x = segment::read_run(self, ragged, inner, row, first, columns, buffer);
      for (int64_t c = 0; c < columns; ++c) {
        if (!holds(best[c], x[c]) && best[c] == best[c]) {
          best[c] = x[c];
          where[c] = ragged.row(row);
        }
      }
    }
    if (values != nullptr) segment::write_row(*values, inner, b, first, columns, best);
  });
}

void find_largest(const View& self, const RaggedView& ragged, const View* values, const View& rows) {
  simd::visit_compute(self.dtype, [&]<typename T>(TypeTag<T>) {
    find(self, ragged, bound<T>(self.dtype, false), std::greater_equal<T>(), values, rows);
  });
}
void find_smallest(const View& self, const RaggedView& ragged, const View* values, const View& rows) {
  simd::visit_compute(self.dtype, [&]<typename T>(TypeTag<T>) {
    find(self, ragged, bound<T>(self.dtype, true), std::less_equal<T>(), values, rows);
  });
}

/// The extreme values alone, by the primitives of dense tensors. An empty component gives the limit of its dtype.
void fold_extrema(reduce::Folds<double> folds, bool largest, const View& self, const RaggedView& ragged, const View& result) {
  folds.i64.nothing = bound<int64_t>(self.dtype, !largest);
  segment::fold(
      folds, self, ragged, [](int64_t) { return 0.0; }, result);
}

/// body(TypeTag, i, place) for each element i of `rows`: place is the position, among `count` rows of as many columns, of row
/// rows[i] in i's column; -1 for no row. T is any type of the dtype's size.
template <typename Body>
void for_places(DType dtype, const View& rows, int64_t count, Body body) {
  const int64_t inner = segment::inner_size(rows);
  const auto* const where = rows.ptr<int64_t>();
  visit_item(dtype, [&](auto type) {
    parallel_for(rows.sizes[0], 1 + segment::kGrain / (inner + 1), [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        for (int64_t c = 0; c < inner; ++c) {
          const int64_t i = row * inner + c, at = where[i];
          if (at < -1 || at >= count) [[unlikely]]
            fail("row {} is out of range (expected {})", at, Range{-1, count - 1});
          body(type, i, at < 0 ? -1 : at * inner + c);
        }
      }
    });
  });
}

}  // namespace

void segment_max(const Context&, const View& self, const RaggedView& ragged, const View& values, const View& rows) {
  find_largest(self, ragged, &values, rows);
}
void segment_min(const Context&, const View& self, const RaggedView& ragged, const View& values, const View& rows) {
  find_smallest(self, ragged, &values, rows);
}
void segment_argmax(const Context&, const View& self, const RaggedView& ragged, const View& rows) {
  find_largest(self, ragged, nullptr, rows);
}
void segment_argmin(const Context&, const View& self, const RaggedView& ragged, const View& rows) {
  find_smallest(self, ragged, nullptr, rows);
}

void segment_amax(const Context&, const View& self, const RaggedView& ragged, const View& result) {
  fold_extrema(reduce::maxima(), true, self, ragged, result);
}
void segment_amin(const Context&, const View& self, const RaggedView& ragged, const View& result) {
  fold_extrema(reduce::minima(), false, self, ragged, result);
}

void segment_take(const Context&, const View& values, const View& rows, const View& result) {
  for_places(values.dtype, rows, values.sizes[0], [&]<typename T>(TypeTag<T>, int64_t i, int64_t place) {
    result.ptr<T>()[i] = place < 0 ? T{0} : values.ptr<T>()[place];
  });
}

void segment_put(const Context&, const View& gradient, const View& rows, int64_t count_of_rows, const View& result) {
  const int64_t bytes = result.numel() * item_size(result.dtype);
  parallel_for(bytes, 8 * segment::kGrain, [&](int64_t begin, int64_t end) {
    std::memset(static_cast<char*>(result.data) + begin, 0, static_cast<size_t>(end - begin));
  });
  for_places(gradient.dtype, rows, count_of_rows, [&]<typename T>(TypeTag<T>, int64_t i, int64_t place) {
    if (place >= 0) result.ptr<T>()[place] = gradient.ptr<T>()[i];
  });
}

}  // namespace deckle::kernels::cpu
