#pragma once

#include <cstdint>

#include "deckle/kernels/cpu/simd/compensated_sum.h"
#include "deckle/kernels/cpu/simd/table.h"

namespace deckle::kernels::cpu::reduce {

/// Element k of row r is first[r * row + k * next], and either step is 1.
template <typename T>
struct RowsOf {
  T* first;
  int64_t row, next;

  RowsOf from(int64_t r) const { return {first + r * row, row, next}; }
};

/// Running sums of T, each a sum of doubles that carries its rounding error from element to element and is rounded once.
template <typename T>
struct RunningSums {
  /// y[i] = start + x[0] + ... + x[i]; `reverse`: start + x[n - 1] + ... + x[i]. y may be x.
  void (*row)(int64_t n, bool reverse, CompensatedSum start, const T* x, T* y);
  /// The same of several rows, from zero on; y is not x. False, and nothing is done, for fewer than a vector has lanes.
  bool (*rows)(int64_t rows, int64_t length, bool reverse, const RowsOf<const T>& x, const RowsOf<T>& y);
  CompensatedSum (*total)(int64_t n, const T* x);
  /// The next row of columns: sums[c] and its error take x[c], y[c] is their value.
  void (*columns)(int64_t columns, const T* x, double* sums, double* errors, T* y);
};

/// For the strongest allowed instruction set.
RealTable<RunningSums> running_sums();

}  // namespace deckle::kernels::cpu::reduce
