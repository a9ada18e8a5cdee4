#pragma once

#include <functional>
#include <optional>

#include "opgen/analyze/scalars.h"

namespace opgen {

/// Relative difference of two differences of the function beyond which it is not smooth there.
inline constexpr long double kSlopeTolerance = 1e-5L;

struct Slope {
  long double value;
  long double error;  // about
};

/// The slope at 0 of a function whose value there is `middle`; nullopt where it has none. Steps are no multiples of one another,
/// nor of what periods are written with, and small ones serve where the function turns nearby.
std::optional<Slope> slope_by_differences(const std::function<Scalar(long double)>& at, long double middle);
/// The same where the function may have a kink or a jump just there: nullopt unless both sides have one slope.
std::optional<Slope> slope_from_both_sides(const std::function<Scalar(long double)>& at, long double middle);

}  // namespace opgen
