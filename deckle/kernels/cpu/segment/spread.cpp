// Variance, standard deviation and norm over the rows of each component, column by column.    values: [rows, inner], result: [B, inner]
//
// The variance takes two passes over a component's block of columns, which stays in L2 between them: the mean, then the sum of
// squared differences. Read 4 or 8 bytes per element, two or three operations, all in double: squares of halves do not overflow.
// Instances: float (float32 and the halves), double.

#include <algorithm>
#include <cmath>
#include <limits>

#include "deckle/kernels/args/context.h"
#include "deckle/kernels/cpu/segment/tasks.h"

namespace deckle::kernels::cpu {
namespace {

double plus(double a, double b) { return a + b; }

/// sums[c] = the sum of (x - center[c])^power over column c, power 1 or 2, of a component's rows; kColumns entries each.
template <int kPower, typename T>
void sum_powers(const View& values, int64_t inner, int64_t begin, int64_t end, int64_t first, int64_t columns, const double* center, double* sums) {
  T buffer[segment::kColumns];
  std::fill_n(sums, segment::kColumns, 0.0);
  segment::for_runs(inner, begin, end, columns, [&](int64_t row, int64_t count) {
    const T* const x = segment::read_row(values, inner, row, first, count, buffer);
    for (int64_t c = 0; c < count; ++c) {
      const double difference = static_cast<double>(x[c]) - center[c];
      sums[c] += kPower == 1 ? difference : difference * difference;
    }
  });
  segment::fold(inner, sums, plus);
}

/// finish(sum of squares, rows) for each column; `centered`: of the differences from the mean.
template <typename Finish>
void spread(const View& values, const RaggedView& ragged, bool centered, const View& result, Finish finish) {
  const int64_t inner = segment::inner_size(values);
  segment::visit_real(values.dtype, [&]<typename T>(TypeTag<T>) {
    segment::for_components(ragged, inner, [&](int64_t b, int64_t first, int64_t columns) {
      const int64_t begin = ragged.offsets[b], end = ragged.offsets[b + 1];
      double center[segment::kColumns] = {}, sums[segment::kColumns];
      T rounded[segment::kColumns];
      if (centered) {
        sum_powers<1, T>(values, inner, begin, end, first, columns, center, sums);
        for (int64_t c = 0; c < segment::kColumns; ++c) center[c] = sums[c] / static_cast<double>(end - begin);
      }
      sum_powers<2, T>(values, inner, begin, end, first, columns, center, sums);
      for (int64_t c = 0; c < columns; ++c) rounded[c] = static_cast<T>(finish(sums[c], static_cast<double>(end - begin)));
      segment::write_row(result, inner, b, first, columns, rounded);
    });
  });
}

/// Of no rows NaN, whatever the correction makes of their number.
double variance(double squares, double rows, int64_t correction) {
  return rows == 0 ? std::numeric_limits<double>::quiet_NaN() : squares / (rows - static_cast<double>(correction));
}

}  // namespace

void segment_var(const CpuContext&, const View& values, const RaggedView& ragged, int64_t correction, const View& result) {
  spread(values, ragged, true, result, [=](double squares, double rows) { return variance(squares, rows, correction); });
}

void segment_std(const CpuContext&, const View& values, const RaggedView& ragged, int64_t correction, const View& result) {
  spread(values, ragged, true, result, [=](double squares, double rows) { return std::sqrt(variance(squares, rows, correction)); });
}

void segment_norm(const CpuContext&, const View& values, const RaggedView& ragged, const View& result) {
  spread(values, ragged, false, result, [](double squares, double) { return std::sqrt(squares); });
}

}  // namespace deckle::kernels::cpu
