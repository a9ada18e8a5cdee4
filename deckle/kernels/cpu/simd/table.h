#pragma once

#include <type_traits>

#include "deckle/base/dtype.h"

namespace deckle::kernels::cpu {

/// The dispatch table of a SIMD file with functions of float and of double elements: a struct of function pointers for each. A
/// file has one HWY_EXPORT, of the function that returns its table; one function for several types is a tuple of pointers.
template <template <typename> class Functions>
struct RealTable {
  Functions<float> f32;
  Functions<double> f64;

  template <typename T>
  const Functions<T>& of() const {
    if constexpr (std::is_same_v<T, double>)
      return f64;
    else
      return f32;
  }

  /// body(TypeTag<T>{}, of<T>()) for elements of `dtype`: float64 in double, the other floating ones in float.
  template <typename Body>
  void visit(DType dtype, Body&& body) const {
    if (dtype == DType::float64)
      body(TypeTag<double>{}, f64);
    else
      body(TypeTag<float>{}, f32);
  }
};

}  // namespace deckle::kernels::cpu
