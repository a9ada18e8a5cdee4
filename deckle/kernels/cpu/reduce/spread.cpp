// Euclidean norm, variance and standard deviation over any dims.                Reads every element once (4 bytes, 2 to 5 FLOPs)
//
// Everything is summed in double, so squares of floats neither overflow nor underflow; where squares of doubles do, the norm sums
// the piece again in three scales, and moments are taken again of scaled elements (scaled.h). The variance of a piece of a row
// takes two passes: mean, then squared deviations; pieces are merged by Chan's formula, as are 32 rows of columns at a time.
// Moments of rows are sums of runs (simd/rows.h) of double; other sums go by blocks, and those of pieces and of long columns
// carry their rounding errors. Instances: float (float32 and the halves), double. Versions, us, rows of 20 and 100 float
// (a5bd4cfb and its parent in turns, two cores of an Emerald Rapids):
//   sums of moments of their own, of sixteen accumulators   var 286 (5,000 x 20), 97 (2,000 x 100)
//   those of runs                                           var 111, 59
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "deckle/kernels/cpu/reduce/spread.cpp"
#include "deckle/kernels/cpu/simd/targets.h"

#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "deckle/kernels/args/context.h"
#include "deckle/kernels/cpu/reduce/values.h"
#include "deckle/kernels/cpu/simd/rows.h"

HWY_BEFORE_NAMESPACE();
namespace deckle::kernels::cpu::HWY_NAMESPACE {
namespace {

using reduce::Moments;
using reduce::Squares;

constexpr int64_t kBlock = 1024;  // terms of a row, or rows of columns, whose sum joins those of the other blocks

// Squares of doubles from 2^-511 to 2^486 are summed as they are, 2^26 of them without overflow.
constexpr double kTiny = 0x1p-511, kHuge = 0x1p486, kTinyScale = 0x1p537, kHugeScale = 0x1p-538;

Squares squares_of(double value) {
  const double size = std::abs(value);
  if (size < kTiny) return {(size * kTinyScale) * (size * kTinyScale), 0, {}};
  if (size > kHuge) return {0, (size * kHugeScale) * (size * kHugeScale), {}};
  return {0, 0, {value * value, 0}};  // and NaN
}

Squares plus(Squares a, Squares b) {
  a.usual.add(b.usual);
  return {a.tiny + b.tiny, a.huge + b.huge, a.usual};
}

/// The squares of n elements, of which the plain sum is `sum`: that, unless some have vanished or overflowed.
template <typename T, typename At>
Squares checked_squares(double sum, int64_t n, const At& at) {
  // Squares of floats are doubles of usual size. A sum this large has lost nothing with what vanished below 2^-1022.
  if (sizeof(T) == 4 || (sum > 0x1p-900 && sum < 0x1p1000) || sum != sum) return {0, 0, {sum, 0}};
  Squares exact;
  for (int64_t i = 0; i < n; ++i) exact = plus(exact, squares_of(static_cast<double>(at(i))));
  return exact;
}

/// The plain sum of squares in double, by blocks in four chains.
template <typename T>
double plain_squares(int64_t n, const T* x) {
  const hn::ScalableTag<double> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d)), step = 4 * lanes;
  auto total = hn::Zero(d);
  int64_t i = 0;
  const auto add = [&](auto& sum, int64_t at) HWY_ATTR {
    const auto value = load_wide(d, x + at);
    sum = hn::MulAdd(value, value, sum);
  };
  while (i + lanes <= n) {
    auto sum0 = hn::Zero(d), sum1 = sum0, sum2 = sum0, sum3 = sum0;
    const int64_t end = std::min(i + kBlock, n);
    for (; i + step <= end; i += step) add(sum0, i), add(sum1, i + lanes), add(sum2, i + 2 * lanes), add(sum3, i + 3 * lanes);
    for (; i + lanes <= end; i += lanes) add(sum0, i);
    total = hn::Add(total, hn::Add(hn::Add(sum0, sum1), hn::Add(sum2, sum3)));
  }
  double sum = hn::GetLane(hn::SumOfLanes(d, total));
  for (; i < n; ++i) sum += static_cast<double>(x[i]) * static_cast<double>(x[i]);
  return sum;
}

