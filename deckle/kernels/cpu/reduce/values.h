#pragma once

#include <cstdint>
#include <span>

#include "deckle/kernels/args/view.h"

namespace deckle::kernels::cpu::reduce {

/// How an associative reduction folds many elements into one: T is the type of the elements, A that of the partial results
/// (double for floating elements, int64_t for integers).
template <typename T, typename A>
struct Fold {
  A (*row)(int64_t n, const T* x);  // of one contiguous run
  /// results[c] = combine(results[c], column c) over `rows` rows of `columns` elements, row_stride apart.
  void (*columns)(int64_t rows, int64_t row_stride, int64_t columns, const T* x, A* results);
  A (*combine)(A, A);
  A nothing;  // the result of no elements
};

struct Folds {
  Fold<float, double> f32;
  Fold<double, double> f64;
  Fold<int64_t, int64_t> i64;
};

/// Reduces `dims` (none: all) of `self`, of any strides and dtype. `result` is contiguous, one element per row; floating
/// results are multiplied by `scale` before they are rounded. Work is cut by shape: results do not depend on threads.
void fold(const Folds& folds, const View& self, std::span<const int64_t> dims, double scale, const View& result);

}  // namespace deckle::kernels::cpu::reduce
