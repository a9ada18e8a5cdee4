// The largest and smallest value of each column of each component, their rows, and gather and scatter of values there.
//
// The extrema read 4 bytes per element; segment_take and segment_put touch one element per column of a component. Ties go to the
// first; NaN wins. Instances: float (float32 and the halves), double, int64_t (integers, bool).

#include <algorithm>
#include <cstring>
#include <limits>

#include "deckle/base/check.h"
#include "deckle/base/range.h"
#include "deckle/kernels/args/context.h"
#include "deckle/kernels/args/item.h"
#include "deckle/kernels/cpu/reduce/arg_columns.h"
#include "deckle/kernels/cpu/reduce/arg_rows.h"
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

/// The extreme value of a component of one column; returns where it is, counted through the components.
template <bool kLargest, typename T>
int64_t find_in_run(const View& self, const RaggedView& ragged, int64_t begin, int64_t end, T& best) {
  constexpr int64_t kRun = 1024;
  T buffer[kRun];
  int64_t where = begin;
  for (int64_t from = begin; from < end; from += kRun) {
    const int64_t n = std::min(kRun, end - from);
    const T* const x = segment::read_run(self, ragged, 1, from, 0, n, buffer);
    int64_t at = 0;
    if (n > 1) reduce::arg_extrema_of_rows(kLargest, 1, n, x, &at);
    if (from == begin || reduce::beats<kLargest>(x[at], best)) best = x[at], where = from + at;
  }
  return where;
}

/// The extreme value of each column of each component and its row. A component without rows gives the limit of its dtype and row
/// -1. `values` may be null.
template <bool kLargest>
void find(const View& self, const RaggedView& ragged, const View* values, const View& rows) {
  const int64_t inner = segment::inner_size(self);
  simd::visit_compute(self.dtype, [&]<typename T>(TypeTag<T>) {
    using Extrema = reduce::ColumnExtrema<kLargest, T>;
    const Extrema extrema;
    const auto find_strip = [&](int64_t b, int64_t first, int64_t n) {
      const int64_t begin = ragged.offsets[b], end = ragged.offsets[b + 1];
      T best[Extrema::kMost];
      int64_t* const where = rows.ptr<int64_t>() + b * inner + first;
      if (begin == end) {
        std::fill_n(best, n, bound<T>(self.dtype, !kLargest));
        std::fill_n(where, n, -1);
      } else if (inner == 1) {
        where[0] = ragged.row(find_in_run<kLargest>(self, ragged, begin, end, best[0]));
      } else {
        extrema.find(self, segment::columns_at(ragged, inner, begin, first), end - begin, n, best, where);
        for (int64_t c = 0; c < n; ++c) where[c] = ragged.row(begin + where[c]);
      }
      if (values != nullptr) segment::write_row(*values, inner, b, first, n, best);
    };
    segment::for_components(ragged, inner, [&](int64_t b, int64_t first, int64_t columns) {
      for (int64_t c = 0; c < columns; c += Extrema::kMost) find_strip(b, first + c, std::min(Extrema::kMost, columns - c));
    });
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
  find<true>(self, ragged, &values, rows);
}
void segment_min(const Context&, const View& self, const RaggedView& ragged, const View& values, const View& rows) {
  find<false>(self, ragged, &values, rows);
}
void segment_argmax(const Context&, const View& self, const RaggedView& ragged, const View& rows) {
  find<true>(self, ragged, nullptr, rows);
}
void segment_argmin(const Context&, const View& self, const RaggedView& ragged, const View& rows) {
  find<false>(self, ragged, nullptr, rows);
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
