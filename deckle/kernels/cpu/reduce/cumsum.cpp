// Running sums along one dim, from the front or from the back.                  Reads and writes every element once
//
// Every sum carries the rounding errors of those before it in double (running_sums.h) and is rounded once; integers add up in
// int64_t. Long rows are split across threads and read twice: first the sum of each piece, then the running sums. Where the
// dim is not the innermost of contiguous memory, columns go side by side; so do rows, as many as a vector has lanes, transposed
// in registers: a row alone is a chain of additions, one after the other. Instances: float, double, int64_t.
// Versions, 1024 x 1024 along rows in ratio to PyTorch's time (two cores of an Emerald Rapids, 2026-11-28):
//   a row after the other (measured at 0da05677)    float32 1.87   bfloat16 1.45   float64 1.94
//   64 rows, transposed through a tile in memory    as long as a row after the other
//   rows side by side, transposed in registers      float32 0.63   bfloat16 0.66   float64 0.51
#include <algorithm>
#include <atomic>
#include <iterator>
#include <numeric>

#include "deckle/base/scratch.h"
#include "deckle/kernels/args/context.h"
#include "deckle/kernels/cpu/reduce/by_rows.h"
#include "deckle/kernels/cpu/reduce/column_sums.h"
#include "deckle/kernels/cpu/reduce/running_sums.h"
#include "deckle/kernels/cpu/reduce/values.h"

namespace deckle::kernels::cpu {
namespace {

constexpr int64_t kStrip = 512;     // columns whose sums stay in the first cache
constexpr int64_t kFewestRows = 8;  // as many as a vector has lanes, at most; of fewer columns each is read as a row

template <typename T>
struct Adder {
  using Sum = CompensatedSum;
  const reduce::RunningSums<T> run = reduce::running_sums().of<T>();

  void row(int64_t n, bool reverse, Sum start, const T* x, T* y) const { run.row(n, reverse, start, x, y); }
  void rows(int64_t rows, int64_t n, bool reverse, const T* x, T* y) const {
    if (run.rows(rows, n, reverse, {x, n, 1}, {y, n, 1})) return;
    for (int64_t r = 0; r < rows; ++r) row(n, reverse, {}, x + r * n, y + r * n);
  }
  Sum total(int64_t n, const T* x) const { return run.total(n, x); }
  static Sum combine(Sum a, const Sum& b) {
    a.add(b);
    return a;
  }
};

template <>
struct Adder<int64_t> {
  using Sum = int64_t;

