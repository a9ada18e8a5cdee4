#pragma once

#include <cstdint>
#include <tuple>

#include "deckle/base/half.h"
#include "deckle/kernels/cpu/reduce/column_tile.h"
#include "deckle/kernels/cpu/simd/table.h"

namespace deckle::kernels::cpu::reduce {

/// Steps of its derivatives over columns, of elements that are stored as S and computed on as T, each on `rows` rows of n of
/// them. `a` has a number for each column.
template <typename S, typename T>
struct SoftmaxGradients {
  /// products = grad y
  void (*products)(int64_t rows, int64_t n, Columns<const S> grad, Columns<const S> y, Columns<T> products);
  /// x_grad = y (grad - a)
  void (*gradients)(int64_t rows, int64_t n, Columns<const S> grad, Columns<const S> y, const T* a, Columns<S> x_grad);
  /// x_grad = grad - exp(y) a
  void (*log_gradients)(int64_t rows, int64_t n, Columns<const S> grad, Columns<const S> y, const T* a, Columns<S> x_grad);
};

/// One for each type that elements of T are stored as.
template <typename T>
struct StoredTypes {
  using Gradients = std::tuple<SoftmaxGradients<T, T>>;
};
template <>
struct StoredTypes<float> {
  using Gradients =
      std::tuple<SoftmaxGradients<float, float>, SoftmaxGradients<bfloat16, float>, SoftmaxGradients<float16, float>>;
};

/// Steps of softmax over columns, each on `rows` rows of n of them. `a` and `b` have a number for each column.
template <typename T>
struct SoftmaxColumns {
  /// y = exp(x - a); y may be x.
  void (*exponentials)(int64_t rows, int64_t n, Columns<const T> x, const T* a, Columns<T> y);
  /// y = x a
  void (*scale)(int64_t rows, int64_t n, Columns<const T> x, const T* a, Columns<T> y);
  /// y = (x - a) - b
  void (*shift_by)(int64_t rows, int64_t n, Columns<const T> x, const T* a, const T* b, Columns<T> y);
  typename StoredTypes<T>::Gradients gradients;
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
