// Softmax and log-sum-exp over the rows of each component, column by column.                            values: [rows, inner]
//
//   segment_softmax            y = exp(x - max) / sum exp(x - max)     three passes over a component's columns, exp once
//   segment_log_softmax        x - max - log sum exp(x - max)          three passes, exp once
//   segment_logsumexp          max + log sum exp(x - max)              two passes
//   segment_softmax_backward   y (g - sum g y)                         two passes
// A block of kColumns columns of an average component stays in L2 between the passes. Sums run in double. A component of one
// column is a row of dense softmax (reduce/softmax.h). Instances: float (float32 and the halves), double.

#include <algorithm>
#include <cmath>

#include "deckle/base/scratch.h"
#include "deckle/kernels/args/context.h"
#include "deckle/kernels/cpu/reduce/softmax.h"
#include "deckle/kernels/cpu/segment/tasks.h"
#include "deckle/kernels/cpu/segment/values.h"
#include "deckle/kernels/cpu/simd/compensated_sum.h"

namespace deckle::kernels::cpu {
namespace {

/// A component of one column as a contiguous row of T: in place, or in a buffer.
template <typename T>
class Run {
 public:
  Run(const View& view, const RaggedView& ragged, int64_t begin, int64_t end)
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

/// The largest value of each column of rows [begin, end); NaN where a column holds one.
template <typename T>
void column_maxima(const View& values, const RaggedView& ragged, int64_t inner, int64_t begin, int64_t end, int64_t first,
                   int64_t columns, T* largest) {
  double maxima[segment::kColumns];
  segment::fold_rows(reduce::maxima().of<T>(), values, ragged, inner, begin, end, first, columns, maxima);
  for (int64_t c = 0; c < columns; ++c) largest[c] = static_cast<T>(maxima[c]);
}

/// Sums of columns over many rows: a few rows in double, then compensated, as accurate as sums of contiguous rows.
class ColumnTotals {
 public:
  explicit ColumnTotals(int64_t columns) : columns_(columns) { std::fill_n(few_, columns, 0.0); }

  /// Where the next row is to be added.
  double* next() {
    if (rows_++ % kFewRows == kFewRows - 1) flush();
    return few_;
  }
  void finish(double* total) {
    flush();
    for (int64_t c = 0; c < columns_; ++c) total[c] = sums_[c].total();
  }

 private:
  static constexpr int64_t kFewRows = 64;

  void flush() {
    for (int64_t c = 0; c < columns_; ++c) sums_[c].add(few_[c]);
    std::fill_n(few_, columns_, 0.0);
  }

