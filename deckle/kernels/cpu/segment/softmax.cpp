// Softmax and log-sum-exp over the rows of each component, column by column.                            values: [rows, inner]
//
//   segment_softmax                y = exp(x - max) / sum exp(x - max)
//   segment_log_softmax            x - max - log sum exp(x - max)
//   segment_logsumexp              max + log sum exp(x - max)
//   segment_softmax_backward       y (g - sum g y)
//   segment_log_softmax_backward   g - exp(y) sum g
// The arithmetic is that of dense columns (reduce/softmax_columns.h), a tile of them at a time. A component of one column is a
// row of dense softmax (reduce/softmax.h). Instances: float (float32 and the halves), double.
// Versions, 128 components of 100 rows in the mean, of 64 columns, us forward and backward (497ff7fa and its parent in turns,
// two cores of an Emerald Rapids):
//   rows of up to 1,024 columns one by one, sums in double     float32 906, 526   bfloat16 2,108, 1,803
//   tiles and steps of dense columns                           float32 346, 419   bfloat16   915, 1,086

#include <algorithm>

#include "deckle/base/scratch.h"
#include "deckle/kernels/args/context.h"
#include "deckle/kernels/cpu/reduce/softmax_columns.h"
#include "deckle/kernels/cpu/segment/tasks.h"

namespace deckle::kernels::cpu {
namespace {

using reduce::ColumnsAt;
using reduce::ColumnSoftmax;
using reduce::ColumnTile;

/// A component of one column as a contiguous row of T: in place, or in a buffer.
template <typename T>
class ContiguousComponent {
 public:
  ContiguousComponent(const View& view, const RaggedView& ragged, int64_t begin, int64_t end)
      : view_(view), ragged_(ragged), begin_(begin), count_(end - begin) {
    if (ragged.order != nullptr || view.dtype != dtype_of<T>) memory_ = scratch_.take<T>(count_);
  }
  T* at() const { return memory_ != nullptr ? memory_ : view_.ptr<T>() + begin_; }
  const T* fill() const { return segment::read_run(view_, ragged_, 1, begin_, 0, count_, memory_); }
  void finish() const {
    if (memory_ != nullptr) segment::write_run(view_, ragged_, 1, begin_, 0, count_, memory_);
  }

 private:
  const View& view_;
  const RaggedView& ragged_;
  int64_t begin_, count_;
  Scratch scratch_;
  T* memory_ = nullptr;
};

/// Where rows are of one element, of_run(component, its first row, behind its last one); else of_columns(component, place, rows,
/// columns) of each tile.
template <typename T, typename OfRun, typename OfColumns>
void for_column_tiles(const View& values, const RaggedView& ragged, OfRun of_run, OfColumns of_columns) {
  const int64_t inner = segment::inner_size(values);
  segment::for_components(ragged, inner, [&](int64_t b, int64_t first, int64_t columns) {
    const int64_t begin = ragged.offsets[b], rows = ragged.offsets[b + 1] - begin;
    if (inner == 1) return of_run(b, begin, begin + rows);
    const int64_t width = std::min(columns, ColumnSoftmax<T>::width(rows)), last = first + columns;
    for (int64_t c = first; c < last; c += width)
      of_columns(b, segment::columns_at(ragged, inner, begin, c), rows, std::min(width, last - c));
  });
}

void forward(bool logarithm, const View& values, const RaggedView& ragged, const View& result) {
  reduce::softmax_rows().visit(values.dtype, [&]<typename T>(TypeTag<T>, const reduce::SoftmaxRows<T>& functions) {
    const auto of_row = logarithm ? functions.log_softmax : functions.softmax;
    const ColumnSoftmax<T> of_columns;
    const bool ordered = ragged.order != nullptr;
    for_column_tiles<T>(
        values, ragged,
        [&](int64_t, int64_t begin, int64_t end) {
          const ContiguousComponent<T> x(values, ragged, begin, end), y(result, ragged, begin, end);
          of_row(1, end - begin, x.fill(), y.at());
          y.finish();
        },
        [&](int64_t, const ColumnsAt& place, int64_t rows, int64_t n) {
          if (rows == 0) return;
          ColumnTile<T> x(values, ordered, rows, n), y(result, ordered, rows, n);
          x.begin(place, rows, n, true);
          y.begin(place, rows, n, false);
          of_columns.forward(logarithm, rows, n, x, y);
        });
  });
}

void backward(bool logarithm, const View& gradient, const View& output, const RaggedView& ragged, const View& result) {
  const int64_t inner = segment::inner_size(gradient);
  reduce::visit_stored(gradient, output, result, inner, [&]<typename S, typename T>(TypeTag<S>, TypeTag<T>) {
    const reduce::SoftmaxRows<T> functions = reduce::softmax_rows().of<T>();
    const auto of_row = logarithm ? functions.log_softmax_backward : functions.softmax_backward;
    const ColumnSoftmax<T> of_columns;
    const bool ordered = ragged.order != nullptr;
    for_column_tiles<T>(
        gradient, ragged,
        [&](int64_t, int64_t begin, int64_t end) {
          const ContiguousComponent<T> g(gradient, ragged, begin, end), y(output, ragged, begin, end),
              x(result, ragged, begin, end);
          of_row(1, end - begin, g.fill(), y.fill(), x.at());
          x.finish();
        },
        [&](int64_t, const ColumnsAt& place, int64_t rows, int64_t n) {
          if (rows == 0) return;
          ColumnTile<S> g(gradient, ordered, rows, n), y(output, ordered, rows, n), x_grad(result, ordered, rows, n);
          g.begin(place, rows, n, true);
          y.begin(place, rows, n, true);
          x_grad.begin(place, rows, n, false);
          of_columns.backward(logarithm, rows, n, g, y, x_grad);
        });
  });
}

}  // namespace

void segment_softmax(const Context&, const View& values, const RaggedView& ragged, const View& result) {
  forward(false, values, ragged, result);
}

void segment_log_softmax(const Context&, const View& values, const RaggedView& ragged, const View& result) {
  forward(true, values, ragged, result);
}

void segment_softmax_backward(const Context&, const View& gradient, const View& output, const RaggedView& ragged,
                              const View& result) {
  backward(false, gradient, output, ragged, result);
}

void segment_log_softmax_backward(const Context&, const View& gradient, const View& output, const RaggedView& ragged,
                                  const View& result) {
  backward(true, gradient, output, ragged, result);
}

void segment_logsumexp(const Context&, const View& values, const RaggedView& ragged, const View& result) {
  const int64_t inner = segment::inner_size(values);
  reduce::logsumexp_rows().visit(values.dtype, [&]<typename T>(TypeTag<T>, const reduce::LogSumExpRows<T>& of_rows) {
    const ColumnSoftmax<T> of_columns;
    for_column_tiles<T>(
        values, ragged,
        [&](int64_t b, int64_t begin, int64_t end) {
          double total = 0;
          of_rows.logsumexp(1, end - begin, ContiguousComponent<T>(values, ragged, begin, end).fill(), &total);
          segment::write_row(result, 1, b, 0, 1, &total);
        },
        [&](int64_t b, const ColumnsAt& place, int64_t rows, int64_t n) {
          ColumnTile<T> x(values, ragged.order != nullptr, rows, n);
          double totals[ColumnSoftmax<T>::kMost];
          x.begin(place, rows, n, true);
          of_columns.logsumexp(rows, n, x, totals);
          segment::write_row(result, inner, b, place.first % inner, n, totals);
        });
  });
}

}  // namespace deckle::kernels::cpu
