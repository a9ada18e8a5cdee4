// Softmax and log-sum-exp over the rows of each component, column by column.                            values: [rows, inner]
//
//   segment_softmax            y = exp(x - max) / sum exp(x - max)     three passes over a component's columns, exp once
//   segment_log_softmax        x - max - log sum exp(x - max)          three passes, exp once
//   segment_logsumexp          max + log sum exp(x - max)              two passes
//   segment_softmax_backward   y (g - sum g y)                         two passes
// A block of kColumns columns of an average component stays in L2 between the passes. Sums run in double. Instances: float
// (float32 and the halves), double; exp is vectorised for every instruction set (simd/math_exp.h).
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "deckle/kernels/cpu/segment/softmax.cpp"
#include "deckle/kernels/cpu/simd/targets.h"

#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "deckle/kernels/args/context.h"
#include "deckle/kernels/cpu/segment/tasks.h"
#include "deckle/kernels/cpu/simd/math_exp.h"
#include "deckle/kernels/cpu/simd/rows.h"

HWY_BEFORE_NAMESPACE();
namespace deckle::kernels::cpu::HWY_NAMESPACE {
namespace {

/// y = exp(x - shift), element by element; y may be x.
template <typename T>
void exp_minus(int64_t n, const T* x, const T* shift, T* y) {
  const hn::ScalableTag<T> d;
  map_run(d, n,
          [&](auto part, int64_t i) HWY_ATTR { part.store(exp(d, hn::Sub(part.load(x + i), part.load(shift + i))), y + i); });
}

}  // namespace

void exp_minus_f32(int64_t n, const float* x, const float* shift, float* y) { exp_minus(n, x, shift, y); }
void exp_minus_f64(int64_t n, const double* x, const double* shift, double* y) { exp_minus(n, x, shift, y); }

}  // namespace deckle::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace deckle::kernels::cpu {

HWY_EXPORT(exp_minus_f32);
HWY_EXPORT(exp_minus_f64);

namespace {

template <typename T>
auto exp_minus_function() {
  if constexpr (std::is_same_v<T, float>)
    return DECKLE_SIMD(exp_minus_f32);
  else
    return DECKLE_SIMD(exp_minus_f64);
}

/// The largest value of each column of rows [begin, end); NaN where a column holds one.
template <typename T>
void column_maxima(const View& values, const RaggedView& ragged, int64_t inner, int64_t begin, int64_t end, int64_t first,
                   int64_t columns, T* largest) {
  T buffer[segment::kColumns];
  const auto larger = [](T a, T b) { return b > a || std::isnan(b) ? b : a; };
  const int64_t lanes = segment::lanes(inner, end - begin, columns);
  std::fill_n(largest, lanes, -std::numeric_limits<T>::infinity());
  segment::for_runs(inner, begin, end, columns, [&](int64_t row, int64_t count) {
    const T* const x = segment::read_run(values, ragged, inner, row, first, count, buffer);
    for (int64_t c = 0; c < count; ++c) largest[c] = larger(largest[c], x[c]);
  });
  segment::fold(inner, lanes, largest, larger);
}

double plus(double a, double b) { return a + b; }

/// total: the sums of exp(values - shift) over rows [begin, end), column by column. `keep(row, count, exponentials)` sees each
/// run.
template <typename T, typename Keep>
void exponential_totals(const View& values, const RaggedView& ragged, int64_t inner, int64_t begin, int64_t end, int64_t first,
                        int64_t columns, const T* shift, double* total, Keep&& keep) {
  const auto exp_minus = exp_minus_function<T>();
  T buffer[segment::kColumns], exponential[segment::kColumns];
  const int64_t lanes = segment::lanes(inner, end - begin, columns);
  std::fill_n(total, lanes, 0.0);
  segment::for_runs(inner, begin, end, columns, [&](int64_t row, int64_t count) {
    exp_minus(count, segment::read_run(values, ragged, inner, row, first, count, buffer), shift, exponential);
    for (int64_t c = 0; c < count; ++c) total[c] += static_cast<double>(exponential[c]);
    keep(row, count, exponential);
  });
  segment::fold(inner, lanes, total, plus);
}

constexpr auto kKeepNothing = [](int64_t, int64_t, const auto*) {};

}  // namespace

void segment_softmax(const CpuContext&, const View& values, const RaggedView& ragged, const View& result) {
  const int64_t inner = segment::inner_size(values);
  segment::visit_real(values.dtype, [&]<typename T>(TypeTag<T>) {
    const auto exp_minus = exp_minus_function<T>();
    const bool keeps = result.dtype == dtype_of<T>;  // halves would be rounded twice: their exponentials are found again
    segment::for_components(ragged, inner, [&](int64_t b, int64_t first, int64_t columns) {
      const int64_t begin = ragged.offsets[b], end = ragged.offsets[b + 1];
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
          exp_minus(count, segment::read_run(values, ragged, inner, row, first, count, buffer), largest, exponential);
        for (int64_t c = 0; c < count; ++c) exponential[c] = static_cast<T>(static_cast<double>(e[c]) * total[c]);
        segment::write_run(result, ragged, inner, row, first, count, exponential);
      });
    });
  });
}

void segment_log_softmax(const CpuContext&, const View& values, const RaggedView& ragged, const View& result) {
  const int64_t inner = segment::inner_size(values);
  segment::visit_real(values.dtype, [&]<typename T>(TypeTag<T>) {
    segment::for_components(ragged, inner, [&](int64_t b, int64_t first, int64_t columns) {
      const int64_t begin = ragged.offsets[b], end = ragged.offsets[b + 1];
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
    segment::for_components(ragged, inner, [&](int64_t b, int64_t first, int64_t columns) {
      const int64_t begin = ragged.offsets[b], end = ragged.offsets[b + 1];
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
#endif
