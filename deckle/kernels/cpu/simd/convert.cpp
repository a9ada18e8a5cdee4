// Conversion between element types, run by run.
//
// Contiguous runs are plain loops compiled once per instruction set, which the compiler vectorises; between halves and float or
// double the functions of halves.h do the work. Strided runs are compiled once.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "deckle/kernels/cpu/simd/convert.cpp"
#include "deckle/kernels/cpu/simd/targets.h"

#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

#include "deckle/kernels/cpu/simd/convert.h"
#include "deckle/kernels/cpu/simd/convert_element.h"
#include "deckle/kernels/cpu/simd/halves.h"

#ifndef DECKLE_KERNELS_CPU_SIMD_CONVERT_ONCE
#define DECKLE_KERNELS_CPU_SIMD_CONVERT_ONCE
namespace deckle::kernels::cpu::simd {
namespace {

/// bool elements are read and written as bytes, which may have any value in memory.
template <typename S>
using Stored = std::conditional_t<std::is_same_v<S, bool>, uint8_t, S>;

/// Converts stored elements, bool as bytes.
template <typename S, typename T>
inline T read(Stored<S> value) {
  if constexpr (std::is_same_v<S, bool>)
    return static_cast<T>(value != 0);
  else
    return convert<T>(value);
}
template <typename S, typename T>
inline Stored<S> write(T value) {
  if constexpr (std::is_same_v<S, bool>)
    return value != T(0);
  else
    return convert<S>(value);
}

template <typename T>
struct Conversions {
  void (*(*reader)(DType dtype))(const void* from, int64_t count, T* to);
  void (*(*writer)(DType dtype))(const T* from, int64_t count, void* to);
};
struct ConversionTable {
  Conversions<float> f32;
  Conversions<double> f64;
  Conversions<int64_t> i64;
};

}  // namespace
}  // namespace deckle::kernels::cpu::simd
#endif

HWY_BEFORE_NAMESPACE();
namespace deckle::kernels::cpu::simd::HWY_NAMESPACE {
namespace {

template <typename S, typename T>
void read_dense(const void* from, int64_t count, T* to) {
  const auto* source = static_cast<const Stored<S>*>(from);
  for (int64_t i = 0; i < count; ++i) to[i] = read<S, T>(source[i]);
}

template <typename S, typename T>
void write_dense(const T* from, int64_t count, void* to) {
  auto* target = static_cast<Stored<S>*>(to);
  for (int64_t i = 0; i < count; ++i) target[i] = write<S, T>(from[i]);
}

template <typename T>
constexpr Conversions<T> kConversions = {
    [](DType dtype) { return visit(dtype, [](auto tag) { return &read_dense<typename decltype(tag)::type, T>; }); },
    [](DType dtype) { return visit(dtype, [](auto tag) { return &write_dense<typename decltype(tag)::type, T>; }); }};
constexpr ConversionTable kTable = {kConversions<float>, kConversions<double>, kConversions<int64_t>};

}  // namespace

const ConversionTable& conversion_table() { return kTable; }

}  // namespace deckle::kernels::cpu::simd::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace deckle::kernels::cpu::simd {
namespace {

HWY_EXPORT(conversion_table);

template <typename T>
void load_strided(const void* from, DType dtype, int64_t stride, int64_t count, T* to) {
  visit(dtype, [&](auto tag) {
    using S = typename decltype(tag)::type;
    const auto* source = static_cast<const Stored<S>*>(from);
    if (stride == 0) {
      const T value = read<S, T>(*source);
      for (int64_t i = 0; i < count; ++i) to[i] = value;
    } else {
      for (int64_t i = 0; i < count; ++i) to[i] = read<S, T>(source[i * stride]);
    }
  });
}

template <typename T>
void store_strided(const T* from, int64_t count, void* to, DType dtype, int64_t stride) {
  visit(dtype, [&](auto tag) {
    using S = typename decltype(tag)::type;
    auto* target = static_cast<Stored<S>*>(to);
    for (int64_t i = 0; i < count; ++i) target[i * stride] = write<S, T>(from[i]);
  });
}

template <typename T>
void load(const Conversions<T>& conversions, const void* from, DType dtype, int64_t stride, int64_t count, T* to) {
  if (stride != 1) return load_strided(from, dtype, stride, count, to);
  if (count == 0) return;  // a tensor without elements has no address
  if (dtype == dtype_of<T>) return void(std::memcpy(to, from, static_cast<size_t>(count) * sizeof(T)));
  if constexpr (std::is_floating_point_v<T>) {
    if (dtype == DType::bfloat16) return widen(static_cast<const bfloat16*>(from), to, count);
    if (dtype == DType::float16) return widen(static_cast<const float16*>(from), to, count);
  }
  conversions.reader(dtype)(from, count, to);
}

template <typename T>
void store(const Conversions<T>& conversions, const T* from, int64_t count, void* to, DType dtype, int64_t stride) {
  if (stride != 1) return store_strided(from, count, to, dtype, stride);
  if (count == 0) return;
  if (dtype == dtype_of<T>) return void(std::memcpy(to, from, static_cast<size_t>(count) * sizeof(T)));
  if constexpr (std::is_floating_point_v<T>) {
    if (dtype == DType::bfloat16) return narrow(from, static_cast<bfloat16*>(to), count);
    if (dtype == DType::float16) return narrow(from, static_cast<float16*>(to), count);
  }
  conversions.writer(dtype)(from, count, to);
}

}  // namespace

