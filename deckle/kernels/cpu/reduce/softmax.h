#pragma once

#include <cstdint>

#include "deckle/kernels/cpu/reduce/column_tile.h"
#include "deckle/kernels/cpu/simd/table.h"

namespace deckle::kernels::cpu::reduce {

/// Steps of softmax over columns, each on `rows` rows of n of them. `a` and `b` have a number for each column.
template <typename T>
struct SoftmaxColumns {
  /// y = exp(x - a); y may be x.
  void (*exponentials)(int64_t rows, int64_t n, Columns<const T> x, const T* a, Columns<T> y);
  /// y = x a
  void (*scale)(int64_t rows, int64_t n, Columns<const T> x, const T* a, Columns<T> y);
  /// y = (x - a) - b
  void (*shift_by)(int64_t rows, int64_t n, Columns<const T> x, const T* a, const T* b, Columns<T> y);
  /// products = grad y
  void (*products)(int64_t rows, int64_t n, Columns<const T> grad, Columns<const T> y, Columns<T> products);
  /// x_grad = y (grad - a)
  void (*gradients)(int64_t rows, int64_t n, Columns<const T> grad, Columns<const T> y, const T* a, Columns<T> x_grad);
  /// x_grad = grad - exp(y) a
  void (*log_gradients)(int64_t rows, int64_t n, Columns<const T> grad, Columns<const T> y, const T* a, Columns<T> x_grad);
};

/// Softmax and related functions on `rows` contiguous rows of n elements: the primitives shared by dense and ragged softmax.
template <typename T>
struct SoftmaxRows {
  void (*softmax)(int64_t rows, int64_t n, const T* x, T* y);
  void (*log_softmax)(int64_t rows, int64_t n, const T* x, T* y);
  void (*softmax_backward)(int64_t rows, int64_t n, const T* grad, const T* y, T* x_grad);
  void (*log_softmax_backward)(int64_t rows, int64_t n, const T* grad, const T* y, T* x_grad);
  SoftmaxColumns<T> columns;
};

RealTable<SoftmaxRows> softmax_rows();

template <typename T>
struct LogSumExpRows {
  void (*logsumexp)(int64_t rows, int64_t n, const T* x, double* y);
};

RealTable<LogSumExpRows> logsumexp_rows();

}  // namespace deckle::kernels::cpu::reduce
