#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>

#include "deckle/base/error.h"
#include "deckle/base/half.h"

namespace deckle {

/// Element types. The order is also the order of promotion within a category.
enum class DType : uint8_t { bool_, uint8, int32, int64, float16, bfloat16, float32, float64 };

inline constexpr int kDTypeCount = 8;

/// By arithmetic: a table would be copied to the stack by each call, on a GPU to the memory of each thread.
constexpr int64_t item_size(DType dtype) {
  constexpr uint32_t kLogarithms = 0x32113200;  // of the sizes, four bits each, that of bool the lowest
  return int64_t{1} << (kLogarithms >> (4 * static_cast<int>(dtype)) & 15u);
}

constexpr std::string_view name(DType dtype) {
  constexpr std::string_view names[kDTypeCount] = {"bool",    "uint8",    "int32",   "int64",
                                                   "float16", "bfloat16", "float32", "float64"};
  return names[static_cast<int>(dtype)];
}

inline std::string to_string(DType dtype) { return std::string(name(dtype)); }

constexpr bool is_floating(DType dtype) { return dtype >= DType::float16; }
constexpr bool is_integral(DType dtype) { return !is_floating(dtype); }

template <typename T>
struct TypeTag {
  using type = T;
};

namespace detail {
template <typename T>
struct DTypeOf;
template <>
struct DTypeOf<bool> {
  static constexpr DType value = DType::bool_;
};
template <>
struct DTypeOf<uint8_t> {
  static constexpr DType value = DType::uint8;
};
template <>
struct DTypeOf<int32_t> {
  static constexpr DType value = DType::int32;
};
template <>
struct DTypeOf<int64_t> {
  static constexpr DType value = DType::int64;
};
/// Of long and long long, both 64 bits wide, the one that is not int64_t.
template <>
struct DTypeOf<std::conditional_t<std::is_same_v<int64_t, long>, long long, long>> {
  static constexpr DType value = DType::int64;
};
template <>
struct DTypeOf<float16> {
  static constexpr DType value = DType::float16;
};
template <>
struct DTypeOf<bfloat16> {
  static constexpr DType value = DType::bfloat16;
};
template <>
struct DTypeOf<float> {
  static constexpr DType value = DType::float32;
};
template <>
struct DTypeOf<double> {
  static constexpr DType value = DType::float64;
};

template <typename T>
inline constexpr bool kHasDType = requires {
  DTypeOf<T>::value;
};

template <typename T>
constexpr DType dtype_of_element() {
  static_assert(kHasDType<T>, "elements are bool, uint8_t, int32_t, int64_t, float16, bfloat16, float or double: convert others");
  if constexpr (kHasDType<T>) return DTypeOf<T>::value;
  return {};
}
}  // namespace detail

template <typename T>
inline constexpr DType dtype_of = detail::dtype_of_element<T>();

/// Calls `f(TypeTag<T>{})` with the C++ type of `dtype`.
template <typename F>
decltype(auto) visit(DType dtype, F&& f) {
  switch (dtype) {
    case DType::bool_:
      return f(TypeTag<bool>{});
    case DType::uint8:
      return f(TypeTag<uint8_t>{});
    case DType::int32:
      return f(TypeTag<int32_t>{});
    case DType::int64:
      return f(TypeTag<int64_t>{});
    case DType::float16:
      return f(TypeTag<float16>{});
    case DType::bfloat16:
      return f(TypeTag<bfloat16>{});
    case DType::float32:
      return f(TypeTag<float>{});
    case DType::float64:
      return f(TypeTag<double>{});
  }
  throw Error(ErrorKind::runtime, "a dtype has an unknown number (expected 0 to 7)");
}

/// As visit, for the four floating types only; throws for others.
template <typename F>
decltype(auto) visit_floating(DType dtype, F&& f) {
  switch (dtype) {
    case DType::float16:
      return f(TypeTag<float16>{});
    case DType::bfloat16:
      return f(TypeTag<bfloat16>{});
    case DType::float32:
      return f(TypeTag<float>{});
    case DType::float64:
      return f(TypeTag<double>{});
    default:
      throw Error("the dtype is " + std::string(name(dtype)) + " (expected a floating one)");
  }
}

}  // namespace deckle
