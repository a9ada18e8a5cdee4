#pragma once

#include <algorithm>
#include <cmath>

/// The scalar functions of formulas in plain double, for the kernels of drawn entries.
inline double scalar_exp(double x) { return std::exp(x); }
inline double scalar_expm1(double x) { return std::expm1(x); }
inline double scalar_log(double x) { return std::log(x); }
inline double scalar_log1p(double x) { return std::log1p(x); }
inline double scalar_sin(double x) { return std::sin(x); }
inline double scalar_cos(double x) { return std::cos(x); }
inline double scalar_tanh(double x) { return std::tanh(x); }
inline double scalar_erf(double x) { return std::erf(x); }
inline double scalar_sqrt(double x) { return std::sqrt(x); }
inline double scalar_rsqrt(double x) { return 1 / std::sqrt(x); }
inline double scalar_abs(double x) { return std::abs(x); }
inline double scalar_square(double x) { return x * x; }
inline double scalar_reciprocal(double x) { return 1 / x; }
inline double scalar_sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
inline double scalar_softplus(double x) { return std::log1p(std::exp(x)); }
inline double scalar_log_sigmoid(double x) { return -std::log1p(std::exp(-x)); }
inline double scalar_pow(double x, double y) { return std::pow(x, y); }
inline double scalar_maximum(double x, double y) { return std::max(x, y); }
inline double scalar_minimum(double x, double y) { return std::min(x, y); }
