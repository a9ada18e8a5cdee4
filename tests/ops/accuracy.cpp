#include "tests/ops/accuracy.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <random>

#include "deckle/core/tensor_impl.h"
#include "deckle/functional/transforms.h"

namespace deckle::suite {
namespace {

using Tensors = std::vector<Tensor>;

constexpr float kInfinity = std::numeric_limits<float>::infinity(), kMost = std::numeric_limits<float>::max(),
                kLeast = std::numeric_limits<float>::min(), kDenormal = std::numeric_limits<float>::denorm_min();

/// Of other libraries' ops.
std::map<std::string, Bounds>& allowed() {
  static std::map<std::string, Bounds> all;
  return all;
}

/// Only what overflows or is no number where the true result is one.
constexpr double kAny = 0x1p24;
/// Below this a product with a factor that is nearly denormal has lost digits.
constexpr double kTiny = 1e-30;

/// Of a positive number: whether float32 has it with fewer digits than others or not at all.
bool outside(double value) { return (value > 0 && value < kLeast) || (value > kMost && std::isfinite(value)); }

const std::map<std::string, Bounds> kBounds = {
    // Slopes from the result, r (1 - r) and the like: exact to a unit of 1, not of themselves, where the function saturates.
    {"sigmoid", {.slope_floor = 1}},
    {"tanh", {.slope_floor = 1}},
    {"expm1", {.slope_floor = 1}},
    {"elu", {.slope_floor = 1}},
    // Slopes that cross zero.
    {"silu", {.value_floor = kTiny, .slope_floor = 1}},
    {"gelu", {.value_floor = kTiny, .slope_floor = 1}},
    // exp takes a rounded argument of up to 90.
    {"gelu_tanh", {.value = 256, .slope = 64, .value_floor = kTiny, .slope_floor = 1}},
    {"erf", {.slope = 128}},
    {"erfc", {.slope = 128}},
    // Differences of a function and an input cross zero.
    {"logistic_error", {.value = 512, .slope_floor = 1}},
    {"divergence_error", {.value = 512, .slope = kAny}},
    {"probability_error", {.value = 4096, .slope = kAny, .left_out = [](const Point& at) { return std::abs(at[1]) > 128; }}},
    // self silu(gate), of which silu(gate) underflows first; the slope in gate crosses zero against self.
    {"swiglu",
     {.value_floor = kTiny,
      .left_out = [](const Point& at) { return at[1] < -85 || std::abs(at[1]) < 4 * kLeast; },
      .slope_floor_at = [](const Point& at, size_t tensor) { return tensor == 0 ? kTiny : std::abs(at[0]) + kTiny; }}},
    // Quotients on the way to the value or a slope that are beyond float32.
    {"div_mul",
     {.left_out =
          [](const Point& at) {
            const double inverse = 1 / std::abs(at[1]), quotient = std::abs(at[0] / at[1]);
            return outside(inverse) || outside(quotient) || outside(quotient * inverse) || outside(std::abs(at[2] / at[1]));
          }}},
    // Denormal slopes far out, of which the denominator has left float32, and distances that are denormal or beyond float32.
    {"atan", {.slope_floor = kTiny}},
    {"atan2", {.slope_floor = kTiny, .left_out = [](const Point& at) { return outside(std::hypot(at[0], at[1])); }}},
    {"hypot", {.left_out = [](const Point& at) { return outside(std::hypot(at[0], at[1])); }}},
    // Twice the slope is computed first.
    {"rsqrt", {.left_out = [](const Point& at) { return std::pow(std::abs(at[0]), -1.5) > kMost; }}},
    // Sums of two terms that cross zero.
    {"lerp_Tensor",
     {.value_floor_at =
          [](const Point& at) {
            const double step = std::abs(at[1] - at[0]);
            return at[2] < 0.5 ? std::abs(at[0]) + std::abs(at[2]) * step : std::abs(at[1]) + std::abs(1 - at[2]) * step;
          }}},
    {"lerp_Scalar", {.value_floor_at = [](const Point& at) { return std::abs(at[0]) + std::abs(at[1]); }}},
    // y pow(x, y - 1), where pow overflows first. An exponent near y - 1 is off by 2^-24, and |log x| is up to 103 times that.
    {"pow_Tensor_Scalar", {.slope_floor = kTiny, .left_out = [](const Point& at) { return std::abs(at[0]) < 1e-25; }}},
    // Of a negative x the power hangs on y - 1 being an even or odd integer, which a tiny or huge y rounds to or away.
    {"pow_Tensor_Tensor",
     {.slope = 256,
      .slope_floor = kTiny,
      .left_out =
          [](const Point& at) {
            const double power = std::abs(std::pow(at[0], at[1] - 1));
            const bool rounds_well = std::abs(at[1]) >= 0x1p-24 && std::abs(at[1]) < 0x1p24;
            return power > kMost || (power < kLeast && power != 0) || (at[0] < 0 && !rounds_well);
          }}},
};

/// Both signs of zero, of numbers of every magnitude and of those at which formulas change.
std::vector<float> special_values() {
  std::vector<float> values = {0,     kDenormal, kLeast / 2, kLeast,  1e-30F, 1e-20F, 1e-10F,   1e-5F, 1e-3F, 0.1F,
                               0.25F, 0.5F,      0.75F,      1,       1.5F,   2,      3,        4.5F,  7,     9.5F,
                               12,    17,        30,         88.5F,   103,    300,    1e4F,     1e7F,  3e10F, 1e15F,
                               1e20F, 1e30F,     1e38F,      1.8e38F, 3e38F,  kMost,  kInfinity};
  const size_t count = values.size();
  for (size_t i = 0; i < count; ++i) values.push_back(-values[i]);
  values.push_back(std::numeric_limits<float>::quiet_NaN());
  return values;
}

/// Float32 inputs, one dim each: every special value and others of all magnitudes; of several tensors all pairs of special
/// values, and random choices of them.
Tensors inputs_of(size_t tensors) {
  const std::vector<float> special = special_values();
  std::vector<std::vector<float>> columns(tensors);
  std::mt19937_64 engine(20260807);
  const auto add = [&](auto value_of) {
    for (size_t i = 0; i < tensors; ++i) columns[i].push_back(value_of(i));
  };
  if (tensors == 1) {
    for (const float value : special) columns[0].push_back(value);
  } else {
    for (const float a : special) {
      for (const float b : special) add([&](size_t i) { return i == 0 ? a : i == 1 ? b : special[engine() % special.size()]; });
    }
  }
  std::uniform_real_distribution<float> near(-20, 20), exponent(-140, 127);
  for (int i = 0; i < 2000; ++i) add([&](size_t) { return near(engine); });
  for (int i = 0; i < 1000; ++i) add([&](size_t) { return std::ldexp(near(engine) / 20, static_cast<int>(exponent(engine))); });
  Tensors result;
  for (const std::vector<float>& column : columns) {
    result.push_back(empty({static_cast<int64_t>(column.size())}, DType::float32));
    std::copy(column.begin(), column.end(), result.back().data<float>());
  }
  return result;
}

Tensors in_double(const Tensors& tensors) {
  Tensors result;
  for (const Tensor& tensor : tensors) {
    result.push_back(empty(tensor.sizes(), DType::float64));
    const std::vector<double> values = tensor.to_vector();
    std::copy(values.begin(), values.end(), result.back().data<double>());
  }
  return result;
}

/// |got - expected| in units of the last place of a float of the size of `expected`, or of `floor` if that is larger.
double error_of(double got, double expected, double floor) {
  if (std::isnan(expected) || std::isnan(got)) return std::isnan(expected) == std::isnan(got) ? 0 : 1e30;
  const auto rounded = static_cast<float>(expected);
  const bool both_huge = std::abs(got) > 0.999 * kMost && std::abs(expected) > 0.999 * kMost;
  if (std::isinf(rounded) || std::isinf(got)) return both_huge && std::signbit(got) == std::signbit(expected) ? 0 : 1e30;
  int exponent = 0;
  std::frexp(std::max({std::abs(expected), floor, static_cast<double>(kLeast)}), &exponent);
  return std::abs(got - expected) / std::ldexp(1.0, exponent - 24);
}

/// The element of each tensor.
Point point_of(const std::vector<std::vector<double>>& columns, size_t i) {
  Point point;
  for (const std::vector<double>& column : columns) point.push_back(column[i]);
  return point;
}

/// `tensor`: -1 for values, else that which slopes are in.
void compare(const std::string& what, const Tensor& got, const Tensor& expected, const Tensors& at, const Bounds& bounds,
             int tensor) {
  const double bound = tensor < 0 ? bounds.value : bounds.slope;
  std::vector<std::vector<double>> columns;
  for (const Tensor& each : at) columns.push_back(each.to_vector());
  const std::vector<double> a = got.to_vector(), b = expected.to_vector();
  ASSERT_EQ(a.size(), b.size()) << what;
  double worst = 0;
  size_t where = 0, compared = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const Point point = point_of(columns, i);
    if (bounds.left_out != nullptr && bounds.left_out(point)) continue;
    ++compared;
    const double floor = tensor < 0 ? (bounds.value_floor_at != nullptr ? bounds.value_floor_at(point) : bounds.value_floor)
                         : bounds.slope_floor_at != nullptr ? bounds.slope_floor_at(point, static_cast<size_t>(tensor))
                                                            : bounds.slope_floor;
    const double error = error_of(a[i], b[i], floor);
    if (error > worst) worst = error, where = i;
  }
  EXPECT_GT(2 * compared, a.size()) << what << ": most points are left out";
  if (worst <= bound) return;
  std::string place;
  for (const double value : point_of(columns, where)) place += fmt::format("{}{}", place.empty() ? "" : ", ", value);
  ADD_FAILURE() << fmt::format("{} at {}: {} in float32, {} in float64: {:.3g} units of the last place (expected {})", what,
                               place, a[where], b[where], worst, bound);
}

}  // namespace

