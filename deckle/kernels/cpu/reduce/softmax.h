#pragma once

#include <cstdint>

#include "deckle/kernels/cpu/simd/table.h"

namespace deckle::kernels::cpu::reduce {

/// Softmax and related functions on `rows` contiguous rows of n elements: the primitives shared by dense and ragged softmax.
template <typename T>
struct SoftmaxRows {
  void (*softmax)(int64_t rows, int64_t n, const T* x, T* y);
  void (*log_softmax)(int64_t rows, int64_t n, const T* x, T* y);
  void (*softmax_backward)(int64_t rows, int64_t n, const T* grad, const T* y, T* x_grad);
  void (*log_softmax_backward)(int64_t rows, int64_t n, const T* grad, const T* y, T* x_grad);
  /// Column by column: y = exp(x - shift), totals += y (unless null).
  void (*exponentials)(int64_t n, const T* x, const T* shift, T* y, double* totals);
  /// Column by column: totals += grad y.
  void (*add_products)(int64_t n, const T* grad, const T* y, double* totals);
  /// Column by column: x_grad = y (grad - totals).
  void (*column_gradients)(int64_t n, const T* grad, const T* y, const double* totals, T* x_grad);
};

RealTable<SoftmaxRows> softmax_rows();

template <typename T>
struct LogSumExpRows {
  void (*logsumexp)(int64_t rows, int64_t n, const T* x, double* y);
};

RealTable<LogSumExpRows> logsumexp_rows();

}  // namespace deckle::kernels::cpu::reduce
