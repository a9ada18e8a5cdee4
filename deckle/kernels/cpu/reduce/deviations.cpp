// Each element less the mean of its row, divided by one number of the row, times another.           Reads and writes once
//
// The gradient of var and std. Floats are summed in double, and their mean is subtracted in two parts; that of doubles is
// rounded, by as much as elements far from 0 differ by, and what it misses, the mean of the differences, is subtracted too; where
// these leave the range, the row times 2^-64 is divided by a divisor times 2^-64. One quotient serves the row, unless it would be
// rounded where the results are not: then every element is divided. Columns that lie side by side stay so, in tiles that stay in
// the second cache. Instances: float (float32 and the halves), double.
//
// Versions, us of one thread, 1024 x 1024, var and std backward (a Zen 4, others at work):
//   by ops     float32 450, 477   bfloat16 708, 748   float16 720, 784   float64 1248, 1741
//   this       float32 155, 157   bfloat16 308, 312   float16 300, 307   float64 435, 401
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "deckle/kernels/cpu/reduce/deviations.cpp"
#include "deckle/kernels/cpu/simd/targets.h"

#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <span>
#include <type_traits>
#include <vector>

#include "deckle/base/scratch.h"
#include "deckle/kernels/args/context.h"
#include "deckle/kernels/cpu/reduce/by_rows.h"
#include "deckle/kernels/cpu/reduce/column_tile.h"
#include "deckle/kernels/cpu/reduce/values.h"
#include "deckle/kernels/cpu/simd/halves.h"
#include "deckle/kernels/cpu/simd/rows.h"
#include "deckle/kernels/cpu/simd/table.h"

#ifndef DECKLE_KERNELS_CPU_REDUCE_DEVIATIONS_ONCE
#define DECKLE_KERNELS_CPU_REDUCE_DEVIATIONS_ONCE
namespace deckle::kernels::cpu {

template <typename T>
struct DeviationRows {
  /// y = (x - mean x) / divisor * factor
  void (*row)(int64_t n, const T* x, T divisor, T factor, T* y);
  /// sums[c] += column c
  void (*sums)(int64_t rows, int64_t n, reduce::Columns<const T> x, double* sums);
  /// y = (x - mean - missed) / divisor * factor, with a number of each for each column, on `rows` rows of n.
  void (*columns)(int64_t rows, int64_t n, reduce::Columns<const T> x, const T* mean, const T* missed, const T* divisor,
                  const T* factor, reduce::Columns<T> y);
};

/// One quotient in the place of both numbers, unless it would be rounded where the results are not.
template <typename T>
void take_quotient(T& divisor, T& factor) {
  constexpr double kLeast = std::is_same_v<T, float> ? 0x1p-100 : 0x1p-900;
  const double quotient = static_cast<double>(factor) / static_cast<double>(divisor), size = std::abs(quotient);
  if (size >= kLeast && size <= 1 / kLeast) divisor = 1, factor = static_cast<T>(quotient);
}

}  // namespace deckle::kernels::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace deckle::kernels::cpu::HWY_NAMESPACE {
namespace {

constexpr double kLess = 0x1p-64;

template <typename T, typename Scale>
HWY_INLINE void scaled_row(int64_t n, const T* x, T mean, T missed, T* y, Scale scale) {
  const hn::ScalableTag<T> d;
  const auto means = hn::Set(d, mean), rest = hn::Set(d, missed);
  map_run(d, n,
          [&](auto part, int64_t i) HWY_ATTR { part.store(scale(hn::Sub(hn::Sub(part.load(x + i), means), rest)), y + i); });
}

/// Of floats in double.
template <typename T>
HWY_INLINE double plain_sum(int64_t n, const T* x) {
  const hn::ScalableTag<double> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d)), whole = n / lanes * lanes;
  double sum = sum_run(d, whole, [&](auto, int64_t i) HWY_ATTR { return load_wide(d, x + i); });
  for (int64_t i = whole; i < n; ++i) sum += static_cast<double>(x[i]);
  return sum;
}

template <typename T>
struct MeanInParts {
  T mean, missed;
};

template <typename T>
HWY_INLINE MeanInParts<T> mean_of_row(int64_t n, const T* x) {
  const auto count = static_cast<double>(n);
  const double exact = plain_sum(n, x) / count;
  const T mean = static_cast<T>(exact);
  if constexpr (std::is_same_v<T, double>) {
    const hn::ScalableTag<T> d;
    const auto means = hn::Set(d, mean);
    return {mean, sum_run(d, n, [&](auto part, int64_t i) HWY_ATTR { return hn::Sub(part.load(x + i), means); }) / count};
  } else {
    return {mean, static_cast<T>(exact - static_cast<double>(mean))};
  }
}