bool allow(const std::string& op, const Bounds& bounds) { return allowed().emplace(op, bounds).second; }

void check_accuracy(const Case& op) {
  const auto found = kBounds.find(op.name);
  const auto other = allowed().find(op.name);
  const Bounds bounds = other != allowed().end() ? other->second : found == kBounds.end() ? Bounds{} : found->second;
  const Tensors single = inputs_of(op.tensors.size()), wide = in_double(single);
  const auto value = [&](const Tensors& inputs) { return op.call(inputs)[0]; };
  const Tensor got = value(single), expected = value(wide);
  if (!is_floating(got.dtype())) return;
  compare(op.name, got, expected, single, bounds, -1);
  if (!op.derivatives) return;
  const auto slopes = [&](const Tensors& inputs) {
    const Tensor y = value(inputs), ones = empty(y.sizes(), y.dtype());
    ones.fill_(1.0);
    return vjp([&](const Tensors& points) { return value(points); }, inputs, ones).second;
  };
  const Tensors steep = slopes(single), exact = slopes(wide);
  for (size_t i = 0; i < steep.size(); ++i) {
    if (!op.differentiable[i]) continue;
    compare(fmt::format("slope of {} in tensor {}", op.name, i), steep[i], exact[i], single, bounds, static_cast<int>(i));
  }
}

}  // namespace deckle::suite
