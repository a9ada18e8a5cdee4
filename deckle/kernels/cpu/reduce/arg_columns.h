#pragma once

#include <algorithm>
#include <cstdint>

#include "deckle/kernels/args/view.h"
#include "deckle/kernels/cpu/reduce/column_tile.h"

namespace deckle::kernels::cpu::reduce {

/// Whether a later element takes the place of an earlier one.
template <bool kLargest, typename T>
bool beats(T later, T earlier) {
  return earlier == earlier && ((kLargest ? later > earlier : later < earlier) || later != later);
}

/// The extreme element of each of `n` columns of `rows` rows, `stride` elements apart, and the row it is in: the first of equal
/// ones; a NaN wins. At least one row, and so few that T's integers number them.
template <typename T>
using BestOfColumns = void (*)(int64_t rows, int64_t n, const T* x, int64_t stride, T* best, int64_t* places);

/// For the strongest allowed instruction set. T: float (float32 and the halves), double, int64_t (integers, bool).
template <typename T>
BestOfColumns<T> best_of_columns(bool largest);

/// The same of columns that lie side by side in an operand, be they dense or of the rows of a component; of any number of rows.
template <bool kLargest, typename T>
class ColumnExtrema {
 public:
  static constexpr int64_t kMost = 128;  // columns at a time

  void find(const View& self, const ColumnsAt& place, int64_t rows, int64_t n, T* best, int64_t* places) const {
    ColumnTile<T> tile(self, place.order != nullptr, rows, n);
    tile.begin(place, rows, n, true);
    const auto of_block = [&](int64_t r, int64_t count) {
      const Columns<const T> x = tile.rows(r, count);
      T later[kMost];
      int64_t later_places[kMost];
      best_(count, n, x.first, x.stride, r == 0 ? best : later, r == 0 ? places : later_places);
      for (int64_t c = 0; r > 0 && c < n; ++c) {
        if (beats<kLargest>(later[c], best[c])) best[c] = later[c], places[c] = r + later_places[c];
      }
    };
    for_blocks(rows, of_block, tile.rereads_blocks() ? kBlockRows : kRows);
  }

 private:
  static constexpr int64_t kRows = 1024;  // whose columns stay in the second cache

  const BestOfColumns<T> best_ = best_of_columns<T>(kLargest);
};

}  // namespace deckle::kernels::cpu::reduce
