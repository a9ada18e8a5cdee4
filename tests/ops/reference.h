#pragma once

#include <cmath>
#include <cstdint>

/// The scalar functions of ops/functions.yaml in plain double arithmetic, for generated references of pointwise ops and
/// the kernels of drawn entries.
namespace deckle::suite::reference {

inline double abs(double x) { return std::fabs(x); }
inline double sign(double x) { return x > 0 ? 1 : x < 0 ? -1 : x; }
inline double floor(double x) { return std::floor(x); }
inline double ceil(double x) { return std::ceil(x); }
inline double round(double x) { return std::nearbyint(x); }  // halves to even
inline double trunc(double x) { return std::trunc(x); }
inline double minimum(double x, double y) { return std::isnan(x) || x < y ? x : y; }
inline double maximum(double x, double y) { return std::isnan(x) || x > y ? x : y; }
inline double square(double x) { return x * x; }
inline double reciprocal(double x) { return 1 / x; }
inline double sqrt(double x) { return std::sqrt(x); }
inline double rsqrt(double x) { return 1 / std::sqrt(x); }
inline double exp(double x) { return std::exp(x); }
inline double exp2(double x) { return std::exp2(x); }
inline double expm1(double x) { return std::expm1(x); }
inline double log(double x) { return std::log(x); }
inline double log2(double x) { return std::log2(x); }
inline double log10(double x) { return std::log10(x); }
inline double log1p(double x) { return std::log1p(x); }
inline double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
inline double softplus(double x) { return std::fmax(x, 0) + std::log1p(std::exp(-std::fabs(x))); }
inline double logistic_loss(double x, double t) {
  return (x > 0 ? (t == 1 ? 0 : x * (1 - t)) : (t == 0 ? 0 : -x * t)) + std::log1p(std::exp(-std::fabs(x)));
}
inline double log_sigmoid(double x) { return -softplus(-x); }
inline double tanh(double x) { return std::tanh(x); }
inline double sin(double x) { return std::sin(x); }
inline double cos(double x) { return std::cos(x); }
inline double tan(double x) { return std::tan(x); }
inline double atan(double x) { return std::atan(x); }
inline double atan2(double y, double x) { return std::atan2(y, x); }
inline double hypot(double x, double y) { return std::hypot(x, y); }
/// In double, whose range no difference of floats leaves; an infinite end hides a finite one.
inline double lerp(double x, double y, double w) {
  if (w == 0 || w == 1) return w == 0 ? (std::isnan(y) ? y : x) : (std::isnan(x) ? x : y);
  if (std::isinf(x) || std::isinf(y)) return (std::isfinite(x) ? 0 : (1 - w) * x) + (std::isfinite(y) ? 0 : w * y);
  return w < 0.5 ? x + w * (y - x) : y - (1 - w) * (y - x);
}
inline double fmod(double x, double y) { return std::fmod(x, y); }
inline double remainder(double x, double y) {
  const double r = std::fmod(x, y);
  return r != 0 && (r < 0) != (y < 0) ? r + y : std::copysign(r, r != 0 ? r : y);
}
inline double floor_divide(double x, double y) { return y == 0 ? x / y : std::round((x - remainder(x, y)) / y); }
inline double bitwise_and(double x, double y) { return static_cast<double>(static_cast<int64_t>(x) & static_cast<int64_t>(y)); }
inline double bitwise_or(double x, double y) { return static_cast<double>(static_cast<int64_t>(x) | static_cast<int64_t>(y)); }
inline double bitwise_xor(double x, double y) { return static_cast<double>(static_cast<int64_t>(x) ^ static_cast<int64_t>(y)); }
inline double left_shift(double x, double y) {
  return y < 0 || y > 63
             ? 0
             : static_cast<double>(static_cast<int64_t>(static_cast<uint64_t>(static_cast<int64_t>(x)) << static_cast<int>(y)));
}
inline double right_shift(double x, double y) { return std::floor(std::ldexp(x, y < 0 || y > 63 ? -63 : -static_cast<int>(y))); }
inline double erf(double x) { return std::erf(x); }
inline double erfc(double x) { return std::erfc(x); }
inline double normal_cdf(double x) { return 0.5 * std::erfc(x * -0.70710678118654752); }
inline double pow(double x, double y) { return std::pow(x, y); }
inline bool isnan(double x) { return std::isnan(x); }
inline bool isinf(double x) { return std::isinf(x); }
inline bool isfinite(double x) { return std::isfinite(x); }

}  // namespace deckle::suite::reference
