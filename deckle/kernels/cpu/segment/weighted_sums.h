#pragma once

#include <algorithm>

#include "deckle/base/scratch.h"
#include "deckle/kernels/cpu/segment/tasks.h"
#include "deckle/kernels/cpu/segment/windows.h"
#include "deckle/kernels/cpu/simd/compensated_sum.h"

namespace deckle::kernels::cpu::segment {

/// Sums of weighted rows that follow one another, in order and in float64, of up to kColumns columns from `first` on. Of many
/// rows, the sums of blocks are added up compensated: it is as accurate of any number.
template <typename T>
class WeightedSums {
 public:
  /// Of up to `most` rows of `values`, written to rows of `result`, which is of the same dtype and has as many columns.
  WeightedSums(const View& values, const View& result, int64_t inner, int64_t first, int64_t columns, int64_t most)
      : values_(values), result_(result), inner_(inner), first_(first), columns_(columns) {
    if (values.dtype != dtype_of<T>) converted_ = scratch_.take<T>((std::min(kBlock, most) + 1) * columns);
  }

  /// Begins a sum whose first row is this one.
  void begin(int64_t row) {
    row_ = row;
    count_ = 0;
    many_ = false;
  }
  /// Adds the next row times its weight.
  void add(double weight) {
    if (count_ == kBlock) add_block();
    weights_[count_++] = weight;
  }
  void write(int64_t row) {
    T* const to = converted_ == nullptr ? result_.ptr<T>() + row * inner_ + first_ : converted_;
    if (!many_ && count_ == 0) {
      std::fill_n(to, columns_, T{0});
    } else if (!many_) {
      const auto rows = block();
      functions_.weighted_sum(rows.first, rows.stride, weights_, count_, columns_, to);
    } else {
      add_block();
      for (int64_t c = 0; c < columns_; ++c) to[c] = static_cast<T>(totals_[c] + errors_[c]);
    }
    if (converted_ != nullptr) write_row(result_, inner_, row, first_, columns_, to);
  }

 private:
  static constexpr int64_t kBlock = 32;  // rows

  reduce::Columns<const T> block() const {
    return read_rows(values_, inner_, row_, count_, first_, columns_, converted_ == nullptr ? nullptr : converted_ + columns_);
  }
  void add_block() {
    double sums[kColumns];
    const auto rows = block();
    functions_.wide_weighted_sum(rows.first, rows.stride, weights_, count_, columns_, sums);
    for (int64_t c = 0; c < columns_; ++c) {
      CompensatedSum total = many_ ? CompensatedSum{totals_[c], errors_[c]} : CompensatedSum();
      total.add(sums[c]);
      totals_[c] = total.sum;
      errors_[c] = total.error;
    }
    many_ = true;
    row_ += count_;
    count_ = 0;
  }

  const WindowRows<T> functions_ = window_rows().of<T>();
  const View &values_, &result_;
  int64_t inner_, first_, columns_;
  int64_t row_ = 0, count_ = 0;  // of the block
  bool many_ = false;            // whether there is a block in totals_
  Scratch scratch_;
  T* converted_ = nullptr;  // a row of the result, and those of a block
  double weights_[kBlock], totals_[kColumns], errors_[kColumns];
};

}  // namespace deckle::kernels::cpu::segment
