#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include "tests/kernels/cpu/support/buffer.h"

/// Doubles of which squares, sums or both leave the range of double.
namespace deckle::testing {

/// A column of `n` elements of one size, which is drawn: some around a mean beside which their distances are small, some all
/// equal, some with few elements of a size beside many of another.
inline std::vector<double> column_of_any_magnitude(int64_t n) {
  static constexpr std::array<double, 11> kSizes = {1.7e308, 1e308, 1e200, 1.2e154, 1, 1e-140, 1e-155, 1e-200, 1e-300, 1e-320, 0};
  const auto below = [](int64_t end) { return std::uniform_int_distribution<int64_t>(0, end - 1)(engine()); };
  const double size = kSizes[static_cast<size_t>(below(kSizes.size()))],
               other = kSizes[static_cast<size_t>(below(kSizes.size()))];
  const int64_t kind = below(5);
  std::uniform_real_distribution<double> uniform(-1, 1);
  std::vector<double> column(static_cast<size_t>(n));
  for (double& value : column) {
    const double share = uniform(engine());
    value = kind == 0 ? size : kind == 1 ? size * (0.9 + share / 64) : kind == 2 && below(8) == 0 ? other * share : size * share;
  }
  return column;
}

/// The variance, or its root, by its definition in long double, which holds squares of any double.
inline double exact_spread(const std::vector<double>& column, int64_t correction, bool root) {
  long double sum = 0, squares = 0;
  for (const double value : column) sum += value;
  const long double mean = sum / static_cast<long double>(column.size());
  for (const double value : column) squares += (value - mean) * (value - mean);
  if (std::all_of(column.begin(), column.end(), [&](double value) { return value == column[0]; })) squares = 0;
  const auto count = static_cast<long double>(column.size()) - static_cast<long double>(correction);
  const long double variance = squares / std::max(0.0L, count);
  return static_cast<double>(root ? std::sqrt(variance) : variance);
}

/// Rounding errors of the mean are of the size of the largest element.
inline void expect_spread(const View& got, const std::vector<double>& want, const std::vector<std::vector<double>>& columns,
                          bool root) {
  const std::vector<double> have = values(got);
  ASSERT_EQ(have.size(), want.size());
  for (size_t c = 0; c < want.size(); ++c) {
    if (std::isnan(want[c]) ? std::isnan(have[c]) : have[c] == want[c]) continue;
    long double largest = 0;
    for (const double value : columns[c]) largest = std::max(largest, std::abs(static_cast<long double>(value)));
    const long double noise = root ? largest : largest * largest * 1e-14L;
    ASSERT_LE(std::abs(static_cast<long double>(have[c]) - want[c]),
              1e-12L * std::abs(want[c]) + 1e-14L * noise + 2 * std::numeric_limits<double>::denorm_min())
        << "column " << c << " of " << columns[c].size() << " elements up to " << static_cast<double>(largest) << ": got "
        << have[c] << ", want " << want[c];
  }
}

}  // namespace deckle::testing