template <typename T>
void deviation_row(int64_t n, const T* x, T divisor, T factor, T* y) {
  const hn::ScalableTag<T> d;
  MeanInParts<T> parts = mean_of_row(n, x);
  if constexpr (std::is_same_v<T, double>) {
    if (!std::isfinite(parts.missed)) {  // a sum or a difference left the range: of smaller elements it does not
      const auto less = hn::Set(d, kLess);
      map_run(d, n, [&](auto part, int64_t i) HWY_ATTR { part.store(hn::Mul(part.load(x + i), less), y + i); });
      x = y, divisor *= kLess, parts = mean_of_row(n, x);
    }
  }
  const auto [mean, missed] = parts;
  take_quotient(divisor, factor);
  const auto divisors = hn::Set(d, divisor), factors = hn::Set(d, factor);
  if (divisor == 1) {
    scaled_row(n, x, mean, missed, y, [&](auto value) HWY_ATTR { return hn::Mul(value, factors); });
  } else {
    scaled_row(n, x, mean, missed, y, [&](auto value) HWY_ATTR { return hn::Mul(hn::Div(value, divisors), factors); });
  }
}

template <typename T>
void sum_columns(int64_t rows, int64_t n, reduce::Columns<const T> x, double* sums) {
  for (int64_t r = 0; r < rows; ++r) {
    const T* const row = x.row(r);
    for (int64_t c = 0; c < n; ++c) sums[c] += static_cast<double>(row[c]);
  }
}

template <typename T>
void deviation_columns(int64_t rows, int64_t n, reduce::Columns<const T> x, const T* mean, const T* missed, const T* divisor,
                       const T* factor, reduce::Columns<T> y) {
  const auto each = [&](auto scale) HWY_ATTR {
    for (int64_t r = 0; r < rows; ++r) {
      const T* const from = x.row(r);
      T* const to = y.row(r);
      map_run(hn::ScalableTag<T>(), n, [&](auto part, int64_t i) HWY_ATTR {
        const auto value = hn::Sub(hn::Sub(part.load(from + i), part.load(mean + i)), part.load(missed + i));
        part.store(hn::Mul(scale(part, value, i), part.load(factor + i)), to + i);
      });
    }
  };
  if (std::all_of(divisor, divisor + n, [](T value) { return value == 1; }))
    each([](auto, auto value, int64_t) HWY_ATTR { return value; });
  else
    each([&](auto part, auto value, int64_t i) HWY_ATTR { return hn::Div(value, part.load(divisor + i)); });
}

template <typename T>
DeviationRows<T> functions() {
  return {&deviation_row<T>, &sum_columns<T>, &deviation_columns<T>};
}

}  // namespace

RealTable<DeviationRows> deviation_table() { return {functions<float>(), functions<double>()}; }

}  // namespace deckle::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace deckle::kernels::cpu {

HWY_EXPORT(deviation_table);

