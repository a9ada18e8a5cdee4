// Running sums along one dim, from the front or from the back.                  Reads and writes every element once
//
// Partial sums are kept in double (int64_t for integers), so a float result is rounded once. Long rows are split across threads
// and read twice: first the sum of each piece, then the running sums. Instances: float, double, int64_t.
#include <algorithm>
#include <iterator>
#include <memory>
#include <numeric>
#include <vector>

#include "deckle/kernels/args/context.h"
#include "deckle/kernels/cpu/reduce/by_rows.h"

namespace deckle::kernels::cpu {
namespace {

template <typename T>
using Sum = std::conditional_t<std::is_same_v<T, int64_t>, int64_t, double>;

/// Running sums that start from `sum`.
template <typename T>
void cumsum_row(int64_t n, bool reverse, Sum<T> sum, const T* x, T* y) {
  if (reverse) {
    for (int64_t i = n - 1; i >= 0; --i) y[i] = static_cast<T>(sum += static_cast<Sum<T>>(x[i]));
  } else {
    for (int64_t i = 0; i < n; ++i) y[i] = static_cast<T>(sum += static_cast<Sum<T>>(x[i]));
  }
}

/// Contiguous rows of `length` elements, split into pieces.
template <typename T>
void cumsum_pieces(const View& self, int64_t rows, int64_t length, bool reverse, const View& result) {
  const int64_t pieces = (length + reduce::kPiece - 1) / reduce::kPiece;
  std::vector<Sum<T>> before(static_cast<size_t>(rows * pieces));  // the sum of each piece, then the exclusive prefix sum
  const auto for_pieces = [&](auto body) {
    parallel_for(rows * pieces, 1, [&](int64_t begin, int64_t end) {
      const auto x = std::make_unique_for_overwrite<T[]>(static_cast<size_t>(reduce::kPiece));
      for (int64_t item = begin; item < end; ++item) {
        const int64_t from = item % pieces * reduce::kPiece, n = std::min(reduce::kPiece, length - from),
                      at = item / pieces * length + from;
        simd::load_run(static_cast<const char*>(self.data) + at * item_size(self.dtype), self.dtype, 1, n, x.get());
        body(item, at, n, x.get());
      }
    });
  };
  for_pieces([&](int64_t item, int64_t, int64_t n, const T* x) {
    Sum<T> sum = 0;
    for (int64_t i = 0; i < n; ++i) sum += static_cast<Sum<T>>(x[i]);
    before[static_cast<size_t>(item)] = sum;
  });
  for (int64_t row = 0; row < rows; ++row) {
    const auto first = before.begin() + row * pieces, last = first + pieces;
    if (reverse)
      std::exclusive_scan(std::make_reverse_iterator(last), std::make_reverse_iterator(first), std::make_reverse_iterator(last),
                          Sum<T>(0));
    else
      std::exclusive_scan(first, last, first, Sum<T>(0));
  }
  for_pieces([&](int64_t item, int64_t at, int64_t n, T* x) {
    cumsum_row(n, reverse, before[static_cast<size_t>(item)], x, x);
    simd::store_run(x, n, static_cast<char*>(result.data) + at * item_size(result.dtype), result.dtype, 1);
  });
}

}  // namespace

void cumsum(const Context&, const View& self, int64_t dim, bool reverse, const View& result) {
  simd::visit_compute(self.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const reduce::Layout from(self, dim), to(result, dim);
    if (from.length > reduce::kPiece && from.dense_rows() && to.dense_rows())
      return cumsum_pieces<T>(self, from.rows, from.length, reverse, result);
    reduce::by_rows<T>(std::array{&self}, std::array{&result}, dim,
                       [&](int64_t, int64_t rows, int64_t n, const auto& x, const auto& y) {
                         for (int64_t r = 0; r < rows; ++r) cumsum_row(n, reverse, Sum<T>(0), x[0] + r * n, y[0] + r * n);
                       });
  });
}

}  // namespace deckle::kernels::cpu
