#pragma once

#include <cstdint>

// Matrix products on pairs of bfloat16 with the AVX512-BF16 dot product: twice the rate of float32 on AMD, half of it on
// Intel. Call only where cpu_isa() is avx512_bf16 or above. A pair is a uint32: the element of even index along the contraction
// in the low half.

namespace deckle::kernels::cpu::simd {

/// C[m, n] = (add ? rescale * C : 0) + factor * A[m, depth] . B[depth, n] in float32, with depth counted in pairs. A is read by
/// rows (a[i * lda + k]) or, if `by_columns`, as a[k * lda + i]. n is rounded up to 16 columns, which B and C must have room for.
/// rescale: one float per column, or null for 1. Sums run over k in ascending order whatever m and n are.
void bf16_matmul(bool by_columns, int64_t m, int64_t n, int64_t depth, const uint32_t* a, int64_t lda, const uint32_t* b,
                 int64_t ldb, float* c, int64_t ldc, bool add, const float* rescale, float factor);

/// to[r, c] = pair (from[r, 2c], from[r, 2c + 1]), rounded to nearest even; columns is a multiple of 32 or 16.
void bf16_pairs_along_columns(const float* from, int64_t from_stride, int64_t rows, int64_t columns, uint32_t* to,
                              int64_t to_stride);

/// to[r, c] = pair (from[2r, c], from[2r + 1, c]); a missing last row counts as 0; columns is a multiple of 16.
void bf16_pairs_along_rows(const float* from, int64_t from_stride, int64_t rows, int64_t columns, uint32_t* to,
                           int64_t to_stride);

}  // namespace deckle::kernels::cpu::simd
