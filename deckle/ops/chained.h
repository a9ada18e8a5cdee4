#pragma once

#include "deckle/base/check.h"
#include "deckle/core/rethrow.h"
#include "deckle/core/tensor.h"

/// What C++ reads otherwise than Python, in operators on tensors: `0 < x < 3` is (0 < x) < 3, and `i & 1 == 0` is i & (1 == 0).
namespace deckle::chained {

inline bool of_bools(const Scalar& number) { return number.dtype() == DType::bool_; }
template <typename T>
bool of_bools(const T& tensor) {
  return tensor.defined() && tensor.dtype() == DType::bool_;
}
inline bool of_numbers(const Scalar& number) { return !of_bools(number); }
template <typename T>
bool of_numbers(const T& tensor) {
  return tensor.defined() && tensor.dtype() != DType::bool_;
}

/// Refuses an order between truth values and numbers.
template <typename A, typename B>
void check_order(const char* op, const A& a, const B& b) {
  if (!(of_bools(a) && of_numbers(b)) && !(of_numbers(a) && of_bools(b))) [[likely]]
    return;
  call_as(op, [] {
    fail(
        "truth values are compared with numbers (expected numbers: 0 < x < 3 is (0 < x) & (x < 3) here; lt, le, gt and ge take "
        "truth values as 0 and 1)");
  });
}

/// Refuses the bits of integers with true or false.
template <typename A>
void check_bits(const char* op, const A& tensor, const Scalar& number) {
  if (!of_bools(number) || !of_numbers(tensor)) [[likely]]
    return;
  call_as(op, [] { fail("integers meet true or false (expected integers: i & 1 == 0 is i & (1 == 0); write (i & 1) == 0)"); });
}

}  // namespace deckle::chained
