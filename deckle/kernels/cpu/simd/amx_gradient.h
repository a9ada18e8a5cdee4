#pragma once

#include <cstdint>

// The gradient and the second order of softmax on tiles of scores [keys, queries], as amx_scores.h has softmax itself.

namespace deckle::kernels::cpu::simd {

/// The gradient of softmax: p = 2^(factor * score - lse2) and dz = p (product - delta), rounded to bfloat16, for `keys` rows of
/// 32 scores each: p and dz by neighbouring queries to p_units and dz_units [keys, unit_stride], 16 units each, and dz by keys i
/// and i + 16 to dz_pairs [keys / 2, pair_stride], 32 units each.
void tile_gradient(const float* scores, const float* products, int64_t keys, float factor, const float* lse2, const float* delta,
                   uint32_t* p_units, uint32_t* dz_units, int64_t unit_stride, uint32_t* dz_pairs, int64_t pair_stride);

/// The same where p and dz are given, as `p` and `dz` [keys, 32]; p goes nowhere if p_units is null.
void tile_gradient_units(const float* p, const float* dz, int64_t keys, uint32_t* p_units, uint32_t* dz_units,
                         int64_t unit_stride, uint32_t* dz_pairs, int64_t pair_stride);

/// The second order: tiles [keys, 32] of products of inputs, and of the 32 rows lse log2 e, Delta, and the tangents of lse and
/// Delta.
struct SecondScores {
  const float *scores, *tangents, *products, *product_tangents;
  const float *lse2, *delta, *lse_tangent, *delta_tangent;
};

/// Where its weights go in bfloat16, as in tile_gradient; `p` may be null.
struct SecondUnits {
  uint32_t *p, *p_tangent, *dz, *dz_tangent;
  int64_t unit_stride;
  uint32_t *dz_pairs, *dz_tangent_pairs;
  int64_t pair_stride;
};

/// p = 2^(factor * score - lse2) and, with c = scale * tangent - lse_tangent where p is not 0, else 0, and s = product - delta:
/// p c, dz = p s, and the tangent of dz, p (c s + product_tangent - delta_tangent).
void tile_second(const SecondScores& from, int64_t keys, float factor, float scale, const SecondUnits& to);

}  // namespace deckle::kernels::cpu::simd
