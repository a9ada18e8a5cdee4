#pragma once

#include <string>
#include <vector>

#include "tests/ops/suite.h"

namespace deckle::suite {

using Point = std::vector<double>;  // one element of each tensor

/// Errors of values and of slopes in units of the last place of the result, or of `floor` where the result is smaller.
struct Bounds {
  double value = 8, slope = 16;
  double value_floor = 0, slope_floor = 0;
  /// Points at which a part of the formula leaves float32 and the result does not.
  bool (*left_out)(const Point& at) = nullptr;
  /// In place of slope_floor: what the slope in a tensor crosses zero against.
  double (*slope_floor_at)(const Point& at, size_t tensor) = nullptr;
  /// In place of value_floor: what the value crosses zero against.
  double (*value_floor_at)(const Point& at) = nullptr;
};

/// A pointwise op and its first derivatives in float32 against float64, over the whole range of the inputs: denormals, the
/// largest numbers, infinities, NaN and ties. The bounds are one table, in accuracy.cpp.
void check_accuracy(const Case& op);

/// Bounds of an op of another library than Deckle, for a source file of its tests:
/// `const bool given = suite::allow("soft_sign", {.slope_floor = 1});`
bool allow(const std::string& op, const Bounds& bounds);

}  // namespace deckle::suite
