#pragma once

#include <cstdint>
#include <type_traits>

#include "deckle/kernels/cpu/simd/compensated_sum.h"

namespace deckle::kernels::cpu::reduce {

/// Running sums of T, each a sum of doubles that carries its rounding error from element to element and is rounded once.
template <typename T>
struct RunningSums {
  /// y[i] = start + x[0] + ... + x[i]; `reverse`: start + x[n - 1] + ... + x[i]. y may be x.
  void (*row)(int64_t n, bool reverse, CompensatedSum start, const T* x, T* y);
  CompensatedSum (*total)(int64_t n, const T* x);
  /// The next row of columns: sums[c] and its error take x[c], y[c] is their value.
  void (*columns)(int64_t columns, const T* x, double* sums, double* errors, T* y);
};

struct RunningSumTable {
  RunningSums<float> f32;
  RunningSums<double> f64;

  template <typename T>
  const RunningSums<T>& of() const {
    if constexpr (std::is_same_v<T, double>)
      return f64;
    else
      return f32;
  }
};

/// For the strongest allowed instruction set.
RunningSumTable running_sums();

}  // namespace deckle::kernels::cpu::reduce