void load_run(const void* from, DType dtype, int64_t stride, int64_t count, float* to) {
  load(DECKLE_SIMD(conversion_table)().f32, from, dtype, stride, count, to);
}
void load_run(const void* from, DType dtype, int64_t stride, int64_t count, double* to) {
  load(DECKLE_SIMD(conversion_table)().f64, from, dtype, stride, count, to);
}
void load_run(const void* from, DType dtype, int64_t stride, int64_t count, int64_t* to) {
  load(DECKLE_SIMD(conversion_table)().i64, from, dtype, stride, count, to);
}
void store_run(const float* from, int64_t count, void* to, DType dtype, int64_t stride) {
  store(DECKLE_SIMD(conversion_table)().f32, from, count, to, dtype, stride);
}
void store_run(const double* from, int64_t count, void* to, DType dtype, int64_t stride) {
  store(DECKLE_SIMD(conversion_table)().f64, from, count, to, dtype, stride);
}
void store_run(const int64_t* from, int64_t count, void* to, DType dtype, int64_t stride) {
  store(DECKLE_SIMD(conversion_table)().i64, from, count, to, dtype, stride);
}

template <Moved T>
void load_run(const void* from, DType, int64_t stride, int64_t count, T* to) {
  const auto* const source = static_cast<const T*>(from);
  if (stride == 1) return void(std::copy_n(source, count, to));
  for (int64_t i = 0; i < count; ++i) to[i] = source[i * stride];
}
template <Moved T>
void store_run(const T* from, int64_t count, void* to, DType, int64_t stride) {
  auto* const target = static_cast<T*>(to);
  if (stride == 1) return void(std::copy_n(from, count, target));
  for (int64_t i = 0; i < count; ++i) target[i * stride] = from[i];
}

template void load_run(const void*, DType, int64_t, int64_t, bfloat16*);
template void load_run(const void*, DType, int64_t, int64_t, float16*);
template void load_run(const void*, DType, int64_t, int64_t, int32_t*);
template void store_run(const bfloat16*, int64_t, void*, DType, int64_t);
template void store_run(const float16*, int64_t, void*, DType, int64_t);
template void store_run(const int32_t*, int64_t, void*, DType, int64_t);

}  // namespace deckle::kernels::cpu::simd
#endif
