#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "opgen/analyze/regions.h"
#include "opgen/ir/op.h"

namespace opgen {

/// Values for the arguments of an op, one number each; nullopt for what has none.
using Point = std::vector<Scalar>;

/// Points at which an op is computed: the same in every run.
class Points {
 public:
  explicit Points(const Op& op) : op_(op) {}

  /// Near 0, of ordinary size and larger; every third point positive, and some between 0 and 1, for functions that ask for it.
  Point draw(int number);
  /// The numbers that expressions are written with, and their negatives.
  static std::vector<long double> literals(const std::vector<ExprPtr>& expressions);
  /// Values on both sides of the numbers that expressions are written with, near and far, each twice.
  std::vector<long double> beside_literals(const std::vector<ExprPtr>& expressions);
  /// As drawn, with the tensors' values as a sample has them.
  Point of_sample(const Sample& sample);
  /// A point whose distance is 0: from the nearest of many, tensors and integers moved, then numbers too.
  using Distance = std::function<Scalar(const Point&)>;
  std::optional<Point> search(const Distance& distance);
  /// A little way off.
  Point beside(const Point& point);

 private:
  Point far(int number);
  long double beside_zero(int number, const Sample* sample);
  long double uniform(long double low, long double high);
  Scalar number_of(const Sample& sample, size_t argument) const;
  std::optional<Point> descend(Point point, const Distance& distance, bool numbers) const;

  const Op& op_;
  uint64_t state_ = 20260101;
};

}  // namespace opgen