  double few_[segment::kColumns];
  CompensatedSum sums_[segment::kColumns];
  int64_t columns_, rows_ = 0;
};

/// total: the sums of exp(values - shift) over rows [begin, end), column by column. `keep(row, exponentials)` sees each row.
template <typename T, typename Keep>
void exponential_totals(const View& values, const RaggedView& ragged, int64_t inner, int64_t begin, int64_t end, int64_t first,
                        int64_t columns, const T* shift, double* total, Keep&& keep) {
  const auto exponentials = reduce::softmax_rows().of<T>().exponentials;
  T buffer[segment::kColumns], exponential[segment::kColumns];
  ColumnTotals totals(columns);
  for (int64_t row = begin; row < end; ++row) {
    const T* const x = segment::read_run(values, ragged, inner, row, first, columns, buffer);
    exponentials(columns, x, shift, exponential, totals.next());
    keep(row, exponential);
  }
  totals.finish(total);
}

constexpr auto kKeepNothing = [](int64_t, const auto*) {};

}  // namespace

void segment_softmax(const Context&, const View& values, const RaggedView& ragged, const View& result) {
  const int64_t inner = segment::inner_size(values);
  segment::visit_real(values.dtype, [&]<typename T>(TypeTag<T>) {
    const auto functions = reduce::softmax_rows().of<T>();
    const bool keeps = result.dtype == dtype_of<T>;  // halves would be rounded twice: their exponentials are recomputed
    segment::for_components(ragged, inner, [&](int64_t b, int64_t first, int64_t columns) {
      const int64_t begin = ragged.offsets[b], end = ragged.offsets[b + 1];
      if (inner == 1) {
        const Run<T> x(values, ragged, begin, end), y(result, ragged, begin, end);
        functions.softmax(1, end - begin, x.fill(), y.at());
        return y.finish();
      }
      T largest[segment::kColumns], buffer[segment::kColumns], exponential[segment::kColumns];
      double total[segment::kColumns];
      column_maxima(values, ragged, inner, begin, end, first, columns, largest);
      exponential_totals(values, ragged, inner, begin, end, first, columns, largest, total, [&](int64_t row, const T* e) {
        if (keeps) segment::write_run(result, ragged, inner, row, first, columns, e);
      });
      for (int64_t c = 0; c < columns; ++c) total[c] = 1 / total[c];
      for (int64_t row = begin; row < end; ++row) {
        const T* e = exponential;
        if (keeps)
          e = segment::read_run(result, ragged, inner, row, first, columns, buffer);
        else
          functions.exponentials(columns, segment::read_run(values, ragged, inner, row, first, columns, buffer), largest,
                                 exponential, nullptr);
        for (int64_t c = 0; c < columns; ++c) exponential[c] = static_cast<T>(static_cast<double>(e[c]) * total[c]);
        segment::write_run(result, ragged, inner, row, first, columns, exponential);
      }
    });
  });
}

void segment_log_softmax(const Context&, const View& values, const RaggedView& ragged, const View& result) {
  const int64_t inner = segment::inner_size(values);
  segment::visit_real(values.dtype, [&]<typename T>(TypeTag<T>) {
    const auto log_softmax = reduce::softmax_rows().of<T>().log_softmax;
    segment::for_components(ragged, inner, [&](int64_t b, int64_t first, int64_t columns) {
      const int64_t begin = ragged.offsets[b], end = ragged.offsets[b + 1];
      if (inner == 1) {
        const Run<T> x(values, ragged, begin, end), y(result, ragged, begin, end);
        log_softmax(1, end - begin, x.fill(), y.at());
        return y.finish();
      }
      T largest[segment::kColumns], buffer[segment::kColumns], rounded[segment::kColumns];
      double total[segment::kColumns];
      column_maxima(values, ragged, inner, begin, end, first, columns, largest);
      exponential_totals(values, ragged, inner, begin, end, first, columns, largest, total, kKeepNothing);
      for (int64_t c = 0; c < columns; ++c) total[c] = std::log(total[c]);
      for (int64_t row = begin; row < end; ++row) {
        const T* const x = segment::read_run(values, ragged, inner, row, first, columns, buffer);
        for (int64_t c = 0; c < columns; ++c)
          rounded[c] = static_cast<T>(static_cast<double>(x[c]) - static_cast<double>(largest[c]) - total[c]);
        segment::write_run(result, ragged, inner, row, first, columns, rounded);
      }
    });
  });
}

void segment_softmax_backward(const Context&, const View& gradient, const View& output, const RaggedView& ragged,
                              const View& result) {
  const int64_t inner = segment::inner_size(gradient);
  segment::visit_real(gradient.dtype, [&]<typename T>(TypeTag<T>) {
    const auto functions = reduce::softmax_rows().of<T>();
    const bool in_place = result.dtype == dtype_of<T>;  // rows of the result are written where they are
    segment::for_components(ragged, inner, [&](int64_t b, int64_t first, int64_t columns) {
      const int64_t begin = ragged.offsets[b], end = ragged.offsets[b + 1];
      if (inner == 1) {
        const Run<T> g(gradient, ragged, begin, end), y(output, ragged, begin, end), x(result, ragged, begin, end);
        functions.softmax_backward(1, end - begin, g.fill(), y.fill(), x.at());
        return x.finish();
      }
      T gradients[segment::kColumns], outputs[segment::kColumns], values[segment::kColumns];
      double total[segment::kColumns];
      ColumnTotals totals(columns);
      for (int64_t row = begin; row < end; ++row) {
        const T* const g = segment::read_run(gradient, ragged, inner, row, first, columns, gradients);
        const T* const y = segment::read_run(output, ragged, inner, row, first, columns, outputs);
        functions.add_products(columns, g, y, totals.next());
      }
      totals.finish(total);
      for (int64_t row = begin; row < end; ++row) {
        const T* const g = segment::read_run(gradient, ragged, inner, row, first, columns, gradients);
        const T* const y = segment::read_run(output, ragged, inner, row, first, columns, outputs);
        T* const x = in_place ? result.ptr<T>() + ragged.row(row) * inner + first : values;
        functions.column_gradients(columns, g, y, total, x);
        if (!in_place) segment::write_run(result, ragged, inner, row, first, columns, values);
      }
    });
  });
}

void segment_logsumexp(const Context&, const View& values, const RaggedView& ragged, const View& result) {
  const int64_t inner = segment::inner_size(values);
  segment::visit_real(values.dtype, [&]<typename T>(TypeTag<T>) {
    const auto logsumexp = reduce::logsumexp_rows().of<T>().logsumexp;
    segment::for_components(ragged, inner, [&](int64_t b, int64_t first, int64_t columns) {
      const int64_t begin = ragged.offsets[b], end = ragged.offsets[b + 1];
      double total[segment::kColumns];
      if (inner == 1) {
        logsumexp(1, end - begin, Run<T>(values, ragged, begin, end).fill(), total);
        return segment::write_row(result, inner, b, first, columns, total);
      }
      T largest[segment::kColumns], shift[segment::kColumns];
      column_maxima(values, ragged, inner, begin, end, first, columns, largest);
      for (int64_t c = 0; c < columns; ++c) shift[c] = std::isinf(largest[c]) ? T{0} : largest[c];  // inf - inf is NaN
      exponential_totals(values, ragged, inner, begin, end, first, columns, shift, total, kKeepNothing);
      for (int64_t c = 0; c < columns; ++c) total[c] = static_cast<double>(shift[c]) + std::log(total[c]);
      segment::write_row(result, inner, b, first, columns, total);
    });
  });
}

}  // namespace deckle::kernels::cpu