template <typename T>
Squares row_squares(int64_t n, const T* x) {
  return checked_squares<T>(plain_squares(n, x), n, [x](int64_t i) { return x[i]; });
}

/// Squares of bfloat16 are exact in float, unless they overflow or vanish: then they are taken in double.
Squares half_row_squares(int64_t n, const bfloat16* x) {
  const hn::ScalableTag<float> d;
  const double sum = sum_run(d, n, [&](auto part, int64_t i) HWY_ATTR {
    const auto value = part.load(x + i);
    return hn::Mul(value, value);
  });
  if (sum > 0x1p-90 && sum < std::numeric_limits<float>::max()) return {0, 0, {sum, 0}};
  double exact = 0;
  for (int64_t i = 0; i < n; ++i) exact += static_cast<double>(x[i]) * static_cast<double>(x[i]);
  return {0, 0, {exact, 0}};
}

template <typename T>
void column_squares(const reduce::Rows<T>& all, int64_t columns, Squares* results) {
  for (int64_t first = 0; first < all.count; first += kBlock) {
    const reduce::Rows<T> rows = all.part(first, std::min(kBlock, all.count - first));
    double sums[reduce::kMostColumns] = {};
    for (int64_t r = 0; r < rows.count;) {
      double part[reduce::kMostColumns];
      std::fill_n(part, columns, 0.0);
      for (const int64_t end = std::min(r + reduce::kDeep, rows.count); r < end; ++r) {
        const T* const row = rows.at(r);
        for (int64_t c = 0; c < columns; ++c) part[c] += static_cast<double>(row[c]) * static_cast<double>(row[c]);
      }
      for (int64_t c = 0; c < columns; ++c) sums[c] += part[c];
    }
    for (int64_t c = 0; c < columns; ++c)
      results[c] = plus(results[c], checked_squares<T>(sums[c], rows.count, [&](int64_t r) { return rows.at(r)[c]; }));
  }
}

void roots(int64_t n, const Squares* squares, double, double* values) {
  for (int64_t i = 0; i < n; ++i) {
    const Squares& s = squares[i];
    const double usual = s.usual.total();
    if (s.huge > 0)
      values[i] = std::sqrt(s.huge + (usual * kHugeScale) * kHugeScale) / kHugeScale;
    else
      values[i] = s.tiny > 0 ? std::hypot(std::sqrt(s.tiny) / kTinyScale, std::sqrt(usual)) : std::sqrt(usual);
  }
}

/// Merges the moments of two sets of elements: Chan's formula.
Moments merge(Moments a, Moments b) {
  if (a.count == 0) return b;
  if (b.count == 0) return a;
  const double count = a.count + b.count, difference = b.mean - a.mean;
  return {
      count,
      a.mean + difference * (b.count / count),
      {a.squares.sum + b.squares.sum + difference * difference * (a.count * b.count / count), a.squares.error + b.squares.error}};
}

/// The same, with the rounding errors of the sum of squares.
Moments combine(Moments a, Moments b) {
  Moments merged = merge(a, {b.count, b.mean, {}});
  merged.squares = a.squares;
  merged.squares.add(b.squares);
  const double difference = b.mean - a.mean;
  if (merged.count > 0) merged.squares.add(difference * difference * (a.count * b.count / merged.count));
  return merged;
}

template <class D, typename T>
HWY_INLINE hn::Vec<D> load_part(FullPart<D> part, const T* x) {
  return load_wide(part.d, x);
}
template <class D, typename T>
HWY_INLINE hn::Vec<D> load_part(TailPart<D> part, const T* x) {
  if constexpr (std::is_same_v<T, double>) {
    return part.load(x);
  } else {
    const hn::Rebind<float, D> narrow;
    return hn::PromoteTo(part.d, hn::MaskedLoad(hn::FirstN(narrow, part.count), narrow, x));
  }
}

/// Sum of term(x[i]) in double.
template <typename T, typename Term>
HWY_INLINE double wide_sum(int64_t n, const T* x, Term term) {
  return sum_run(hn::ScalableTag<double>(), n, [&](auto part, int64_t i) HWY_ATTR { return term(load_part(part, x + i)); });
}

