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
  void backward(bool logarithm, int64_t rows, int64_t n, ColumnTile<T>& grad, ColumnTile<T>& y, ColumnTile<T>& x_grad) const;
  void logsumexp(int64_t rows, int64_t n, ColumnTile<T>& x, double* results) const;

 private:
  class Totals;

  void find_maxima(int64_t rows, int64_t n, ColumnTile<T>& x, T* largest) const;

  const SoftmaxColumns<T> step_ = softmax_rows().of<T>().columns;
  const Fold<T, double> largest_ = maxima().of<T>();
  const Fold<T, CompensatedSum> sum_ = sums().of<T>();
};

/// Along a dim beside which another is contiguous, column by column; or false: the operands do not lie so.
bool softmax_columns(const View& self, int64_t dim, bool logarithm, const View& result);
bool logsumexp_columns(const View& self, int64_t dim, const View& result);
bool softmax_columns_backward(const View& grad, const View& output, int64_t dim, bool logarithm, const View& self_grad);

}  // namespace deckle::kernels::cpu::reduce
