#pragma once

#include <cstdint>

// What happens to tiles of scores [keys, queries] between the tile products of amx.h, in AVX-512 with AVX512-BF16, which every
// processor with tiles has. Scores have 32 columns, queries; keys come in groups of 32. Operands that are contracted over keys
// hold keys i and i + 16 of a group in unit i: any order serves as long as both operands have it, and this one needs no
// permutation of the other operand. Operands that are contracted over queries hold neighbours.

namespace deckle::kernels::cpu::simd {

inline constexpr int64_t kTileQueries = 32;
inline constexpr int64_t kKeyGroup = 32;

/// References of rows beyond it, scaled, as of scores all of which have a bias that stands for -inf, are far: times log2 e they
/// are rounded by more than exponents hold, or leave float32. They are subtracted from scores first.
inline constexpr float kFarReference = 0x1p20f;

constexpr int64_t round_up_keys(int64_t n) { return (n + kKeyGroup - 1) / kKeyGroup * kKeyGroup; }

/// Online softmax of `keys` rows of scores (a multiple of 32), `columns` = 16 or 32 of them: with z = factor * score in units of
/// log2, p = 2^(z - reference) goes to pairs[keys / 2, 32] as bfloat16 and its sum to `sum`. `reference` is kept in units of
/// scores. Where z of a column exceeds it by more than 8 those of all columns become the maximum, `sum` is rescaled, true is
/// returned, and what was added up before must be multiplied by `rescale`. 2^x is within 3e-7 of its value, exactly 0 for -inf, 1
/// for 0, NaN for NaN.
bool tile_softmax(const float* scores, int64_t keys, int64_t columns, float factor, float* reference, float* sum, uint32_t* pairs,
                  float* rescale);

/// rows[r, 32] *= factors[32] for `columns` = 16 or 32 of them.
void tile_rescale(float* rows, int64_t count, int64_t columns, const float* factors);

/// pairs[keys / 2, 32] become 0 where keep[keys, 32] is 0.
void tile_drop(uint32_t* pairs, int64_t keys, const uint8_t* keep);

/// to[2 c, k] and to[2 c + 1, k] = pairs of keys of columns 2 c and 2 c + 1, from units[c, key] = columns 2 c and 2 c + 1 of that
/// key; keys is a multiple of 32.
void tile_key_pairs(const uint32_t* units, int64_t unit_stride, int64_t count, int64_t keys, uint32_t* to, int64_t to_stride);

/// to[r / 2, c] = pair (from[r, c], from[r + 1, c]) of bfloat16 rows of `columns` elements; a missing last row counts as 0, and
/// so do columns from there to the next multiple of 16, which `to` must have room for. Strides in units.
void tile_row_pairs(const uint32_t* from, int64_t from_stride, int64_t rows, int64_t columns, uint32_t* to, int64_t to_stride);

}  // namespace deckle::kernels::cpu::simd
