// Scalar functions on vectors, for float and double: what the formulas of ops/functions.yaml may call.
//
// NAME(d, x): d is the Highway tag, x a vector of it. Limits are IEEE's (C's Annex F): signs of zero, infinities, NaN and
// subnormal inputs and results are right. tests/kernels/cpu/simd/math_test.cpp prints the largest error of each, in units
// of the last place, on every instruction set, and holds it to a bound (1.25 for exp, at most 6 for any). Coefficients: fit.py.
//
// Included once per instruction set, after <hwy/highway.h>, as Highway's *-inl.h files are.
#if defined(DECKLE_KERNELS_CPU_SIMD_MATH_H) == defined(HWY_TARGET_TOGGLE)
#ifdef DECKLE_KERNELS_CPU_SIMD_MATH_H
#undef DECKLE_KERNELS_CPU_SIMD_MATH_H
#else
#define DECKLE_KERNELS_CPU_SIMD_MATH_H
#endif

#include "deckle/kernels/cpu/simd/math_atan.h"
#include "deckle/kernels/cpu/simd/math_basic.h"
#include "deckle/kernels/cpu/simd/math_bits.h"
#include "deckle/kernels/cpu/simd/math_erf.h"
#include "deckle/kernels/cpu/simd/math_exp.h"
#include "deckle/kernels/cpu/simd/math_log.h"
#include "deckle/kernels/cpu/simd/math_pow.h"
#include "deckle/kernels/cpu/simd/math_quotient.h"
#include "deckle/kernels/cpu/simd/math_trig.h"

#endif
