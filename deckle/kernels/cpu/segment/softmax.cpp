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

#include "deckle/kernels/args/context.h"
#include "deckle/kernels/cpu/reduce/softmax.h"
#include "deckle/kernels/cpu/segment/tasks.h"
#include "deckle/kernels/cpu/segment/values.h"

namespace deckle::kernels::cpu {
namespace {

/// Whether a component of `values` is one contiguous run of T, as a row of a dense tensor is.
template <typename T>
bool is_run(const View& values, const RaggedView& ragged, int64_t inner) {
  return inner == 1 && ragged.order == nullptr && values.dtype == dtype_of<T>;
}

/// The largest value of each column of rows [begin, end), for each lane; NaN where a column holds one.
template <typename T>
void column_maxima(const View& values, const RaggedView& ragged, int64_t inner, int64_t begin, int64_t end, int64_t first,
                   int64_t columns, T* largest) {
  double maxima[segment::kColumns];
  segment::fold_rows(reduce::maxima().of<T>(), values, ragged, inner, begin, end, first, columns, maxima);
  for (int64_t c = 0; c < segment::lanes(inner, end - begin, columns); ++c)
    largest[c] = static_cast<T>(maxima[inner == 1 ? 0 : c]);
}

double plus(double a, double b) { return a + b; }

/// total: the sums of exp(values - shift) over rows [begin, end), column by column. `keep(row, count, exponentials)` sees each
/// run.
template <typename T, typename Keep>
void exponential_totals(const View& values, const RaggedView& ragged, int64_t inner, int64_t begin, int64_t end, int64_t first,
                        int64_t columns, const T* shift, double* total, Keep&& keep) {
  const auto exponentials = reduce::softmax_rows().of<T>().exponentials;
  T buffer[segment::kColumns], exponential[segment::kColumns];
  const int64_t lanes = segment::lanes(inner, end - begin, columns);
  std::fill_n(total, lanes, 0.0);
  segment::for_runs(inner, begin, end, columns, [&](int64_t row, int64_t count) {
    exponentials(count, segment::read_run(values, ragged, inner, row, first, count, buffer), shift, exponential, total);
    keep(row, count, exponential);
  });
  segment::fold(inner, lanes, total, plus);
}

constexpr auto kKeepNothing = [](int64_t, int64_t, const auto*) {};

}  // namespace

void segment_softmax(const CpuContext&, const View& values, const RaggedView& ragged, const View& result) {
  const int64_t inner = segment::inner_size(values);
  segment::visit_real(values.dtype, [&]<typename T>(TypeTag<T>) {
    const auto functions = reduce::softmax_rows().of<T>();
    const bool keeps = result.dtype == dtype_of<T>;  // halves would be rounded twice: their exponentials are found again
    segment::for_components(ragged, inner, [&](int64_t b, int64_t first, int64_t columns) {
      const int64_t begin = ragged.offsets[b], end = ragged.offsets[b + 1];
      if (is_run<T>(values, ragged, inner) && keeps)
        return functions.softmax(1, end - begin, values.ptr<T>() + begin, result.ptr<T>() + begin);
      T largest[segment::kColumns], buffer[segment::kColumns], exponential[segment::kColumns];
      double total[segment::kColumns];
      column_maxima(values, ragged, inner, begin, end, first, columns, largest);
      exponential_totals(values, ragged, inner, begin, end, first, columns, largest, total,
                         [&](int64_t row, int64_t count, const T* run) {
                           if (keeps) segment::write_run(result, ragged, inner, row, first, count, run);
                         });
      for (int64_t c = 0; c < segment::lanes(inner, end - begin, columns); ++c) total[c] = 1 / total[c];
      segment::for_runs(inner, begin, end, columns, [&](int64_t row, int64_t count) {
        const T* e = exponential;
        if (keeps)
          e = segment::read_run(result, ragged, inner, row, first, count, buffer);
        else
          functions.exponentials(count, segment::read_run(values, ragged, inner, row, first, count, buffer), largest, exponential,
                                 nullptr);
        for (int64_t c = 0; c < count; ++c) exponential[c] = static_cast<T>(static_cast<double>(e[c]) * total[c]);
        segment::write_run(result, ragged, inner, row, first, count, exponential);
      });
    });
  });
}

void segment_log_softmax(const CpuContext&, const View& values, const RaggedView& ragged, const View& result) {
  const int64_t inner = segment::inner_size(values);
  segment::visit_real(values.dtype, [&]<typename T>(TypeTag<T>) {
    const bool runs = is_run<T>(values, ragged, inner) && result.dtype == dtype_of<T>;
    const auto log_softmax = reduce::softmax_rows().of<T>().log_softmax;
    segment::for_components(ragged, inner, [&](int64_t b, int64_t first, int64_t columns) {
      const int64_t begin = ragged.offsets[b], end = ragged.offsets[b + 1];
      if (runs) return log_softmax(1, end - begin, values.ptr<T>() + begin, result.ptr<T>() + begin);
      T largest[segment::kColumns], buffer[segment::kColumns], exponential[segment::kColumns];
      double total[segment::kColumns];
      column_maxima(values, ragged, inner, begin, end, first, columns, largest);
      exponential_totals(values, ragged, inner, begin, end, first, columns, largest, total, kKeepNothing);
      for (int64_t c = 0; c < segment::lanes(inner, end - begin, columns); ++c) total[c] = std::log(total[c]);
      segment::for_runs(inner, begin, end, columns, [&](int64_t row, int64_t count) {
        const T* const x = segment::read_run(values, ragged, inner, row, first, count, buffer);
        for (int64_t c = 0; c < count; ++c)
          exponential[c] = static_cast<T>(static_cast<double>(x[c]) - static_cast<double>(largest[c]) - total[c]);
        segment::write_run(result, ragged, inner, row, first, count, exponential);
      });
    });
  });
}

void segment_softmax_backward(const CpuContext&, const View& gradient, const View& output, const RaggedView& ragged,
                              const View& result) {
  const int64_t inner = segment::inner_size(gradient);
  segment::visit_real(gradient.dtype, [&]<typename T>(TypeTag<T>) {
    const bool runs = is_run<T>(gradient, ragged, inner) && is_run<T>(output, ragged, inner) && result.dtype == dtype_of<T>;
    const auto backward = reduce::softmax_rows().of<T>().softmax_backward;
    segment::for_components(ragged, inner, [&](int64_t b, int64_t first, int64_t columns) {
      const int64_t begin = ragged.offsets[b], end = ragged.offsets[b + 1];
      if (runs) return backward(1, end - begin, gradient.ptr<T>() + begin, output.ptr<T>() + begin, result.ptr<T>() + begin);
      T gradients[segment::kColumns], outputs[segment::kColumns], values[segment::kColumns];
      double total[segment::kColumns];
      const int64_t lanes = segment::lanes(inner, end - begin, columns);
      std::fill_n(total, lanes, 0.0);
      segment::for_runs(inner, begin, end, columns, [&](int64_t row, int64_t count) {
        const T* const g = segment::read_run(gradient, ragged, inner, row, first, count, gradients);
        const T* const y = segment::read_run(output, ragged, inner, row, first, count, outputs);
        for (int64_t c = 0; c < count; ++c) total[c] += static_cast<double>(g[c]) * static_cast<double>(y[c]);
      });
      segment::fold(inner, lanes, total, plus);
      segment::for_runs(inner, begin, end, columns, [&](int64_t row, int64_t count) {
        const T* const g = segment::read_run(gradient, ragged, inner, row, first, count, gradients);
        const T* const y = segment::read_run(output, ragged, inner, row, first, count, outputs);
        for (int64_t c = 0; c < count; ++c)
          values[c] = static_cast<T>(static_cast<double>(y[c]) * (static_cast<double>(g[c]) - total[c]));
        segment::write_run(result, ragged, inner, row, first, count, values);
      });
    });
  });
}

void segment_logsumexp(const CpuContext&, const View& values, const RaggedView& ragged, const View& result) {
  const int64_t inner = segment::inner_size(values);
  segment::visit_real(values.dtype, [&]<typename T>(TypeTag<T>) {
    segment::for_components(ragged, inner, [&](int64_t b, int64_t first, int64_t columns) {
      const int64_t begin = ragged.offsets[b], end = ragged.offsets[b + 1];
      T largest[segment::kColumns], shift[segment::kColumns], exponential[segment::kColumns];
      double total[segment::kColumns];
      column_maxima(values, ragged, inner, begin, end, first, columns, largest);
      for (int64_t c = 0; c < segment::lanes(inner, end - begin, columns); ++c)
        shift[c] = std::isinf(largest[c]) ? T{0} : largest[c];  // inf - inf is NaN
      exponential_totals(values, ragged, inner, begin, end, first, columns, shift, total, kKeepNothing);
      for (int64_t c = 0; c < columns; ++c) exponential[c] = static_cast<T>(static_cast<double>(shift[c]) + std::log(total[c]));
      segment::write_row(result, inner, b, first, columns, exponential);
    });
  });
}

}  // namespace deckle::kernels::cpu
