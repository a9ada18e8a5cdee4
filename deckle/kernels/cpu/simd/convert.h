#pragma once

#include <cstdint>
#include <type_traits>

#include "deckle/base/dtype.h"
#include "deckle/base/half.h"

namespace deckle::kernels::cpu::simd {

/// Reads `count` elements of `dtype`, `stride` elements apart (0: one element repeated), into `to`. Exact where the type
/// allows; otherwise rounds to nearest. Floating to integer truncates and saturates, NaN becomes 0.
void load_run(const void* from, DType dtype, int64_t stride, int64_t count, float* to);
void load_run(const void* from, DType dtype, int64_t stride, int64_t count, double* to);
void load_run(const void* from, DType dtype, int64_t stride, int64_t count, int64_t* to);

/// Writes `count` elements as `dtype`, `stride` elements apart, by the same rules; to bool: "is not zero" (NaN is true),
/// from a wider to a narrower integer: modulo.
void store_run(const float* from, int64_t count, void* to, DType dtype, int64_t stride);
void store_run(const double* from, int64_t count, void* to, DType dtype, int64_t stride);
void store_run(const int64_t* from, int64_t count, void* to, DType dtype, int64_t stride);

/// The same between elements of one of these types, which move as they are.
template <typename T>
concept Moved = std::is_same_v<T, bfloat16> || std::is_same_v<T, float16> || std::is_same_v<T, int32_t>;
template <Moved T>
void load_run(const void* from, DType dtype, int64_t stride, int64_t count, T* to);
template <Moved T>
void store_run(const T* from, int64_t count, void* to, DType dtype, int64_t stride);

/// The type in which kernels compute on elements of `dtype`: float32 for itself and the halves, float64, int64 for the rest.
constexpr DType compute_dtype(DType dtype) {
  if (dtype == DType::float64) return DType::float64;
  return is_floating(dtype) ? DType::float32 : DType::int64;
}

/// Calls f(TypeTag<T>{}) with the C++ type (float, double or int64_t) of compute_dtype(dtype).
template <typename F>
decltype(auto) visit_compute(DType dtype, F&& f) {
  switch (compute_dtype(dtype)) {
    case DType::float32:
      return f(TypeTag<float>{});
    case DType::float64:
      return f(TypeTag<double>{});
    default:
      return f(TypeTag<int64_t>{});
  }
}

}  // namespace deckle::kernels::cpu::simd
