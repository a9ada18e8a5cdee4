#pragma once

#include <cstdint>

#include "deckle/kernels/cpu/simd/table.h"

namespace deckle::kernels::cpu {

/// Sums over rows of a column: its mean less its first element, `origin`, and squared deviations, and, backward, the sums of g
/// and of g (x - mean).
struct ChannelSums {
  const double* origin;
  double *mean, *squares;
  double *gradient = nullptr, *along = nullptr;

  ChannelSums at(int64_t column) const {
    return {origin + column, mean + column, squares + column, gradient == nullptr ? nullptr : gradient + column,
            along == nullptr ? nullptr : along + column};
  }
};

/// Rows of n columns that follow one another; a and others have a number for each column.
template <typename T>
struct ChannelRows {
  /// Merges `rows` rows with what `sums` has of `before` others; g may be null.
  void (*add)(int64_t rows, int64_t n, const T* x, const T* g, int64_t before, const ChannelSums& sums);
  /// y = (x - mean) scale + offset
  void (*normalise)(int64_t rows, int64_t n, const T* x, const T* mean, const T* scale, const T* offset, T* y);
  /// dx = scale (g - (x - mean) slope - offset)
  void (*gradient)(int64_t rows, int64_t n, const T* g, const T* x, const T* mean, const T* slope, const T* offset,
                   const T* scale, T* dx);
};

inline constexpr int64_t kChannelDeep = 32;    // rows of a block
inline constexpr int64_t kChannelStrip = 512;  // columns merged at a time

/// For the strongest allowed instruction set.
RealTable<ChannelRows> channel_rows();

}  // namespace deckle::kernels::cpu
