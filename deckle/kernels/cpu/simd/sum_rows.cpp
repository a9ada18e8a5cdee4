// Sums of chosen rows: plain loops compiled once per instruction set, which the compiler vectorises, on pieces whose sums stay in
// L1. Halves are widened to float32 and their sums rounded once. A copy where there is one row alone; of two rows, in their own
// type: where one addition in float64 is rounded to less than half its digits, it is that of the narrower type, bit for bit.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "deckle/kernels/cpu/simd/sum_rows.cpp"
#include "deckle/kernels/cpu/simd/targets.h"

#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <type_traits>

#include "deckle/kernels/cpu/simd/convert.h"
#include "deckle/kernels/cpu/simd/halves.h"
#include "deckle/kernels/cpu/simd/sum_rows.h"

HWY_BEFORE_NAMESPACE();
namespace deckle::kernels::cpu::simd::HWY_NAMESPACE {
namespace {

constexpr int64_t kPiece = 512;  // elements: 4 KiB of sums and 2 KiB of widened halves

template <typename T>
constexpr bool kHalf = std::is_same_v<T, float16> || std::is_same_v<T, bfloat16>;

/// What elements are read as: halves as float32.
template <typename T>
using Read = std::conditional_t<kHalf<T>, float, T>;

template <typename T>
const Read<T>* read(const T* from, int64_t n, [[maybe_unused]] float* buffer) {
  if constexpr (kHalf<T>) {
    widen(from, buffer, n);
    return buffer;
  } else {
    return from;
  }
}

template <typename Sum, typename R>
Sum to_sum(R value) {
  return static_cast<Sum>(value);
}

/// In the type of a single addition.
template <typename T>
void add_two(const T* a, const T* b, int64_t n, T* to) {
  if constexpr (kHalf<T>) {
    float x[kPiece], y[kPiece];
    widen(a, x, n);
    widen(b, y, n);
    for (int64_t j = 0; j < n; ++j) x[j] += y[j];
    narrow(x, to, n);
  } else if constexpr (std::is_same_v<T, bool>) {
    for (int64_t j = 0; j < n; ++j) to[j] = a[j] || b[j];
  } else if constexpr (std::is_integral_v<T>) {
    using Bits = std::make_unsigned_t<T>;
    for (int64_t j = 0; j < n; ++j) to[j] = static_cast<T>(static_cast<Bits>(static_cast<Bits>(a[j]) + static_cast<Bits>(b[j])));
  } else {
    for (int64_t j = 0; j < n; ++j) to[j] = a[j] + b[j];
  }
}

template <typename T, typename Sum>
void round(const Sum* sums, int64_t n, T* to) {
  if constexpr (kHalf<T>) {
    narrow(sums, to, n);
  } else {
    for (int64_t j = 0; j < n; ++j) to[j] = static_cast<T>(sums[j]);
  }
}

template <typename T>
void sum_rows_of(const void* base, const ChosenRows& chosen, void* target) {
  using Sum = std::conditional_t<std::is_integral_v<T>, int64_t, double>;
  using Bits = std::conditional_t<std::is_integral_v<T>, uint64_t, double>;  // integers wrap
  const auto* const start = static_cast<const T*>(base);
  auto* const to = static_cast<T*>(target);
  const int64_t width = chosen.width;
  if (width == 0) return;
  const auto row = [&](int64_t i) { return static_cast<const T*>(chosen.from) + chosen.rows[i] * width; };
  const bool plain = chosen.factors == nullptr && chosen.divisor == 1;
  if (plain && chosen.count + (start != nullptr) <= 1) {
    const T* const only = start != nullptr ? start : chosen.count == 1 ? row(0) : nullptr;
    const size_t bytes = static_cast<size_t>(width) * sizeof(T);
    if (only == nullptr)
      std::memset(target, 0, bytes);
    else
      std::memcpy(to, only, bytes);
    return;
  }
  const bool two = plain && chosen.count + (start != nullptr) == 2;
  for (int64_t first = 0; first < width; first += kPiece) {
    const int64_t n = std::min(kPiece, width - first);
    if (two) {
      add_two((start != nullptr ? start : row(1)) + first, row(0) + first, n, to + first);
      continue;
    }
    Bits sums[kPiece];
    float buffer[kPiece];
    if (start == nullptr) {
      std::fill_n(sums, n, Bits{0});
    } else {
      const Read<T>* const x = read(start + first, n, buffer);
      for (int64_t j = 0; j < n; ++j) sums[j] = to_sum<Bits>(x[j]);
    }
    for (int64_t i = 0; i < chosen.count; ++i) {
      const Read<T>* const x = read(row(i) + first, n, buffer);
      if constexpr (std::is_integral_v<T>) {
        for (int64_t j = 0; j < n; ++j) sums[j] += to_sum<Bits>(x[j]);
      } else if (chosen.factors == nullptr) {
        for (int64_t j = 0; j < n; ++j) sums[j] += to_sum<Bits>(x[j]);
      } else {
        const double factor = chosen.factors[i];
        for (int64_t j = 0; j < n; ++j) sums[j] += factor * to_sum<Bits>(x[j]);
      }
    }
    if constexpr (!std::is_integral_v<T>) {
      int exponent = 0;
      if (std::frexp(chosen.divisor, &exponent) == 0.5) {  // a power of two: its inverse is exact
        const double inverse = 1 / chosen.divisor;
        if (inverse != 1)
          for (int64_t j = 0; j < n; ++j) sums[j] *= inverse;
      } else {
        for (int64_t j = 0; j < n; ++j) sums[j] /= chosen.divisor;
      }
      round(sums, n, to + first);
    } else {
      round(reinterpret_cast<const Sum*>(sums), n, to + first);
    }
  }
}

}  // namespace

SumRows sum_rows_function(DType dtype) {
  return visit(dtype, [](auto tag) -> SumRows { return &sum_rows_of<typename decltype(tag)::type>; });
}

}  // namespace deckle::kernels::cpu::simd::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace deckle::kernels::cpu::simd {

HWY_EXPORT(sum_rows_function);

SumRows sum_rows(DType dtype) { return DECKLE_SIMD(sum_rows_function)(dtype); }

}  // namespace deckle::kernels::cpu::simd
#endif
