#pragma once

#include "deckle/kernels/args/view.h"
#include "deckle/kernels/cpu/reduce/softmax.h"
#include "deckle/kernels/cpu/reduce/values.h"

namespace deckle::kernels::cpu::reduce {

/// Softmax and related functions of columns that lie side by side, be they dense or of the rows of a component.
template <typename T>
class ColumnSoftmax {
 public:
  static constexpr int64_t kMost = 256;  // columns at a time

  /// So many that those of `rows` rows stay in the second cache from pass to pass; else, where they cannot, all.
  static int64_t width(int64_t rows);

  void forward(bool logarithm, int64_t rows, int64_t n, ColumnTile<T>& x, ColumnTile<T>& y) const;
  template <typename S>
  void backward(bool logarithm, int64_t rows, int64_t n, ColumnTile<S>& grad, ColumnTile<S>& y, ColumnTile<S>& x_grad) const;
  void logsumexp(int64_t rows, int64_t n, ColumnTile<T>& x, double* results) const;

 private:
  class Totals;

  void find_maxima(int64_t rows, int64_t n, ColumnTile<T>& x, T* largest) const;

  const SoftmaxColumns<T> step_ = softmax_rows().of<T>().columns;
  const Fold<T, double> largest_ = maxima().of<T>();
  const Fold<T, CompensatedSum> sum_ = sums().of<T>();
};

/// body(TypeTag<S>{}, TypeTag<T>{}): what is read and written, as it is stored if that is one type, and what is computed in. Few
/// columns are widened: those of many rows by one call.
template <typename Body>
void visit_stored(const View& grad, const View& output, const View& self_grad, int64_t columns, Body body) {
  const bool one = grad.dtype == output.dtype && grad.dtype == self_grad.dtype && columns >= kFewestColumns;
  if (grad.dtype == DType::float64) return body(TypeTag<double>{}, TypeTag<double>{});
  if (one && grad.dtype == DType::bfloat16) return body(TypeTag<bfloat16>{}, TypeTag<float>{});
  if (one && grad.dtype == DType::float16) return body(TypeTag<float16>{}, TypeTag<float>{});
  return body(TypeTag<float>{}, TypeTag<float>{});
}

/// Along a dim beside which another is contiguous, column by column; or false: the operands do not lie so.
bool softmax_columns(const View& self, int64_t dim, bool logarithm, const View& result);
bool logsumexp_columns(const View& self, int64_t dim, const View& result);
bool softmax_columns_backward(const View& grad, const View& output, int64_t dim, bool logarithm, const View& self_grad);

}  // namespace deckle::kernels::cpu::reduce
