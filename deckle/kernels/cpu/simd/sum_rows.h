#pragma once

#include <cstdint>

#include "deckle/base/dtype.h"

namespace deckle::kernels::cpu::simd {

/// Rows of `width` elements each, side by side from `from` on, of which a sum takes those that are listed.
struct ChosenRows {
  const void* from;
  int64_t width;
  const int64_t* rows;
  int64_t count;
  const double* factors = nullptr;  // one for each, of floating rows; null: ones
  double divisor = 1;               // of the sum of floating rows
};

/// to = (base, a row or null for zeros, plus the chosen rows in their order) / divisor. Floating elements are added up in
/// float64, integers in int64 (modulo 2^64), and rounded once.
using SumRows = void (*)(const void* base, const ChosenRows& chosen, void* to);

/// That function for elements of a dtype.
SumRows sum_rows(DType dtype);

}  // namespace deckle::kernels::cpu::simd
