#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "deckle/base/scratch.h"
#include "deckle/kernels/cpu/reduce/values.h"
#include "deckle/kernels/cpu/simd/scale_exponent.h"

namespace deckle::kernels::cpu::reduce {

/// Folds those of `count` rows of `length` elements again of which `folded` has lost something: of scaled elements, into
/// `values`. read(row, rows, from, n, block) copies elements [from, from + n) of rows [row, row + rows) to a block [rows, n].
template <typename T, typename A, typename Read>
[[gnu::noinline]] void fold_scaled(const Fold<T, A>& op, const A* folded, int64_t count, int64_t length, double parameter,
                                   double* values, const Read& read) {
  constexpr int64_t kTogether = 16;  // rows, of which cache lines are shared where they are columns
  constexpr int64_t kBlock = 1024;   // elements of each
  Scratch scratch;
  T* block = nullptr;
  for (int64_t first = 0, next = 0; first < count; first = next + (next == first)) {
    for (next = first; next < std::min(count, first + kTogether) && op.lost(folded[next]);) ++next;
    const int64_t rows = next - first;
    if (rows == 0) continue;
    if (block == nullptr) block = scratch.take<T>(kTogether * std::min(length, kBlock));
    const auto each_run = [&](auto body) {
      for (int64_t from = 0; from < length; from += kBlock) {
        const int64_t n = std::min(kBlock, length - from);
        read(first, rows, from, n, block);
        for (int64_t r = 0; r < rows; ++r) body(r, n, block + r * n);
      }
    };
    // Bits of absolute values, which NaN has the largest of; whether all elements are one, whose distances to their mean are 0.
    uint64_t largest[kTogether] = {}, first_bits[kTogether], differ[kTogether] = {};
    int64_t runs = 0;
    each_run([&](int64_t r, int64_t n, const T* x) {
      if (runs++ < rows) first_bits[r] = std::bit_cast<uint64_t>(x[0]);
      uint64_t most = largest[r], others = differ[r];
      for (int64_t i = 0; i < n; ++i) {
        most = std::max(most, std::bit_cast<uint64_t>(std::abs(x[i])));
        others |= std::bit_cast<uint64_t>(x[i]) ^ first_bits[r];
      }
      largest[r] = most, differ[r] = others;
    });
    int exponents[kTogether];
    bool any = false;
    for (int64_t r = 0; r < rows; ++r) {
      exponents[r] = scale_exponent<T>(std::bit_cast<T>(largest[r]));
      any = any || exponents[r] != 0;
    }
    if (!any) continue;
    A scaled[kTogether];
    std::fill_n(scaled, rows, op.nothing);
    each_run([&](int64_t r, int64_t n, T* x) {
      const bool one_value = std::is_same_v<A, Moments> && differ[r] == 0;
      const T scale = one_value ? T{0} : std::ldexp(T{1}, exponents[r]);
      for (int64_t i = 0; i < n; ++i) x[i] *= scale;
      scaled[r] = op.combine(scaled[r], op.row(n, x));
    });
    for (int64_t r = 0; r < rows; ++r) {
      if (exponents[r] == 0) continue;
      op.finish(1, scaled + r, parameter, values + first + r);
      values[first + r] = std::ldexp(values[first + r], -op.degree * exponents[r]);
    }
  }
}

/// op.finish, and fold_scaled where it is needed.
template <typename T, typename A, typename Read>
void finish_rows(const Fold<T, A>& op, int64_t count, const A* folded, int64_t length, double parameter, double* values,
                 const Read& read) {
  op.finish(count, folded, parameter, values);
  if constexpr (std::is_same_v<T, double> && (std::is_same_v<A, Moments> || std::is_same_v<A, CompensatedSum>)) {
    if (op.usual != nullptr && !op.usual(count, values)) fold_scaled(op, folded, count, length, parameter, values, read);
  }
}

}  // namespace deckle::kernels::cpu::reduce
