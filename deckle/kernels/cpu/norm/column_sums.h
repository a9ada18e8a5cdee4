#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "deckle/base/parallel.h"
#include "deckle/kernels/args/view.h"
#include "deckle/kernels/cpu/simd/row_buffer.h"

namespace deckle::kernels::cpu::norm {

/// Rows of the last dim, and how they are cut into parallel ranges: by the shape alone.
struct RowRanges {
  int64_t rows, n, grain;

  explicit RowRanges(const View& view) : n(view.ndim == 0 ? 1 : view.sizes[view.ndim - 1]) {
    rows = n == 0 ? 0 : view.numel() / n;
    grain = std::clamp<int64_t>(32768 / std::max<int64_t>(n, 1), 1, 256);
  }
  int64_t count() const { return (rows + grain - 1) / grain; }
};

/// `kSums` sums over all rows, n columns each: every range of rows adds to its own partial sums, which are added in order.
template <typename T, int kSums>
class ColumnSums {
 public:
  explicit ColumnSums(const RowRanges& ranges) : ranges_(ranges), partial_(static_cast<size_t>(ranges.count() * kSums * ranges.n), T{0}) {}

  /// n running sums of the range that begins at row `begin`.
  T* at(int64_t begin, int sum) { return partial_.data() + (begin / ranges_.grain * kSums + sum) * ranges_.n; }

  void store(int sum, const View& result) const {
    std::vector<double> total(static_cast<size_t>(ranges_.n), 0.0);
    for (int64_t range = 0; range < ranges_.count(); ++range) {
      const T* const part = partial_.data() + (range * kSums + sum) * ranges_.n;
      for (int64_t c = 0; c < ranges_.n; ++c) total[static_cast<size_t>(c)] += static_cast<double>(part[c]);
    }
    if (ranges_.n > 0) simd::store_run(total.data(), ranges_.n, result.data, result.dtype, 1);
  }

 private:
  RowRanges ranges_;
  std::vector<T> partial_;
};

/// A vector of n weights as T, converted once; empty if it was not given.
template <typename T>
std::vector<T> weights(const View& view, int64_t n) {
  std::vector<T> result;
  if (!view.defined || n == 0) return result;
  result.resize(static_cast<size_t>(n));
  simd::load_run(view.data, view.dtype, 1, n, result.data());
  return result;
}

}  // namespace deckle::kernels::cpu::norm