namespace {

constexpr int64_t kMostColumns = 256;  // at a time

/// A tile of n columns of `rows` rows.
template <typename T>
void tile_of_deviations(const DeviationRows<T>& of, int64_t rows, int64_t n, reduce::ColumnTile<T>& x, const T* divisors,
                        const T* factors, reduce::ColumnTile<T>& y) {
  const auto count = static_cast<double>(rows);
  T mean[kMostColumns], missed[kMostColumns], divisor[kMostColumns], factor[kMostColumns];
  double sums[kMostColumns] = {};
  std::vector<int64_t> left_range;
  reduce::for_blocks(rows, [&](int64_t r, int64_t size) { of.sums(size, n, x.rows(r, size), sums); });
  for (int64_t c = 0; c < n; ++c) {
    mean[c] = static_cast<T>(sums[c] / count);
    missed[c] = static_cast<T>(sums[c] / count - static_cast<double>(mean[c]));
  }
  if constexpr (std::is_same_v<T, double>) {
    CompensatedSum rest[kMostColumns];
    std::fill_n(divisor, n, 1.0), std::fill_n(factor, n, 1.0);
    Scratch scratch;
    const reduce::Columns<T> differences = {scratch.take<T>(std::min(rows, reduce::kBlockRows) * n), n};
    reduce::for_blocks(rows, [&](int64_t r, int64_t size) {
      of.columns(size, n, x.rows(r, size), mean, missed, divisor, factor, differences);
      reduce::sums().f64.columns({differences.first, differences.stride, size}, n, rest);
    });
    bool finite = true;
    for (int64_t c = 0; c < n; ++c) {
      missed[c] = rest[c].total() / count;
      finite = finite && std::isfinite(missed[c]);
    }
    if (!finite) {
      T holes[kMostColumns] = {};  // NaN of columns with infinity or NaN
      reduce::for_blocks(rows, [&](int64_t r, int64_t size) {
        const reduce::Columns<const T> from = x.rows(r, size);
        for (int64_t i = 0; i < size; ++i) {
          for (int64_t c = 0; c < n; ++c) holes[c] += from.row(i)[c] - from.row(i)[c];
        }
      });
      for (int64_t c = 0; c < n; ++c) {
        if (!std::isfinite(missed[c]) && holes[c] == 0) left_range.push_back(c);
      }
    }
  }
  // Finite columns that a sum or a difference led out of the range, one after another, as rows: these know what to do.
  std::vector<T> again(left_range.size() * static_cast<size_t>(rows));
  for (size_t k = 0; k < left_range.size(); ++k) {
    const int64_t c = left_range[k];
    T* const column = again.data() + k * static_cast<size_t>(rows);
    reduce::for_blocks(rows, [&](int64_t r, int64_t size) {
      const reduce::Columns<const T> from = x.rows(r, size);
      for (int64_t i = 0; i < size; ++i) column[r + i] = from.row(i)[c];
    });
    of.row(rows, column, divisors == nullptr ? T{1} : divisors[c], factors[c], column);
  }
  for (int64_t c = 0; c < n; ++c) {
    divisor[c] = divisors == nullptr ? 1 : divisors[c], factor[c] = factors[c];
    take_quotient(divisor[c], factor[c]);
  }
  reduce::for_blocks(rows, [&](int64_t r, int64_t size) {
    of.columns(size, n, x.rows(r, size), mean, missed, divisor, factor, y.at(r));
    for (size_t k = 0; k < left_range.size(); ++k) {
      const T* const column = again.data() + k * static_cast<size_t>(rows) + r;
      for (int64_t i = 0; i < size; ++i) y.at(r).row(i)[left_range[k]] = column[i];
    }
    y.written(r, size);
  });
  y.end();
}

/// Those of a view, in `wide` where they are halves.
template <typename T>
const T* numbers(const View& view, std::vector<T>& wide) {
  if (view.dtype == dtype_of<T>) return view.ptr<const T>();
  wide.resize(static_cast<size_t>(view.numel()));
  if (view.dtype == DType::bfloat16)
    simd::widen(view.ptr<const bfloat16>(), wide.data(), view.numel());
  else
    simd::widen(view.ptr<const float16>(), wide.data(), view.numel());
  return wide.data();
}

}  // namespace

void deviations_of_rows(const Context&, const View& self, const View& divisor, const View& factor,
                        std::optional<std::span<const int64_t>> dim, const View& result) {
  const std::span<const int64_t> dims = dim.value_or(std::span<const int64_t>());
  const reduce::Layout from(self, dims), to(result, dims);
  if (self.numel() == 0) return;
  const int64_t length = from.length;
  const RealTable<DeviationRows> table = DECKLE_SIMD(deviation_table)();
  table.visit(self.dtype, [&]<typename T>(TypeTag<T>, const auto& of) {
    std::vector<T> wide_divisors, wide_factors;
    const T* const divisors = divisor.defined ? numbers(divisor, wide_divisors) : nullptr;
    const T* const factors = numbers(factor, wide_factors);
    if (reduce::lies_in_columns(from) && reduce::lies_in_columns(to)) {
      const int64_t fitting = std::clamp<int64_t>(reduce::kTileElements / length / 32 * 32, 32, kMostColumns);
      return reduce::for_column_tiles({&from, &to}, fitting, [&](int64_t width, auto tiles) {
        reduce::ColumnTile<T> x(self, false, length, width), y(result, false, length, width);
        tiles([&](int64_t first, int64_t n) {
          x.begin(reduce::columns_at(from, first), length, n, true);
          y.begin(reduce::columns_at(to, first), length, n, false);
          tile_of_deviations(of, length, n, x, divisors == nullptr ? nullptr : divisors + first, factors + first, y);
        });
      });
    }
    reduce::map_rows<T>(self, from, result, to, [&](int64_t row, const T* x, T* y) {
      of.row(length, x, divisors == nullptr ? T{1} : divisors[row], factors[row], y);
    });
  });
}

}  // namespace deckle::kernels::cpu
#endif
