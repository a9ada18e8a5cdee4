#pragma once

#include <concepts>
#include <cstdint>
#include <string>
#include <utility>

#include "deckle/base/dtype.h"
#include "deckle/core/arguments.h"

namespace deckle {

/// `value` truncated towards zero; an error if that is no 64-bit integer.
int64_t to_integer(double value);

/// A number of any kind as an argument. It takes part in type promotion by its category alone (bool < integer < floating),
/// so float32 * 2.5 stays float32.
class Scalar {
 public:
  Scalar(/* {} is no number: say which one; clamp_min and clamp_max take one bound */) = delete;
  template <std::same_as<bool> T>  // not what converts to bool, as pointers and texts do
  Scalar(T value) : dtype_(DType::bool_), integer_(value) {}
  template <Integer T>
  Scalar(T value) : dtype_(DType::int64), integer_(detail::integer_of(value)) {}
  Scalar(IntArg value) : dtype_(DType::int64), integer_(value) {}
  Scalar(FloatArg value) : dtype_(DType::float64), floating_(value) {}
  template <Letter T>
  Scalar(T /* a number is expected */) = delete;
  Scalar(const char* /* a number is expected, not a text */) = delete;
  template <std::floating_point T>
  Scalar(T value) : dtype_(DType::float64), floating_(static_cast<double>(value)) {}

  DType dtype() const { return dtype_; }  // bool_, int64 or float64
  bool is_floating() const { return dtype_ == DType::float64; }
  double to_double() const { return is_floating() ? floating_ : static_cast<double>(integer_); }
  /// Truncated towards zero; an error if that is no 64-bit integer.
  int64_t to_int64() const { return is_floating() ? to_integer(floating_) : integer_; }
  bool is_zero() const { return is_floating() ? floating_ == 0 : integer_ == 0; }

  friend bool operator==(const Scalar& a, const Scalar& b) {
    return a.is_floating() || b.is_floating() ? a.to_double() == b.to_double() : a.integer_ == b.integer_;
  }

 private:
  DType dtype_;
  union {
    int64_t integer_;
    double floating_;
  };
};

std::string to_string(const Scalar& scalar);

}  // namespace deckle
