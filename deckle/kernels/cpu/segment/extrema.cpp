// The largest and smallest value of each column of each component and where they stand; taking and putting values there.
//
// The extrema read 4 bytes per element; segment_take and segment_put touch one element per column of a component. The first of
// equal values counts; a NaN wins. Instances: float (float32 and the halves), double, int64_t (integers, bool).

#include <algorithm>
#include <cstring>
#include <functional>
#include <limits>

#include "deckle/base/check.h"
#include "deckle/kernels/args/context.h"
#include "deckle/kernels/cpu/segment/tasks.h"

namespace deckle::kernels::cpu {
namespace {

/// The largest or the smallest value that elements of `dtype` may have, as T.
template <typename T>
T bound(DType dtype, bool largest) {
  if (is_floating(dtype)) return largest ? std::numeric_limits<T>::infinity() : -std::numeric_limits<T>::infinity();
  return visit(dtype, [&]<typename Element>(TypeTag<Element>) -> T {
    if constexpr (std::is_integral_v<Element>) return static_cast<T>(largest ? std::numeric_limits<Element>::max() : std::numeric_limits<Element>::lowest());
    else return T{0};
  });
}

/// `better(a, b)`: a beats b. A component without rows gives `nothing` and row -1. `values` may be undefined.
template <typename T, typename Better>
void find(const View& self, const RaggedView& ragged, T nothing, Better better, const View* values, const View& rows) {
  const int64_t inner = segment::inner_size(self);
  segment::for_components(ragged, inner, [&](int64_t b, int64_t first, int64_t columns) {
    T best[segment::kColumns], buffer[segment::kColumns];
    int64_t* const where = rows.ptr<int64_t>() + b * inner + first;
    std::fill_n(best, columns, nothing);
    std::fill_n(where, columns, int64_t{-1});
    for (int64_t row = ragged.offsets[b]; row < ragged.offsets[b + 1]; ++row) {
      const T* const x = segment::read_row(self, inner, row, first, columns, buffer);
      for (int64_t c = 0; c < columns; ++c) {
        if (better(x[c], best[c]) || where[c] < 0 || (x[c] != x[c] && best[c] == best[c])) {
          best[c] = x[c];
          where[c] = row;
        }
      }
    }
    if (values != nullptr) segment::write_row(*values, inner, b, first, columns, best);
  });
}

void find_largest(const View& self, const RaggedView& ragged, const View* values, const View& rows) {
  simd::visit_compute(self.dtype, [&]<typename T>(TypeTag<T>) { find(self, ragged, bound<T>(self.dtype, false), std::greater<T>(), values, rows); });
}
void find_smallest(const View& self, const RaggedView& ragged, const View* values, const View& rows) {
  simd::visit_compute(self.dtype, [&]<typename T>(TypeTag<T>) { find(self, ragged, bound<T>(self.dtype, true), std::less<T>(), values, rows); });
}

/// The extreme values alone: no places to keep, so the loop over columns is one the compiler vectorises.
template <typename T, typename Better>
void fold(const View& self, const RaggedView& ragged, T nothing, Better better, const View& result) {
  const int64_t inner = segment::inner_size(self);
  const auto pick = [&](T a, T b) { return better(b, a) || b != b ? b : a; };
  segment::for_components(ragged, inner, [&](int64_t b, int64_t first, int64_t columns) {
    T best[segment::kColumns], buffer[segment::kColumns];
    std::fill_n(best, segment::lanes(inner, columns), nothing);
    segment::for_runs(inner, ragged.offsets[b], ragged.offsets[b + 1], columns, [&](int64_t row, int64_t count) {
      const T* const x = segment::read_row(self, inner, row, first, count, buffer);
      for (int64_t c = 0; c < count; ++c) best[c] = pick(best[c], x[c]);
    });
    segment::fold(inner, best, pick);
    segment::write_row(result, inner, b, first, columns, best);
  });
}

/// -1 stands for no row and is not asked for here.
void check_row(int64_t row, int64_t rows) { check(row >= 0 && row < rows, "row {} is out of range (expected -1..{})", row, rows - 1); }

}  // namespace

void segment_max(const CpuContext&, const View& self, const RaggedView& ragged, const View& values, const View& rows) {
  find_largest(self, ragged, &values, rows);
}
void segment_min(const CpuContext&, const View& self, const RaggedView& ragged, const View& values, const View& rows) {
  find_smallest(self, ragged, &values, rows);
}
void segment_argmax(const CpuContext&, const View& self, const RaggedView& ragged, const View& rows) {
  find_largest(self, ragged, nullptr, rows);
}
void segment_argmin(const CpuContext&, const View& self, const RaggedView& ragged, const View& rows) {
  find_smallest(self, ragged, nullptr, rows);
}

void segment_amax(const CpuContext&, const View& self, const RaggedView& ragged, const View& result) {
  simd::visit_compute(self.dtype, [&]<typename T>(TypeTag<T>) { fold(self, ragged, bound<T>(self.dtype, false), std::greater<T>(), result); });
}
void segment_amin(const CpuContext&, const View& self, const RaggedView& ragged, const View& result) {
  simd::visit_compute(self.dtype, [&]<typename T>(TypeTag<T>) { fold(self, ragged, bound<T>(self.dtype, true), std::less<T>(), result); });
}

void segment_take(const CpuContext&, const View& values, const View& rows, const View& result) {
  const int64_t inner = segment::inner_size(rows), count = rows.numel(), size = item_size(values.dtype);
  const auto* const where = rows.ptr<int64_t>();
  parallel_for(count, segment::kGrain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      char* const to = static_cast<char*>(result.data) + i * size;
      if (where[i] == -1) {
        std::memset(to, 0, static_cast<size_t>(size));
        continue;
      }
      check_row(where[i], values.sizes[0]);
      std::memcpy(to, static_cast<const char*>(values.data) + (where[i] * inner + i % inner) * size, static_cast<size_t>(size));
    }
  });
}

void segment_put(const CpuContext&, const View& gradient, const View& rows, int64_t count_of_rows, const View& result) {
  const int64_t inner = segment::inner_size(rows), count = rows.numel(), size = item_size(gradient.dtype);
  const auto* const where = rows.ptr<int64_t>();
  if (result.data != nullptr) std::memset(result.data, 0, static_cast<size_t>(result.numel() * size));
  parallel_for(count, segment::kGrain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      if (where[i] == -1) continue;
      check_row(where[i], count_of_rows);
      std::memcpy(static_cast<char*>(result.data) + (where[i] * inner + i % inner) * size, static_cast<const char*>(gradient.data) + i * size,
                  static_cast<size_t>(size));
    }
  });
}

}  // namespace deckle::kernels::cpu
