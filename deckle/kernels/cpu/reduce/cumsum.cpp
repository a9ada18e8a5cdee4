// Running sums along one dim, from the front or from the back.                  Reads and writes every element once
//
// Every sum carries the rounding errors of those before it in double (running_sums.h) and is rounded once; integers add up in
// int64_t. Long rows are split across threads and read twice: first the sum of each piece, then the running sums. Where the
// dim is not the innermost of contiguous memory, columns go side by side. Instances: float, double, int64_t.
#include <algorithm>
#include <iterator>
#include <numeric>

#include "deckle/base/scratch.h"
#include "deckle/kernels/args/context.h"
#include "deckle/kernels/cpu/reduce/by_rows.h"
#include "deckle/kernels/cpu/reduce/running_sums.h"
#include "deckle/kernels/cpu/reduce/values.h"

namespace deckle::kernels::cpu {
namespace {

template <typename T>
struct Adder {
  using Sum = CompensatedSum;
  const reduce::RunningSums<T> run = reduce::running_sums().of<T>();

  void row(int64_t n, bool reverse, Sum start, const T* x, T* y) const { run.row(n, reverse, start, x, y); }
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
  constexpr int64_t kColumns = 512;
  const reduce::RunningSums<T> run = reduce::running_sums().of<T>();
  const int64_t blocks = (inner + kColumns - 1) / kColumns;
  const int64_t grain = std::max<int64_t>(1, reduce::kRowGrain / (length * std::min(inner, kColumns)));
  parallel_for(outer * blocks, grain, [&](int64_t begin, int64_t end) {
    double sums[kColumns], errors[kColumns];
    for (int64_t task = begin; task < end; ++task) {
      const int64_t first = task % blocks * kColumns, columns = std::min(kColumns, inner - first);
      const int64_t at = task / blocks * length * inner + first;
      std::fill_n(sums, columns, 0.0);
      std::fill_n(errors, columns, 0.0);
      for (int64_t k = 0; k < length; ++k) {
        const int64_t row = at + (reverse ? length - 1 - k : k) * inner;
        run.columns(columns, self + row, sums, errors, result + row);
      }
    }
  });
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
    const Adder<T> adder;
    reduce::by_rows<T>(std::array{&self}, std::array{&result}, dim,
                       [&](int64_t, int64_t rows, int64_t n, const auto& x, const auto& y) {
                         for (int64_t r = 0; r < rows; ++r) adder.row(n, reverse, {}, x[0] + r * n, y[0] + r * n);
                       });
  });
}

}  // namespace deckle::kernels::cpu
