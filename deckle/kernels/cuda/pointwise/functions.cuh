#pragma once

// The scalar functions that expressions may call (ops/functions.yaml), on one number: CUDA's own where it has them, which are
// within 2 units of the last place of IEEE's limits. Conventions are those of kernels/cpu/simd/math.h.
#include <cmath>

#include "deckle/kernels/cuda/pointwise/normal.cuh"
#include "deckle/kernels/cuda/pointwise/vector.cuh"

namespace deckle::kernels::cuda {

template <class D, class V>
HWY_INLINE V abs(D, V x) {
  if constexpr (kFloating<V>)
    return ::fabs(x);
  else
    return x < 0 ? Neg(x) : x;
}
/// -1, 0 or 1; NaN stays NaN, zeros keep their sign.
template <class D, class V>
HWY_INLINE V sign(D, V x) {
  return x > 0 ? V(1) : x < 0 ? V(-1) : x;
}

#define DECKLE_ROUNDING(name, function) \
  template <class D, class V>           \
  HWY_INLINE V name(D, V x) {           \
    if constexpr (kFloating<V>)         \
      return ::function(x);             \
    else                                \
      return x;                         \
  }
DECKLE_ROUNDING(floor, floor)
DECKLE_ROUNDING(ceil, ceil)
DECKLE_ROUNDING(round, rint)  // ties to even
DECKLE_ROUNDING(trunc, trunc)
#undef DECKLE_ROUNDING

/// A NaN in either operand wins.
template <class D, class V>
HWY_INLINE V minimum(D, V x, V y) {
  if constexpr (kFloating<V>)
    return x != x || x < y ? x : y;
  else
    return x < y ? x : y;
}
template <class D, class V>
HWY_INLINE V maximum(D, V x, V y) {
  if constexpr (kFloating<V>)
    return x != x || x > y ? x : y;
  else
    return x > y ? x : y;
}

template <class D, class V>
HWY_INLINE V square(D, V x) {
  return Mul(x, x);
}
template <class D, class V>
HWY_INLINE V reciprocal(D, V x) {
  return V(1) / x;
}
template <class D, class V>
HWY_INLINE V rsqrt(D, V x) {
  return V(1) / ::sqrt(x);
}

#define DECKLE_OF_ONE(name)   \
  template <class D, class V> \
  HWY_INLINE V name(D, V x) { \
    return ::name(x);         \
  }
DECKLE_OF_ONE(sqrt)
DECKLE_OF_ONE(exp)
DECKLE_OF_ONE(exp2)
DECKLE_OF_ONE(expm1)
DECKLE_OF_ONE(log)
DECKLE_OF_ONE(log2)
DECKLE_OF_ONE(log10)
DECKLE_OF_ONE(log1p)
DECKLE_OF_ONE(sin)
DECKLE_OF_ONE(cos)
DECKLE_OF_ONE(tan)
DECKLE_OF_ONE(atan)
DECKLE_OF_ONE(erf)
DECKLE_OF_ONE(erfc)
#undef DECKLE_OF_ONE

template <class D, class V>
HWY_INLINE V sigmoid(D, V x) {
  // From the side where the exponential is at most one: no overflow, and the tail keeps its digits.
  const V e = ::exp(-::fabs(x));
  return x >= 0 ? V(1) / (V(1) + e) : x != x ? x : e / (V(1) + e);
}
template <class D, class V>
HWY_INLINE V softplus(D, V x) {
  return (x > 0 || x != x ? x : V(0)) + ::log1p(::exp(-::fabs(x)));
}
template <class D, class V>
HWY_INLINE V log_sigmoid(D d, V x) {
  return -softplus(d, -x);
}
template <class D, class V>
HWY_INLINE V logistic_loss(D, V x, V t) {
  const V linear = x > 0 ? (t == 1 ? V(0) : x * (V(1) - t)) : (t == 0 ? V(0) : -x * t);
  return linear + ::log1p(::exp(-::fabs(x)));
}
template <class D, class V>
HWY_INLINE V normal_cdf(D, V x) {
  if constexpr (sizeof(V) != 4)
    return ::normcdf(x);
  else if constexpr (D::kNarrow)
    return detail::narrow_normal_cdf(x);
  else
    return detail::normal_cdf(x);
}
template <class D, class V>
HWY_INLINE V tanh(D, V x) {
  if constexpr (D::kNarrow)
    return detail::narrow_tanh(x);
  else
    return ::tanh(x);
}

template <class D, class V>
HWY_INLINE V atan2(D, V y, V x) {
  return ::atan2(y, x);
}
template <class D, class V>
HWY_INLINE V hypot(D, V x, V y) {
  return ::hypot(x, y);
}

namespace detail {
/// C's x / y and x % y for integers; by zero 0, and without the overflow of the least number by -1.
HWY_INLINE int64_t quotient(int64_t x, int64_t y) { return y == 0 ? 0 : y == -1 ? Neg(x) : x / y; }
HWY_INLINE int64_t rest(int64_t x, int64_t y) { return y == 0 || y == -1 ? 0 : x % y; }
}  // namespace detail

/// The remainder of x / y rounded towards zero: it has the sign of x.
template <class D, class V>
HWY_INLINE V fmod(D, V x, V y) {
  if constexpr (kFloating<V>)
    return ::fmod(x, y);
  else
    return detail::rest(x, y);
}
/// The remainder of x / y rounded down: it has the sign of y.
template <class D, class V>
HWY_INLINE V remainder(D d, V x, V y) {
  const V r = fmod(d, x, y);
  const V result = r != 0 && (r < 0) != (y < 0) ? Add(r, y) : r;
  if constexpr (kFloating<V>)
    return result == 0 ? ::copysign(V(0), y) : result;
  else
    return result;
}
/// x / y rounded down, with remainder: x = floor_divide(x, y) y + remainder(x, y) up to rounding.
template <class D, class V>
HWY_INLINE V floor_divide(D d, V x, V y) {
  const V r = fmod(d, x, y);
  const bool differs = r != 0 && (r < 0) != (y < 0);
  if constexpr (kFloating<V>) {
    if (y == 0) return x / y;
    const V quotient = (x - r) / y, whole = ::rint(differs ? quotient - V(1) : quotient);
    return whole == 0 ? ::copysign(V(0), x / y) : whole;
  } else {
    const V quotient = detail::quotient(x, y);
    return differs ? Sub(quotient, V(1)) : quotient;
  }
}

/// Exponents frequent in formulas and their derivatives are products. Integers: by squaring, modulo 2^64, for y >= 0.
template <class D, class V>
HWY_INLINE V pow(D, V x, V y) {
  if constexpr (kFloating<V>) {
    if (y == 1) return x;
    if (y == 2) return x * x;
    if (y == 3) return x * x * x;
    if (y == -1) return V(1) / x;
    return ::pow(x, y);
  } else {
    V result = 1;
    while (true) {
      if ((y & 1) != 0) result = Mul(result, x);
      y >>= 1;
      if (y <= 0) return result;
      x = Mul(x, x);
    }
  }
}

// The derivatives of pow, with their limits at x = 0 and x = inf; ops/functions.yaml has the conventions. r is pow(x, y).
namespace detail {
/// factor x^exponent: 0 where the factor is, even where the power is infinite. NaN stays.
template <class D, class V>
HWY_INLINE V times_power(D d, V x, V factor, V exponent) {
  return factor == 0 ? factor / (x == 0 ? V(1) : x) : factor * pow(d, x, exponent);
}
/// Where x^y is 0 for all exponents near y, whatever the logarithm of x.
template <class V>
HWY_INLINE bool power_is_zero(V x, V y) {
  return (x == 0 && y >= 0) || (x == std::numeric_limits<V>::infinity() && y < 0);
}
}  // namespace detail

template <class D, class V>
HWY_INLINE V pow_x(D d, V x, V y) {
  return detail::times_power(d, x, y, y - V(1));
}
template <class D, class V>
HWY_INLINE V pow_xx(D d, V x, V y) {
  return detail::times_power(d, x, y * (y - V(1)), y - V(2));
}
template <class D, class V>
HWY_INLINE V pow_y(D, V x, V y, V r) {
  return detail::power_is_zero(x, y) ? V(0) : r * ::log(x);
}
template <class D, class V>
HWY_INLINE V pow_yy(D, V x, V y, V r) {
  const V logarithm = ::log(x);
  return detail::power_is_zero(x, y) ? V(0) : r * logarithm * logarithm;
}
template <class D, class V>
HWY_INLINE V pow_xy(D d, V x, V y) {
  const bool flat = (x == 0 && y == 0) || (x == std::numeric_limits<V>::infinity() && y < 1);
  const V factor = x == 0 && y >= 1 ? V(1) : y * ::log(x) + V(1);
  return flat ? V(0) : pow(d, x, y - V(1)) * factor;
}

// On the bits of two's complement.
template <class D, class V>
HWY_INLINE V bitwise_and(D, V x, V y) {
  return x & y;
}
template <class D, class V>
HWY_INLINE V bitwise_or(D, V x, V y) {
  return x | y;
}
template <class D, class V>
HWY_INLINE V bitwise_xor(D, V x, V y) {
  return x ^ y;
}
template <class D, class V>
HWY_INLINE V left_shift(D, V x, V y) {
  return y < 0 || y > 63 ? 0 : static_cast<V>(static_cast<uint64_t>(x) << y);
}
template <class D, class V>
HWY_INLINE V right_shift(D, V x, V y) {
  return x >> (y < 0 || y > 63 ? 63 : y);
}

template <class D, class V>
HWY_INLINE bool isnan(D, V x) {
  return x != x;
}
template <class D, class V>
HWY_INLINE bool isinf(D, V x) {
  return ::fabs(x) == std::numeric_limits<V>::infinity();
}
template <class D, class V>
HWY_INLINE bool isfinite(D, V x) {
  return ::fabs(x) < std::numeric_limits<V>::infinity();
}

/// x + w (y - x) from the nearer end; where y - x is not finite, (1 - w) x + w y, and a finite end is nothing beside an infinite
/// one.
template <class D, class V>
HWY_INLINE V lerp(D d, V x, V y, V w) {
  const V step = y - x, rest = V(1) - w;
  const V result = w < V(0.5) ? x + w * step : y - rest * step;
  if (isfinite(d, step) || isnan(d, x) || isnan(d, y)) return result;
  if (w == 0 || w == 1) return w == 0 ? x : y;
  const V of_x = isfinite(d, x) && isinf(d, y) ? V(0) : rest * x, of_y = isfinite(d, y) && isinf(d, x) ? V(0) : w * y;
  return of_x + of_y;
}

}  // namespace deckle::kernels::cuda
