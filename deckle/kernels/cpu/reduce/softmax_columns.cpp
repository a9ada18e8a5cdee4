// softmax and log_softmax over columns that lie side by side, and their derivatives; logsumexp of them.   x, y, g: [rows,
// columns]
//
// A tile of columns stays in the second cache from step to step: the largest of each column, exponentials and their sums, the
// result. Sums are those of reduce/sum.cpp. Halves are widened to a tile of float and rounded once, from there; the derivatives
// read and write them as they lie (1024 x 1024 of bfloat16, two cores: 595 us in place of 911). Rows of a component that do not
// lie one after another are copied to a tile too.
// Versions, 1024 x 1024, forward and backward in ratio to PyTorch's time (two cores of an Emerald Rapids, 2026-11-28):
//   gathered as rows (measured at 0da05677)   float32 1.52, 1.51   bfloat16 1.85, 2.11   float64 1.21, 1.26
//   this                                      float32 0.56, 0.49   bfloat16 1.04, 1.19   float64 0.51, 0.45
#include "deckle/kernels/cpu/reduce/softmax_columns.h"

#include <algorithm>
#include <cmath>

#include "deckle/base/scratch.h"
#include "deckle/kernels/cpu/reduce/layout.h"
#include "deckle/kernels/cpu/simd/convert.h"

namespace deckle::kernels::cpu::reduce {
/// Sums of columns.
template <typename T>
class ColumnSoftmax<T>::Totals {
 public:
  Totals(const ColumnSoftmax& softmax, int64_t n)
      : fold_(softmax.sum_), n_(n), sums_(scratch_.take<CompensatedSum>(n)), few_{scratch_.take<T>(kBlockRows * n), n} {
    std::fill_n(sums_, n, CompensatedSum());
  }
  /// A block that nothing else needs.
  Columns<T> few() const { return few_; }
  template <typename S>
  void add(int64_t rows, Columns<S> x) {
    using Stored = std::remove_const_t<S>;
    const Rows<Stored> of = {x.first, x.stride, rows};
    if constexpr (std::is_same_v<Stored, T>)
      fold_.columns(of, n_, sums_);
    else
      std::get<StoredFold<Stored, T, CompensatedSum>>(fold_.narrow).columns(of, n_, sums_);
  }
  double of(int64_t column) const { return sums_[column].total(); }

