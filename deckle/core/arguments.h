#pragma once

#include <concepts>
#include <cstdint>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

/// Numbers as arguments that stand in their places: each takes its kind and nothing that C++ would convert to it. A bool is no
/// dim, a fraction is no size, a text is not true. Options, which are named, are plain fields: braces refuse what narrows.
namespace deckle {

template <typename T>
concept Letter = std::same_as<T, char> || std::same_as<T, wchar_t> || std::same_as<T, char8_t> || std::same_as<T, char16_t> ||
    std::same_as<T, char32_t>;

/// What converts to an integer and is none: x.argmax(true) and x.softmax(1.5) are no dims.
template <typename T>
concept NoInteger = std::floating_point<T> || std::same_as<T, bool> || Letter<T>;

/// What is one: any of the integers, and enumerators that convert to them.
template <typename T>
concept Integer = (std::integral<T> || (std::is_enum_v<T> && std::convertible_to<T, int64_t>)) && !NoInteger<T>;

namespace detail {
[[noreturn]] void refuse_large_integer();
template <Integer T>
int64_t integer_of(T value) {
  if constexpr (std::unsigned_integral<T> && sizeof(T) == sizeof(int64_t)) {
    if (!std::in_range<int64_t>(value)) refuse_large_integer();
  }
  return static_cast<int64_t>(value);
}
}  // namespace detail

/// A dim, an index, a count.
class IntArg {
 public:
  template <Integer T>
  IntArg(T value) : value_(detail::integer_of(value)) {}
  template <NoInteger T>
  IntArg(T /* an integer is expected, neither a bool nor a fraction */) = delete;
  operator int64_t() const { return value_; }

 private:
  int64_t value_;
};

/// The same, or nothing.
class OptionalIntArg : public std::optional<int64_t> {
 public:
  OptionalIntArg() = default;
  OptionalIntArg(std::nullopt_t) {}
  OptionalIntArg(std::optional<int64_t> value) : std::optional<int64_t>(value) {}
  OptionalIntArg(IntArg value) : std::optional<int64_t>(value) {}
  template <Integer T>
  OptionalIntArg(T value) : std::optional<int64_t>(detail::integer_of(value)) {}
  template <NoInteger T>
  OptionalIntArg(T /* an integer is expected, neither a bool nor a fraction */) = delete;
};

/// true or false: x.sum(0, 1) is no sum over two dims, and "no" is not true.
class BoolArg {
 public:
  template <typename T>
  requires(std::same_as<T, bool> || std::same_as<T, std::vector<bool>::reference>) BoolArg(T value) : value_(value) {}
  template <typename T>
  requires(std::is_scalar_v<T> && !std::same_as<T, bool>)
      BoolArg(T /* true or false is expected; dims are a list: x.sum({0, 1}) */)
  = delete;
  operator bool() const { return value_; }

 private:
  bool value_;
};

/// A real number.
class FloatArg {
 public:
  template <typename T>
  requires(std::floating_point<T> || Integer<T>) FloatArg(T value) : value_(static_cast<double>(value)) {}
  template <typename T>
  requires(std::same_as<T, bool> || Letter<T>) FloatArg(T /* a number is expected */)
  = delete;
  FloatArg(IntArg value) : value_(static_cast<double>(int64_t{value})) {}
  operator double() const { return value_; }

 private:
  double value_;
};

}  // namespace deckle
