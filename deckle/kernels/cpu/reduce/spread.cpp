// Euclidean norm, variance and standard deviation over any dims.                Reads every element once (4 bytes, 2 to 5 FLOPs)
//
// Everything is summed in double, so squares of floats neither overflow nor underflow; where squares of doubles do, the piece is
// summed again in three scales. The variance of a piece of a row, held in L1, takes two passes: mean, then squared deviations;
// pieces are combined by Chan's formula. Columns are processed 32 rows at a time. Instances: float (float32 and the halves),
// double.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "deckle/kernels/cpu/reduce/spread.cpp"
#include "deckle/kernels/cpu/simd/targets.h"

#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "deckle/kernels/args/context.h"
#include "deckle/kernels/cpu/reduce/values.h"

HWY_BEFORE_NAMESPACE();
namespace deckle::kernels::cpu::HWY_NAMESPACE {
namespace {

using reduce::Moments;
using reduce::Squares;

/// Sum of term(x[i]) in sixteen independent accumulators, which compilers vectorise.
template <typename T, typename Term>
HWY_INLINE double sum_of(int64_t n, const T* x, Term term) {
  double sums[16] = {};
  int64_t i = 0;
  for (; i + 16 <= n; i += 16) {
    for (int lane = 0; lane < 16; ++lane) sums[lane] += term(static_cast<double>(x[i + lane]));
  }
  for (int lane = 0; i < n; ++i, ++lane) sums[lane] += term(static_cast<double>(x[i]));
  double total = 0;
  for (const double sum : sums) total += sum;
  return total;
}

// Squares of doubles from 2^-511 to 2^486 are summed as they are, 2^26 of them without overflow.
constexpr double kTiny = 0x1p-511, kHuge = 0x1p486, kTinyScale = 0x1p537, kHugeScale = 0x1p-538;

Squares squares_of(double value) {
  const double size = std::abs(value);
  if (size < kTiny) return {(size * kTinyScale) * (size * kTinyScale), 0, 0};
  if (size > kHuge) return {0, 0, (size * kHugeScale) * (size * kHugeScale)};
  return {0, value * value, 0};  // and NaN
}

Squares plus(Squares a, Squares b) { return {a.tiny + b.tiny, a.usual + b.usual, a.huge + b.huge}; }

/// The squares of n elements, of which the plain sum is `sum`: that, unless some have vanished or overflowed.
template <typename T, typename At>
Squares checked_squares(double sum, int64_t n, const At& at) {
  // Squares of floats are doubles of usual size. A sum this large has lost nothing with what vanished below 2^-1022.
  if (sizeof(T) == 4 || (sum > 0x1p-900 && sum < 0x1p1000) || sum != sum) return {0, sum, 0};
  Squares exact;
  for (int64_t i = 0; i < n; ++i) exact = plus(exact, squares_of(static_cast<double>(at(i))));
  return exact;
}

template <typename T>
Squares row_squares(int64_t n, const T* x) {
  const double sum = sum_of(n, x, [](double value) HWY_ATTR { return value * value; });
  return checked_squares<T>(sum, n, [x](int64_t i) { return x[i]; });
}

template <typename T>
void column_squares(const reduce::Rows<T>& rows, int64_t columns, Squares* results) {
  double sums[reduce::kMostColumns] = {};
  for (int64_t r = 0; r < rows.count; ++r) {
    const T* const row = rows.at(r);
    for (int64_t c = 0; c < columns; ++c) sums[c] += static_cast<double>(row[c]) * static_cast<double>(row[c]);
  }
  for (int64_t c = 0; c < columns; ++c)
    results[c] = plus(results[c], checked_squares<T>(sums[c], rows.count, [&](int64_t r) { return rows.at(r)[c]; }));
}

void roots(int64_t n, const Squares* squares, double, double* values) {
  for (int64_t i = 0; i < n; ++i) {
    const Squares& s = squares[i];
    if (s.huge > 0)
      values[i] = std::sqrt(s.huge + (s.usual * kHugeScale) * kHugeScale) / kHugeScale;
    else
      values[i] = s.tiny > 0 ? std::hypot(std::sqrt(s.tiny) / kTinyScale, std::sqrt(s.usual)) : std::sqrt(s.usual);
  }
}

/// Merges the moments of two sets of elements.
Moments combine(Moments a, Moments b) {
  if (a.count == 0) return b;
  if (b.count == 0) return a;
  const double count = a.count + b.count, difference = b.mean - a.mean;
  return {count, a.mean + difference * (b.count / count),
          a.squares + b.squares + difference * difference * (a.count * b.count / count)};
}

template <typename T>
Moments row_moments(int64_t n, const T* x) {
  const double mean = sum_of(n, x, [](double value) HWY_ATTR { return value; }) / static_cast<double>(n);
  return {static_cast<double>(n), mean, sum_of(n, x, [mean](double value) HWY_ATTR { return (value - mean) * (value - mean); })};
}

/// body(column `column` of each row). Two loops: fused into one, the loops over columns are not vectorised.
template <typename T, typename Body>
HWY_INLINE void each_row(const reduce::Rows<T>& rows, int64_t column, Body body) {
  const T* from = rows.first + column;
  if (rows.order == nullptr) {
    for (int64_t r = 0; r < rows.count; ++r, from += rows.stride) body(from);
  } else {
    for (int64_t r = 0; r < rows.count; ++r) body(from + rows.order[r] * rows.stride);
  }
}

template <typename T>
void column_moments(const reduce::Rows<T>& all, int64_t columns, Moments* results) {
  constexpr int64_t kColumns = 64;
  for (int64_t r = 0; r < all.count; r += reduce::kDeep) {
    const reduce::Rows<T> rows = all.part(r, std::min(reduce::kDeep, all.count - r));
    const auto deep = static_cast<double>(rows.count);
    for (int64_t first = 0; first < columns; first += kColumns) {
      const int64_t wide = std::min(kColumns, columns - first);
      double means[kColumns] = {}, squares[kColumns] = {};
      each_row(rows, first, [&](const T* row) HWY_ATTR {
        for (int64_t c = 0; c < wide; ++c) means[c] += static_cast<double>(row[c]);
      });
      for (int64_t c = 0; c < wide; ++c) means[c] /= deep;
      each_row(rows, first, [&](const T* row) HWY_ATTR {
        for (int64_t c = 0; c < wide; ++c) {
          const double difference = static_cast<double>(row[c]) - means[c];
          squares[c] += difference * difference;
        }
      });
      for (int64_t c = 0; c < wide; ++c) results[first + c] = combine(results[first + c], {deep, means[c], squares[c]});
    }
  }
}

/// NaN if the correction leaves no degrees of freedom and all elements are equal, or there are none.
void variances(int64_t n, const Moments* moments, double correction, double* values) {
  for (int64_t i = 0; i < n; ++i) values[i] = moments[i].squares / std::max(moments[i].count - correction, 0.0);
}

void standard_deviations(int64_t n, const Moments* moments, double correction, double* values) {
  variances(n, moments, correction, values);
  for (int64_t i = 0; i < n; ++i) values[i] = std::sqrt(values[i]);
}

}  // namespace

reduce::SpreadFolds spread_folds() {
  return {{{&row_squares<float>, &column_squares<float>, &plus, &roots, {}},
           {&row_squares<double>, &column_squares<double>, &plus, &roots, {}}},
          {{&row_moments<float>, &column_moments<float>, &combine, &variances, {}},
           {&row_moments<double>, &column_moments<double>, &combine, &variances, {}}},
          {{&row_moments<float>, &column_moments<float>, &combine, &standard_deviations, {}},
           {&row_moments<double>, &column_moments<double>, &combine, &standard_deviations, {}}}};
}

}  // namespace deckle::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace deckle::kernels::cpu {

HWY_EXPORT(spread_folds);

reduce::RealFolds<reduce::Squares> reduce::norms() { return DECKLE_SIMD(spread_folds)().norm; }
reduce::RealFolds<reduce::Moments> reduce::variances() { return DECKLE_SIMD(spread_folds)().variance; }
reduce::RealFolds<reduce::Moments> reduce::standard_deviations() { return DECKLE_SIMD(spread_folds)().standard_deviation; }

using OptionalDims = std::optional<std::span<const int64_t>>;

void euclidean_norm(const Context&, const View& self, OptionalDims dim, bool, const View& result) {
  reduce::fold(reduce::norms(), self, dim.value_or(std::span<const int64_t>()), 0, result);
}

void variance(const Context&, const View& self, OptionalDims dim, int64_t correction, bool, const View& result) {
  reduce::fold(reduce::variances(), self, dim.value_or(std::span<const int64_t>()), static_cast<double>(correction), result);
}

void standard_deviation(const Context&, const View& self, OptionalDims dim, int64_t correction, bool, const View& result) {
  reduce::fold(reduce::standard_deviations(), self, dim.value_or(std::span<const int64_t>()), static_cast<double>(correction),
               result);
}

}  // namespace deckle::kernels::cpu
#endif