 private:
  const Fold<T, CompensatedSum>& fold_;
  const int64_t n_;
  Scratch scratch_;
  CompensatedSum* const sums_;
  const Columns<T> few_;
};

template <typename T>
int64_t ColumnSoftmax<T>::width(int64_t rows) {
  constexpr int64_t kNarrow = 32;
  const int64_t fitting = kTileElements / std::max<int64_t>(rows, 1) / kNarrow * kNarrow;
  return fitting == 0 ? kMost : std::min(fitting, kMost);
}

template <typename T>
void ColumnSoftmax<T>::find_maxima(int64_t rows, int64_t n, ColumnTile<T>& x, T* largest) const {
  double maxima[kMost];
  std::fill_n(maxima, n, largest_.nothing);
  for_blocks(rows, [&](int64_t r, int64_t count) {
    const Columns<const T> block = x.rows(r, count);
    largest_.columns({block.first, block.stride, count}, n, maxima);
  });
  for (int64_t c = 0; c < n; ++c) largest[c] = static_cast<T>(maxima[c]);
}

template <typename T>
void ColumnSoftmax<T>::forward(bool logarithm, int64_t rows, int64_t n, ColumnTile<T>& x, ColumnTile<T>& y) const {
  T shift[kMost], second[kMost];
  find_maxima(rows, n, x, shift);
  Totals totals(*this, n);
  const bool kept = !logarithm && !y.rereads_blocks();  // the exponentials, from the sums to the results
  for_blocks(rows, [&](int64_t r, int64_t count) {
    const Columns<T> exponentials = kept ? y.at(r) : totals.few();
    step_.exponentials(count, n, x.rows(r, count), shift, exponentials);
    totals.add(count, exponentials);
  });
  for (int64_t c = 0; c < n; ++c) second[c] = static_cast<T>(logarithm ? std::log(totals.of(c)) : 1 / totals.of(c));
  for_blocks(rows, [&](int64_t r, int64_t count) {
    const Columns<T> to = y.at(r);
    if (logarithm) {
      step_.shift_by(count, n, x.rows(r, count), shift, second, to);
    } else {
      if (!kept) step_.exponentials(count, n, x.rows(r, count), shift, to);
      step_.scale(count, n, {to.first, to.stride}, second, to);
    }
    y.written(r, count);
  });
  y.end();
}

template <typename T>
template <typename S>
void ColumnSoftmax<T>::backward(bool logarithm, int64_t rows, int64_t n, ColumnTile<S>& grad, ColumnTile<S>& y,
                                ColumnTile<S>& x_grad) const {
  const auto& step = std::get<SoftmaxGradients<S, T>>(step_.gradients);
  Totals totals(*this, n);
  for_blocks(rows, [&](int64_t r, int64_t count) {
    if (logarithm) return totals.add(count, grad.rows(r, count));
    step.products(count, n, grad.rows(r, count), y.rows(r, count), totals.few());
    totals.add(count, totals.few());
  });
  T rounded[kMost];
  for (int64_t c = 0; c < n; ++c) rounded[c] = static_cast<T>(totals.of(c));
  const auto gradients = logarithm ? step.log_gradients : step.gradients;
  for_blocks(rows, [&](int64_t r, int64_t count) {
    gradients(count, n, grad.rows(r, count), y.rows(r, count), rounded, x_grad.at(r));
    x_grad.written(r, count);
  });
  x_grad.end();
}

template <typename T>
void ColumnSoftmax<T>::logsumexp(int64_t rows, int64_t n, ColumnTile<T>& x, double* results) const {
  T shift[kMost];
  find_maxima(rows, n, x, shift);
  for (int64_t c = 0; c < n; ++c) shift[c] = std::isinf(shift[c]) ? T{0} : shift[c];  // inf - inf is NaN
  Totals totals(*this, n);
  for_blocks(rows, [&](int64_t r, int64_t count) {
    step_.exponentials(count, n, x.rows(r, count), shift, totals.few());
    totals.add(count, totals.few());
  });
  for (int64_t c = 0; c < n; ++c) results[c] = static_cast<double>(shift[c]) + std::log(totals.of(c));
}

template class ColumnSoftmax<float>;
template class ColumnSoftmax<double>;

#define DECKLE_BACKWARD(T, S) \
  template void ColumnSoftmax<T>::backward(bool, int64_t, int64_t, ColumnTile<S>&, ColumnTile<S>&, ColumnTile<S>&) const;
DECKLE_BACKWARD(float, float)
DECKLE_BACKWARD(float, bfloat16)
DECKLE_BACKWARD(float, float16)
DECKLE_BACKWARD(double, double)
#undef DECKLE_BACKWARD

bool softmax_columns(const View& self, int64_t dim, bool logarithm, const View& result) {
  const Layout from(self, dim), to(result, dim);
  if (!lies_in_columns(from) || !lies_in_columns(to)) return false;
  softmax_rows().visit(self.dtype, [&]<typename T>(TypeTag<T>, const auto&) {
    const ColumnSoftmax<T> columns;
    const int64_t length = from.length;
    for_column_tiles({&from, &to}, columns.width(length), [&](int64_t width, auto tiles) {
      ColumnTile<T> x(self, false, length, width), y(result, false, length, width);
      tiles([&](int64_t first, int64_t n) {
        x.begin(columns_at(from, first), length, n, true);
        y.begin(columns_at(to, first), length, n, false);
        columns.forward(logarithm, length, n, x, y);
      });
    });
  });
  return true;
}

bool logsumexp_columns(const View& self, int64_t dim, const View& result) {
  const Layout from(self, dim);
  if (!lies_in_columns(from)) return false;
  softmax_rows().visit(self.dtype, [&]<typename T>(TypeTag<T>, const auto&) {
    const ColumnSoftmax<T> columns;
    const int64_t length = from.length;
    for_column_tiles({&from}, columns.width(length), [&](int64_t width, auto tiles) {
      ColumnTile<T> x(self, false, length, width);
      tiles([&](int64_t first, int64_t n) {
        double values[ColumnSoftmax<T>::kMost];
        x.begin(columns_at(from, first), length, n, true);
        columns.logsumexp(length, n, x, values);
        simd::store_run(values, n, static_cast<char*>(result.data) + first * item_size(result.dtype), result.dtype, 1);
      });
    });
  });
  return true;
}

bool softmax_columns_backward(const View& grad, const View& output, int64_t dim, bool logarithm, const View& self_grad) {
  const Layout of_grad(grad, dim), of_output(output, dim), to(self_grad, dim);
  if (!lies_in_columns(of_grad) || !lies_in_columns(of_output) || !lies_in_columns(to)) return false;
  visit_stored(grad, output, self_grad, kFewestColumns, [&]<typename S, typename T>(TypeTag<S>, TypeTag<T>) {
    const ColumnSoftmax<T> columns;
    const int64_t length = to.length;
    for_column_tiles({&to, &of_grad, &of_output}, columns.width(length), [&](int64_t width, auto tiles) {
      ColumnTile<S> g(grad, false, length, width), y(output, false, length, width), x_grad(self_grad, false, length, width);
      tiles([&](int64_t first, int64_t n) {
        g.begin(columns_at(of_grad, first), length, n, true);
        y.begin(columns_at(of_output, first), length, n, true);
        x_grad.begin(columns_at(to, first), length, n, false);
        columns.backward(logarithm, length, n, g, y, x_grad);
      });
    });
  });
  return true;
}

}  // namespace deckle::kernels::cpu::reduce
