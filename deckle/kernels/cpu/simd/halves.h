#pragma once

#include <cstdint>

#include "deckle/base/half.h"

namespace deckle::kernels::cpu::simd {

/// to[i] = from[i], exactly.
void widen(const bfloat16* from, float* to, int64_t count);
void widen(const float16* from, float* to, int64_t count);

void widen(const bfloat16* from, double* to, int64_t count);
void widen(const float16* from, double* to, int64_t count);

/// to[i] = from[i] rounded to nearest, ties to even, once; NaN stays NaN.
void narrow(const float* from, bfloat16* to, int64_t count);
void narrow(const float* from, float16* to, int64_t count);
void narrow(const double* from, bfloat16* to, int64_t count);
void narrow(const double* from, float16* to, int64_t count);

/// from[i] = high[i] + low[i], exactly: bfloat16 holds 8 of the 11 bits, and the rest. False, and what is written means nothing,
/// where an element is not finite.
bool split(const float16* from, bfloat16* high, bfloat16* low, int64_t count);

}  // namespace deckle::kernels::cpu::simd