  void row(int64_t n, bool reverse, Sum sum, const int64_t* x, int64_t* y) const {
    for (int64_t k = 0; k < n; ++k) {
      const int64_t i = reverse ? n - 1 - k : k;
      y[i] = sum = reduce::add_modulo(sum, x[i]);
    }
  }
  void rows(int64_t rows, int64_t n, bool reverse, const int64_t* x, int64_t* y) const {
    for (int64_t r = 0; r < rows; ++r) row(n, reverse, 0, x + r * n, y + r * n);
  }
  Sum total(int64_t n, const int64_t* x) const { return std::accumulate(x, x + n, Sum{0}, &reduce::add_modulo); }
  static Sum combine(Sum a, Sum b) { return reduce::add_modulo(a, b); }
};

/// Contiguous rows of `length` elements, split into pieces.
template <typename T>
void cumsum_pieces(const View& self, int64_t rows, int64_t length, bool reverse, const View& result) {
  const Adder<T> adder;
  using Sum = typename Adder<T>::Sum;
  const int64_t pieces = (length + reduce::kPiece - 1) / reduce::kPiece;
  Scratch scratch;
  Sum* const before = scratch.take<Sum>(rows * pieces);  // the sum of each piece, then the exclusive prefix sum
  const auto for_pieces = [&](auto body) {
    parallel_for(rows * pieces, 1, [&](int64_t begin, int64_t end) {
      Scratch own;
      T* const x = own.take<T>(reduce::kPiece);
      for (int64_t item = begin; item < end; ++item) {
        const int64_t from = item % pieces * reduce::kPiece, n = std::min(reduce::kPiece, length - from),
                      at = item / pieces * length + from;
        simd::load_run(static_cast<const char*>(self.data) + at * item_size(self.dtype), self.dtype, 1, n, x);
        body(item, at, n, x);
      }
    });
  };
  for_pieces([&](int64_t item, int64_t, int64_t n, const T* x) { before[item] = adder.total(n, x); });
  for (int64_t row = 0; row < rows; ++row) {
    Sum *const first = before + row * pieces, *const last = first + pieces;
    if (reverse)
      std::exclusive_scan(std::make_reverse_iterator(last), std::make_reverse_iterator(first), std::make_reverse_iterator(last),
                          Sum{}, &Adder<T>::combine);
    else
      std::exclusive_scan(first, last, first, Sum{}, &Adder<T>::combine);
  }
  for_pieces([&](int64_t item, int64_t at, int64_t n, T* x) {
    adder.row(n, reverse, before[item], x, x);
    simd::store_run(x, n, static_cast<char*>(result.data) + at * item_size(result.dtype), result.dtype, 1);
  });
}

/// Contiguous [outer, length, inner]: running sums of `inner` columns at once, cut by outer items and columns.
template <typename T>
void cumsum_columns(const T* self, int64_t outer, int64_t length, int64_t inner, bool reverse, T* result) {
  const int64_t blocks = (inner + kStrip - 1) / kStrip;
  const int64_t grain = std::max<int64_t>(1, reduce::kRowGrain / (length * std::min(inner, kStrip)));
  parallel_for(outer * blocks, grain, [&](int64_t begin, int64_t end) {
    for (int64_t task = begin; task < end; ++task) {
      const int64_t first = task % blocks * kStrip;
      const int64_t at = task / blocks * length * inner + first;
      reduce::ColumnSums<T, kStrip> running(std::min(kStrip, inner - first));
      for (int64_t k = 0; k < length; ++k) {
        const int64_t row = at + (reverse ? length - 1 - k : k) * inner;
        running.add(self + row, result + row);
      }
    }
  });
}

/// Columns that lie side by side in both views, [rows of columns, length], each with one step from element to element.
template <typename T>
void cumsum_strips(const View& self, int64_t from_step, int64_t columns, int64_t length, bool reverse, const View& result,
                   int64_t to_step) {
  const int64_t grain = std::max<int64_t>(1, reduce::kRowGrain / (length * kStrip));
  const bool reads = self.dtype == dtype_of<T>, writes = result.dtype == dtype_of<T>;
  const int64_t from_item = item_size(self.dtype), to_item = item_size(result.dtype);
  parallel_for((columns + kStrip - 1) / kStrip, grain, [&](int64_t begin, int64_t end) {
    T widened[kStrip], sums[kStrip];
    for (int64_t first = begin * kStrip; first < std::min(end * kStrip, columns); first += kStrip) {
      const int64_t wide = std::min(kStrip, columns - first);
      reduce::ColumnSums<T, kStrip> running(wide);
      for (int64_t i = 0; i < length; ++i) {
        const int64_t k = reverse ? length - 1 - i : i;
        char* const from = static_cast<char*>(self.data) + (k * from_step + first) * from_item;
        char* const to = static_cast<char*>(result.data) + (k * to_step + first) * to_item;
        if (!reads) simd::load_run(from, self.dtype, 1, wide, widened);
        running.add(reads ? reinterpret_cast<const T*>(from) : widened, writes ? reinterpret_cast<T*>(to) : sums);
        if (!writes) simd::store_run(sums, wide, to, result.dtype, 1);
      }
    }
  });
}

/// Whether contiguous rows of columns lie one step apart.
bool lie_side_by_side(const reduce::Layout& layout) {
  return layout.kept.count == 1 && layout.reduced.count == 1 && layout.kept.strides[0] == 1 && layout.reduced.strides[0] > 1;
}

/// Rows in place, whether their elements or those of neighbours lie one after another in either view.
template <typename T>
bool cumsum_in_place(const View& self, const reduce::Layout& from, bool reverse, const View& result, const reduce::Layout& to) {
  const auto fits = [](const View& view, const reduce::Layout& layout) {
    return view.dtype == dtype_of<T> && layout.kept.count == 1 && layout.reduced.count == 1 &&
           (layout.kept.strides[0] == 1 || layout.reduced.strides[0] == 1);
  };
  if (from.rows < kFewestRows || !fits(self, from) || !fits(result, to)) return false;
  const auto run = reduce::running_sums().of<T>().rows;
  const reduce::RowsOf<const T> x{self.ptr<const T>(), from.kept.strides[0], from.reduced.strides[0]};
  const reduce::RowsOf<T> y{result.ptr<T>(), to.kept.strides[0], to.reduced.strides[0]};
  const int64_t grain = std::max(reduce::kRowGrain / from.length, kFewestRows) / kFewestRows * kFewestRows;
  const int64_t ranges = from.rows / grain;  // what remains goes with the last one
  std::atomic<bool> done = true;
  parallel_for(std::max<int64_t>(ranges, 1), 1, [&](int64_t begin, int64_t) {
    const int64_t row = begin * grain, rows = begin + 1 < ranges ? grain : from.rows - row;
    if (!run(rows, from.length, reverse, x.from(row), y.from(row))) done.store(false, std::memory_order_relaxed);
  });
  return done;
}

}  // namespace

void cumsum(const Context&, const View& self, int64_t dim, bool reverse, const View& result) {
  constexpr int64_t kFewestColumns = 4;  // of fewer the rows are read one by one
  if (result.numel() == 0) return;
  simd::visit_compute(self.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const reduce::Layout from(self, dim), to(result, dim);
    if (from.length > reduce::kPiece && from.dense_rows() && to.dense_rows())
      return cumsum_pieces<T>(self, from.rows, from.length, reverse, result);
    if constexpr (!std::is_same_v<T, int64_t>) {
      const int64_t inner = self.ndim > 0 ? result.strides[dim] : 1;  // the result is contiguous
      if (inner >= kFewestColumns && self.dtype == dtype_of<T> && self.contiguous() && from.length > 0)
        return cumsum_columns(self.ptr<const T>(), from.rows / inner, from.length, inner, reverse, result.ptr<T>());
    }
    if (from.rows >= kFewestRows && lie_side_by_side(from) && lie_side_by_side(to)) {
      return cumsum_strips<T>(self, from.reduced.strides[0], from.rows, from.length, reverse, result, to.reduced.strides[0]);
    }
    if constexpr (!std::is_same_v<T, int64_t>) {
      if (cumsum_in_place<T>(self, from, reverse, result, to)) return;
    }
    const Adder<T> adder;
    reduce::by_rows<T>(
        std::array{&self}, std::array{&result}, dim,
        [&](int64_t, int64_t rows, int64_t n, const auto& x, const auto& y) { adder.rows(rows, n, reverse, x[0], y[0]); });
  });
}

}  // namespace deckle::kernels::cpu