/// Two passes: the mean, then squared deviations.
template <typename T>
Moments row_moments(int64_t n, const T* x) {
  const auto count = static_cast<double>(n);
  const double mean = wide_sum(n, x, [](auto value) HWY_ATTR { return value; }) / count;
  const auto means = hn::Set(hn::ScalableTag<double>(), mean);
  const double squares = wide_sum(n, x, [means](auto value) HWY_ATTR {
    const auto difference = hn::Sub(value, means);
    return hn::Mul(difference, difference);
  });
  return {count, mean, {squares, 0}};
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

/// results[c] = merge(results[c], column c of all rows).
template <typename T>
void merge_columns(const reduce::Rows<T>& all, int64_t columns, Moments* results) {
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
      for (int64_t c = 0; c < wide; ++c) results[first + c] = merge(results[first + c], {deep, means[c], {squares[c], 0}});
    }
  }
}

template <typename T>
void column_moments(const reduce::Rows<T>& rows, int64_t columns, Moments* results) {
  if (rows.count <= kBlock) return merge_columns(rows, columns, results);
  for (int64_t r = 0; r < rows.count; r += kBlock) {
    Moments block[reduce::kMostColumns];
    merge_columns(rows.part(r, std::min(kBlock, rows.count - r)), columns, block);
    for (int64_t c = 0; c < columns; ++c) results[c] = combine(results[c], block[c]);
  }
}

/// Sums of squares below this may lack some that vanished below 2^-1022.
constexpr double kLeastSquares = 0x1p-900;

bool lost(const Moments& moments) {
  const double squares = moments.squares.total();
  if (squares > kLeastSquares) return !std::isfinite(squares);
  // Elements that lie so close to a mean as large as this one equal each other.
  return !(squares >= 0) || (moments.count > 1 && std::abs(moments.mean) < 0x1p-350);
}

/// Whether all values are those of squares, or of roots of squares, that have neither vanished nor overflowed.
bool usual(int64_t n, const double* values) {
  constexpr double kLeast = 0x1p-450, kMost = std::numeric_limits<double>::max();
  const hn::ScalableTag<double> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto least = hn::Set(d, kLeast), most = hn::Set(d, kMost);
  auto within = hn::Eq(least, least);
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    const auto value = hn::LoadU(d, values + i);
    within = hn::And(within, hn::And(hn::Gt(value, least), hn::Le(value, most)));
  }
  bool all = hn::AllTrue(d, within);
  for (; i < n; ++i) all = all && values[i] > kLeast && values[i] <= kMost;
  return all;
}

/// The variance, or its root. NaN if the correction leaves no degrees of freedom and all elements are equal, or there are none.
template <bool kRoot>
void spreads(int64_t n, const Moments* moments, double correction, double* values) {
  static_assert(sizeof(Moments) == 4 * sizeof(double));
  const hn::ScalableTag<double> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto corrections = hn::Set(d, correction);
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    hn::Vec<decltype(d)> count, mean, sum, error;
    hn::LoadInterleaved4(d, &moments[i].count, count, mean, sum, error);
    const auto variance = hn::Div(hn::Add(sum, error), hn::Max(hn::Sub(count, corrections), hn::Zero(d)));
    hn::StoreU(kRoot ? hn::Sqrt(variance) : variance, d, values + i);
  }
  for (; i < n; ++i) {
    const double variance = moments[i].squares.total() / std::max(moments[i].count - correction, 0.0);
    values[i] = kRoot ? std::sqrt(variance) : variance;
  }
}

}  // namespace

reduce::SpreadFolds spread_folds() {
  return {{{&row_squares<float>,
            &column_squares<float>,
            &plus,
            &roots,
            {},
            {reduce::StoredFold<bfloat16, float, Squares>{&half_row_squares}, {}}},
           {&row_squares<double>, &column_squares<double>, &plus, &roots, {}}},
          {{&row_moments<float>, &column_moments<float>, &combine, &spreads<false>, {}},
           {&row_moments<double>, &column_moments<double>, &combine, &spreads<false>, {}, {}, nullptr, &usual, &lost, 2}},
          {{&row_moments<float>, &column_moments<float>, &combine, &spreads<true>, {}},
           {&row_moments<double>, &column_moments<double>, &combine, &spreads<true>, {}, {}, nullptr, &usual, &lost, 1}}};
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
