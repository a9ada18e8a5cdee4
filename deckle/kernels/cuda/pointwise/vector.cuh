#pragma once

// The vocabulary in which generated expressions are written, on one number: a thread of a GPU is a vector of one lane. The same
// text of an expression compiles here and for CPUs (kernels/cpu/simd).
#include <cstdint>
#include <limits>
#include <type_traits>

#define HWY_INLINE __device__ __forceinline__

namespace deckle::kernels::cuda {

/// What stands for the type of a lane. Of a narrow one the result is rounded to 11 bits or fewer: relative errors of 2^-16 do.
template <typename T, bool kNarrow_ = false>
struct Lane {
  using type = T;
  static constexpr bool kNarrow = kNarrow_;
};

namespace hn {
template <class D>
using Vec = typename D::type;
}

template <class D>
using LaneOf = typename D::type;

template <typename T>
inline constexpr bool kFloating = std::is_floating_point_v<T>;

template <class D, typename Number>
HWY_INLINE LaneOf<D> Set(D, Number value) {
  return static_cast<LaneOf<D>>(value);
}
template <class D>
HWY_INLINE LaneOf<D> Zero(D) {
  return LaneOf<D>(0);
}
template <class D>
HWY_INLINE LaneOf<D> Inf(D) {
  return std::numeric_limits<LaneOf<D>>::infinity();
}
template <class D>
HWY_INLINE LaneOf<D> NaN(D) {
  return std::numeric_limits<LaneOf<D>>::quiet_NaN();
}

// Integers wrap around.
template <class V>
HWY_INLINE V Add(V a, V b) {
  if constexpr (kFloating<V>)
    return a + b;
  else
    return static_cast<V>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
}
template <class V>
HWY_INLINE V Sub(V a, V b) {
  if constexpr (kFloating<V>)
    return a - b;
  else
    return static_cast<V>(static_cast<uint64_t>(a) - static_cast<uint64_t>(b));
}
template <class V>
HWY_INLINE V Mul(V a, V b) {
  if constexpr (kFloating<V>)
    return a * b;
  else
    return static_cast<V>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
}
template <class V>
HWY_INLINE V Div(V a, V b) {
  static_assert(kFloating<V>, "integers divide by floor_divide");
  return a / b;
}
template <class V>
HWY_INLINE V Neg(V a) {
  if constexpr (kFloating<V>)
    return -a;
  else
    return static_cast<V>(0 - static_cast<uint64_t>(a));
}

template <class V>
HWY_INLINE bool Eq(V a, V b) {
  return a == b;
}
template <class V>
HWY_INLINE bool Lt(V a, V b) {
  return a < b;
}
template <class V>
HWY_INLINE bool Gt(V a, V b) {
  return a > b;
}
template <class V>
HWY_INLINE bool less_equal(V a, V b) {
  return a <= b;
}
template <class V>
HWY_INLINE bool greater_equal(V a, V b) {
  return a >= b;
}
template <class V>
HWY_INLINE bool not_equal(V a, V b) {
  return a != b;
}

HWY_INLINE bool And(bool a, bool b) { return a && b; }
HWY_INLINE bool Or(bool a, bool b) { return a || b; }
HWY_INLINE bool Xor(bool a, bool b) { return a != b; }
HWY_INLINE bool Not(bool a) { return !a; }

template <class V>
HWY_INLINE V IfThenElse(bool condition, V yes, V no) {
  return condition ? yes : no;
}

/// a * b with 0 * inf = 0, for an a that vanishes faster than b grows.
template <class V>
HWY_INLINE V damped(V a, V b) {
  return a == 0 ? V(0) : a * b;
}

}  // namespace deckle::kernels::cuda
