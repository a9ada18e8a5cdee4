// Variance, standard deviation and norm over the rows of each component, column by column.    values: [rows, inner], result: [B,
// inner]
//
// The variance takes two passes over a component's block of columns, which stays in L2 between them: the mean, then the sum of
// squared differences. Read 4 or 8 bytes per element, two or three operations, all in double: squares of halves do not overflow.
// Instances: float (float32 and the halves), double.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "deckle/kernels/cpu/segment/spread.cpp"
#include "deckle/kernels/cpu/simd/targets.h"

#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "deckle/kernels/args/context.h"
#include "deckle/kernels/cpu/segment/tasks.h"

HWY_BEFORE_NAMESPACE();
namespace deckle::kernels::cpu::HWY_NAMESPACE {
namespace {

/// sums[c] += (x[c] - center[c])^kPower, power 1 or 2.
template <int kPower, typename T>
void add_powers(int64_t count, const T* x, const double* center, double* sums) {
  for (int64_t c = 0; c < count; ++c) {
    const double difference = static_cast<double>(x[c]) - center[c];
    sums[c] += kPower == 1 ? difference : difference * difference;
  }
}

}  // namespace

void add_differences_f32(int64_t count, const float* x, const double* center, double* sums) {
  add_powers<1>(count, x, center, sums);
}
void add_differences_f64(int64_t count, const double* x, const double* center, double* sums) {
  add_powers<1>(count, x, center, sums);
}
void add_squares_f32(int64_t count, const float* x, const double* center, double* sums) { add_powers<2>(count, x, center, sums); }
void add_squares_f64(int64_t count, const double* x, const double* center, double* sums) {
  add_powers<2>(count, x, center, sums);
}

}  // namespace deckle::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace deckle::kernels::cpu {

HWY_EXPORT(add_differences_f32);
HWY_EXPORT(add_differences_f64);
HWY_EXPORT(add_squares_f32);
HWY_EXPORT(add_squares_f64);

namespace {

template <typename T>
auto add_differences() {
  if constexpr (std::is_same_v<T, float>)
    return DECKLE_SIMD(add_differences_f32);
  else
    return DECKLE_SIMD(add_differences_f64);
}
template <typename T>
auto add_squares() {
  if constexpr (std::is_same_v<T, float>)
    return DECKLE_SIMD(add_squares_f32);
  else
    return DECKLE_SIMD(add_squares_f64);
}

/// sums[c] = what `add` adds for column c over a component's rows.
template <typename T, typename Add>
void add_rows(const View& values, const RaggedView& ragged, int64_t inner, int64_t begin, int64_t end, int64_t first,
              int64_t columns, const double* center, double* sums, Add add) {
  T buffer[segment::kColumns];
  const int64_t lanes = segment::lanes(inner, end - begin, columns);
  std::fill_n(sums, lanes, 0.0);
  segment::for_runs(inner, begin, end, columns, [&](int64_t row, int64_t count) {
    add(count, segment::read_run(values, ragged, inner, row, first, count, buffer), center, sums);
  });
  segment::fold(inner, lanes, sums, [](double a, double b) { return a + b; });
}

/// finish(sum of squares, rows) for each column; `centered`: of the differences from the mean.
template <typename Finish>
void spread(const View& values, const RaggedView& ragged, bool centered, const View& result, Finish finish) {
  const int64_t inner = segment::inner_size(values);
  segment::visit_real(values.dtype, [&]<typename T>(TypeTag<T>) {
    segment::for_components(ragged, inner, [&](int64_t b, int64_t first, int64_t columns) {
      const int64_t begin = ragged.offsets[b], end = ragged.offsets[b + 1];
      double center[segment::kColumns], sums[segment::kColumns];
      T rounded[segment::kColumns];
      const int64_t lanes = segment::lanes(inner, end - begin, columns);
      std::fill_n(center, lanes, 0.0);
      if (centered) {
        add_rows<T>(values, ragged, inner, begin, end, first, columns, center, sums, add_differences<T>());
        for (int64_t c = 0; c < lanes; ++c) center[c] = sums[c] / static_cast<double>(end - begin);
      }
      add_rows<T>(values, ragged, inner, begin, end, first, columns, center, sums, add_squares<T>());
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
  spread(values, ragged, true, result,
         [=](double squares, double rows) { return std::sqrt(variance(squares, rows, correction)); });
}

void segment_norm(const CpuContext&, const View& values, const RaggedView& ragged, const View& result) {
  spread(values, ragged, false, result, [](double squares, double) { return std::sqrt(squares); });
}

}  // namespace deckle::kernels::cpu
#endif
