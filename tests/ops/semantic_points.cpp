#include "tests/ops/semantic_checks.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/ops/semantic_cells.h"
#include "tests/ops/semantic_support.h"
#include "tests/support/random.h"

namespace deckle::suite {
namespace {

/// Points where formulas change: zeros, units, integers, what samples take for bounds, equal values, infinities.
constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kPoints[] = {0, 1, -1, 2, -2, 3, 0.5, -0.5, 0.75, kInfinity, -kInfinity};

/// Element by element; says at which point the first difference is.
void expect_points(const Case& op, const Tensors& points, const Tensor& got, const Tensor& expected, const std::string& what) {
  ASSERT_TRUE(got.defined() && expected.defined()) << what;
  const std::vector<double> a = got.to_vector(), b = expected.to_vector();
  ASSERT_EQ(a.size(), b.size()) << what;
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i]))) continue;
    if (std::abs(a[i] - b[i]) <= 1e-9 * std::max(1.0, std::abs(b[i]))) continue;
    std::vector<double> point;
    for (const Tensor& values : points) point.push_back(values.to_vector()[i]);
    std::string at;
    for (const double value : point) at += fmt::format(" {}", value);
    FAIL() << what << ": " << a[i] << " and " << b[i] << " at" << at;
  }
}

/// Element by element, and each pair of inputs by itself: infinities stay where they arise.
void check_pointwise_points(const Case& op) {
  const Tensors x = differentiable(op);
  constexpr size_t count = std::size(kPoints);
  size_t total = 1;
  for (size_t i = 0; i < x.size(); ++i) total *= count;
  if (x.size() > 3) return;
  Case at = op;
  for (size_t i = 0, stride = 1; i < op.tensors.size(); ++i) {
    if (op.differentiable[i]) {
      at.tensors[i] =
          of_values({static_cast<int64_t>(total)}, DType::float64, [&](size_t k) { return kPoints[k / stride % count]; });
      stride *= count;
    } else if (op.tensors[i].defined()) {  // conditions, and whatever else: the sample's values over and over
      const std::vector<double> values = op.tensors[i].to_vector();
      if (values.empty()) return;
      at.tensors[i] =
          of_values({static_cast<int64_t>(total)}, op.tensors[i].dtype(), [&](size_t k) { return values[k % values.size()]; });
    }
  }
  const Function f = function_of(at);
  const Tensors points = differentiable(at), like = f(points);
  if (like.empty()) return;
  const Tensors ones = ones_like_each(points), c = ones_like_each(like);
  const auto where_at = [&](const std::string& what) { return what + " at special points"; };
  const auto gradient = [&](const Tensors& p) { return vjp(f, p, c).second; };
  const Tensors reverse = gradient(points);
  for (size_t k = 0; k < points.size(); ++k) {
    const Tensors along = only(ones, k);
    expect_points(op, points, jvp(f, points, along).second[0], reverse[k],
                  where_at(fmt::format("forward and reverse mode, input {}", k)));
    const auto slope = [&](const Tensors& p) { return jvp(f, p, along).second; };
    const Tensors rr = vjp(gradient, points, along).second, rf = vjp(slope, points, c).second,
                  fr = jvp(gradient, points, along).second;
    for (size_t l = 0; l < points.size(); ++l) {
      const std::string inputs = fmt::format(", inputs {} and {}", k, l);
      const Tensor ff = jvp(slope, points, only(ones, l)).second[0];
      expect_points(op, points, fr[l], rr[l], where_at("forward over reverse and reverse over reverse" + inputs));
      expect_points(op, points, rf[l], rr[l], where_at("reverse over forward and reverse over reverse" + inputs));
      expect_points(op, points, ff, rr[l], where_at("forward over forward and reverse over reverse" + inputs));
    }
  }
  compared(op, Cell::special_points);
}

/// All zero, all one, all equal, small integers with ties: along random directions.
void check_tensor_points(const Case& op) {
  const std::pair<const char*, std::function<double(size_t)>> fills[] = {
      {"zeros", [](size_t) { return 0.0; }},
      {"ones", [](size_t) { return 1.0; }},
      {"equal values", [](size_t) { return -0.75; }},
      {"ties", [](size_t i) { return static_cast<double>(i * 7 % 3) - 1; }},
  };
  bool any = false;
  std::string refused;
  for (const auto& [name, fill] : fills) {
    Case at = op;
    for (size_t i = 0; i < op.tensors.size(); ++i) {
      if (op.differentiable[i]) at.tensors[i] = of_values(op.tensors[i].sizes(), op.tensors[i].dtype(), fill);
    }
    const Function f = function_of(at);
    const Tensors x = differentiable(at);
    Tensors like;
    try {
      like = f(x);
    } catch (const Error& error) {  // such values are outside the op's domain
      refused = error.message();
      continue;
    }
    if (like.empty()) return;
    const Tensors c = random_like(like), t = random_like(x), u = random_like(x);
    expect_consistent(derivatives_of(f, x, c, t, u), c, t, 1e-8, std::string(" at ") + name);
    any = true;
  }
  any ? compared(op, Cell::special_points) : refused_by_op(op, Cell::special_points, refused);
}

}  // namespace

void check_special_points(const Case& op) {
  if (exempt(op, Cell::special_points)) return;
  op.pointwise ? check_pointwise_points(op) : check_tensor_points(op);
}

}  // namespace deckle::suite
