#pragma once

#include <cstdint>
#include <span>

#include "deckle/kernels/args/view.h"

namespace deckle::kernels::cpu::reduce {

/// How an associative reduction folds many elements into one: T is the type of the elements, A that of the partial results
/// (double or Moments for floating elements, int64_t for integers).
template <typename T, typename A>
struct Fold {
  A (*row)(int64_t n, const T* x);  // of one contiguous run
  /// results[c] = combine(results[c], column c) over `rows` rows of `columns` elements, row_stride apart.
  void (*columns)(int64_t rows, int64_t row_stride, int64_t columns, const T* x, A* results);
  A (*combine)(A, A);
  /// Turns n folded rows into values, which are then rounded to the result's dtype; integers stay as they are.
  void (*finish)(int64_t n, const A* folded, double parameter, double* values);
  A nothing;  // the result of no elements
};

/// Of a set of elements: how many, their mean, and the sum of squares of what differs from it.
struct Moments {
  double count = 0, mean = 0, squares = 0;
};

template <typename A>
struct RealFolds {
  Fold<float, A> f32;
  Fold<double, A> f64;
};

struct Folds : RealFolds<double> {
  Fold<int64_t, int64_t> i64;
};

/// A `finish` for sums and extrema: the folded value times the parameter.
void scaled(int64_t n, const double* folded, double scale, double* values);

/// Reduces `dims` (none: all) of `self`, of any strides and dtype (RealFolds: floating). `result` is contiguous, one element per
/// row; `parameter` goes to `finish`. Work is cut by shape: results do not depend on threads.
void fold(const Folds& folds, const View& self, std::span<const int64_t> dims, double parameter, const View& result);
void fold(const RealFolds<double>& folds, const View& self, std::span<const int64_t> dims, double parameter, const View& result);
void fold(const RealFolds<Moments>& folds, const View& self, std::span<const int64_t> dims, double parameter, const View& result);

}  // namespace deckle::kernels::cpu::reduce
