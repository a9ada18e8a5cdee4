#include "opgen/analyze/points.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <set>

namespace opgen {
namespace {

using Real = long double;

constexpr size_t kMaxLiterals = 16;
constexpr int kFar = 64;    // points from which a search may start
constexpr int kStarts = 8;  // the nearest of these
constexpr int kMaxRounds = 60;

/// Integers: those of samples, 0, 1, negative ones and others.
Real whole(int number, Real drawn, const Scalar& written) {
  if (number % 5 == 1 && written) return *written;
  if (number % 5 == 2) return std::array<Real, 4>{0, 1, -1, -2}[number / 5 % 4];
  return std::ceil(std::fabs(drawn));
}

bool is_plain_number(const Type& type) { return type.is(Base::floating) || type.is(Base::scalar); }

}  // namespace

Real Points::uniform(Real low, Real high) {
  state_ = state_ * 6364136223846793005ULL + 1442695040888963407ULL;
  return low + (high - low) * static_cast<Real>(state_ >> 11) / static_cast<Real>(uint64_t{1} << 53);
}

/// For a number that a sample has as 0, which it would stay: sometimes one on either side, nearer than what else the sample has.
Real Points::beside_zero(int number, const Sample* sample) {
  Real least = 2;
  for (size_t i = 0; i < op_.schema.arguments.size(); ++i) {
    const Scalar other = is_plain_number(op_.schema.arguments[i].type) ? number_of(*sample, i) : std::nullopt;
    if (other && *other != 0) least = std::min(least, std::fabs(*other));
  }
  return std::array<Real, 4>{0, 0.25L, 0, -0.25L}[number / 2 % 4] * least * uniform(0.7L, 1);
}

Point Points::draw(int number) {
  const Real scale = std::array<Real, 4>{0.3L, 1, 2.5L, 6}[number % 4];
  const auto chosen = static_cast<size_t>(uniform(0, static_cast<Real>(op_.samples.size())));
  const Sample* const sample = op_.samples.empty() ? nullptr : &op_.samples[chosen];
  const Real fraction = uniform(0.7L, 1);  // of all numbers of the sample: their order and signs stay
  Point point;
  for (size_t i = 0; i < op_.schema.arguments.size(); ++i) {
    const Type& type = op_.schema.arguments[i].type;
    const Real low = number % 3 == 0 ? 0.05L : -1;
    Real value = uniform(low, 1) * (number % 6 == 0 ? 1 : scale);
    Scalar written;
    if (sample != nullptr) written = number_of(*sample, i);
    if (type.is(Base::boolean)) value = value > 0.5L * low + 0.5L;
    if (type.is(Base::integer)) value = whole(number, value, written);
    if (written && is_plain_number(type)) value = *written == 0 ? beside_zero(number, sample) : *written * fraction;
    point.emplace_back(value);
  }
  return point;
}

std::vector<Real> Points::literals(const std::vector<ExprPtr>& expressions) {
  std::set<Real> numbers;
  std::set<const Expr*> seen;
  std::vector<ExprPtr> parts = expressions;
  while (!parts.empty() && numbers.size() < kMaxLiterals) {
    const ExprPtr part = parts.back();
    parts.pop_back();
    if (!seen.insert(part.get()).second) continue;
    const Scalar value = part->is(ExprKind::number) ? literal_value(part->text) : std::nullopt;
    if (value && std::isfinite(*value)) numbers.insert({*value, -*value});
    parts.insert(parts.end(), part->args.begin(), part->args.end());
  }
  return {numbers.begin(), numbers.end()};
}

std::vector<Real> Points::beside_literals(const std::vector<ExprPtr>& expressions) {
  std::vector<Real> values;
  const std::vector<Real> numbers = literals(expressions);
  for (size_t i = 0; i < numbers.size(); ++i) {
    for (const Real off : {-1.0L, -1e-3L, 1e-3L, 1.0L}) {
      for (int turn = 0; turn < 2; ++turn) values.push_back(numbers[i] + off * uniform(0.9L, 1.1L));
    }
    // Between two bounds, however close.
    if (i > 0) values.push_back(numbers[i - 1] + (numbers[i] - numbers[i - 1]) * uniform(0.4L, 0.6L));
  }
  return values;
}

Scalar Points::number_of(const Sample& sample, size_t argument) const {
  const SampleArgument& given = sample.arguments[argument];
  if (given.kind == SampleArgument::Kind::standard)
    return literal_value(op_.schema.arguments[argument].default_value.value_or(""));
  return given.kind == SampleArgument::Kind::number ? literal_value(given.values[0]) : std::nullopt;
}

Point Points::of_sample(const Sample& sample) {
  Point point = draw(0);
  for (size_t i = 0; i < point.size(); ++i) {
    if (const Scalar number = number_of(sample, i)) point[i] = number;
    if (sample.arguments[i].kind != SampleArgument::Kind::tensor) continue;
    const SampleTensor& tensor = sample.tensor_of(i);
    const auto one_of = static_cast<size_t>(uniform(0, static_cast<Real>(tensor.values.size())));
    if (!tensor.values.empty()) point[i] = literal_value(tensor.values[one_of]);
    const Scalar low = literal_value(tensor.low), high = literal_value(tensor.high);
    if (low && high) point[i] = uniform(*low, *high);
  }
  return point;
}

Point Points::beside(const Point& point) {
  Point moved = point;
  for (size_t i = 0; i < moved.size(); ++i) {
    const Type& type = op_.schema.arguments[i].type;
    if (type.is_tensor() && moved[i]) *moved[i] += uniform(-0.03L, 0.03L) * (0.1L + std::fabs(*moved[i]));
  }
  return moved;
}

/// A point with numbers of any size, from 1/100 to 10,000.
Point Points::far(int number) {
  Point point = draw(number);
  for (size_t i = 0; i < point.size(); ++i) {
    const Type& type = op_.schema.arguments[i].type;
    if (!type.is_tensor() && !type.is(Base::integer)) continue;
    const Real value = std::pow(Real{10}, uniform(-2, 4)) * (uniform(-1, 1) < 0 ? -1 : 1);
    point[i] = type.is_tensor() ? value : std::round(value);
  }
  return point;
}

std::optional<Point> Points::search(const Distance& distance) {
  std::vector<std::pair<Real, Point>> starts;
  for (int i = 0; i < kFar; ++i) {
    Point point = i % 4 == 0 ? draw(i) : far(i);
    const Scalar at = distance(point);
    starts.emplace_back(at ? *at : std::numeric_limits<Real>::infinity(), std::move(point));
  }
  std::stable_sort(starts.begin(), starts.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  for (const bool numbers : {false, true}) {
    for (int start = 0; start < kStarts; ++start) {
      if (std::optional<Point> found = descend(starts[static_cast<size_t>(start)].second, distance, numbers)) return found;
    }
  }
  return std::nullopt;
}

/// One argument after the other, with steps that double while they help and shrink when they do not.
std::optional<Point> Points::descend(Point point, const Distance& distance, bool numbers) const {
  Scalar best = distance(point);
  std::vector<Real> steps(point.size(), 1);
  const auto try_at = [&](size_t i, Real value) {
    Point moved = point;
    moved[i] = value;
    const Scalar at = distance(moved);
    if (!at || (best && *at >= *best)) return false;
    point = std::move(moved);
    best = at;
    return true;
  };
  for (int round = 0; round < kMaxRounds && (!best || *best > 0); ++round) {
    bool any = false;
    for (size_t i = 0; i < point.size() && (!best || *best > 0); ++i) {
      const Type& type = op_.schema.arguments[i].type;
      if (!point[i] || (is_plain_number(type) && !numbers)) continue;
      if (type.is(Base::boolean)) {
        any = try_at(i, *point[i] == 0) || any;
        continue;
      }
      const bool integer = type.is(Base::integer);
      bool moved = false;
      for (const Real sign : {1.0L, -1.0L}) {
        Real step = integer ? std::max<Real>(1, std::round(steps[i])) : steps[i];
        while (try_at(i, *point[i] + sign * step)) step *= 2, moved = true;
      }
      steps[i] = moved ? std::max<Real>(steps[i], 1e-6L) : steps[i] / 3;
      any = any || moved || (!integer && steps[i] > 1e-7L);
    }
    if (!any) break;
  }
  return best && *best == 0 ? std::optional(point) : std::nullopt;
}

}  // namespace opgen
