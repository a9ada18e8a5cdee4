#include "opgen/analyze/differences.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace opgen {
namespace {

using Real = long double;

std::optional<Slope> slope(const std::function<Scalar(Real)>& at, Real value, Real scale) {
  const auto with_step = [&](Real step) -> Scalar {
    const Scalar a = at(-2 * step), b = at(-step), c = at(step), d = at(2 * step);
    if (!a || !b || !c || !d) return std::nullopt;
    return (*a - 8 * *b + 8 * *c - *d) / (12 * step);
  };
  const Scalar wide = with_step(1.0307e-3L * scale), middle = with_step(2.1713e-4L * scale);
  const Scalar narrow = with_step(3.1871e-5L * scale);
  if (!wide || !middle || !narrow || !std::isfinite(*middle)) return std::nullopt;
  const Real rounding = std::fabs(value) * std::numeric_limits<Real>::epsilon() / (3.1871e-5L * scale);
  const Real error = std::max(std::fabs(*wide - *middle), std::fabs(*narrow - *middle)) + 10 * rounding;
  const bool smooth = error < kSlopeTolerance / 10 * (1 + std::fabs(*middle));
  return smooth ? std::optional(Slope{*middle, error}) : std::nullopt;
}

}  // namespace

std::optional<Slope> slope_from_both_sides(const std::function<Scalar(Real)>& at, Real middle) {
  const auto one_sided = [&](Real step) -> Scalar {
    const Scalar a = at(step), b = at(2 * step), c = at(3 * step);
    if (!a || !b || !c) return std::nullopt;
    return (18 * *a - 9 * *b + 2 * *c - 11 * middle) / (6 * step);
  };
  std::optional<Slope> found = slope_by_differences(at, middle);
  for (const Real step : {2.1713e-4L, -2.1713e-4L, 3.1871e-5L, -3.1871e-5L}) {
    const Scalar side = found ? one_sided(step) : std::nullopt;
    if (!side || !(std::fabs(*side - found->value) <= kSlopeTolerance / 10 * (1 + std::fabs(found->value)))) return std::nullopt;
  }
  return found;
}

std::optional<Slope> slope_by_differences(const std::function<Scalar(Real)>& at, Real middle) {
  const std::optional<Slope> ordinary = slope(at, middle, 1);
  return ordinary ? ordinary : slope(at, middle, 1e-3L);
}

}  // namespace opgen
