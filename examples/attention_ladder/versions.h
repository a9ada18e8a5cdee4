#pragma once

#include <cstdint>

// One head of attention, out = softmax(scale q k^T) v, from the definition to the tiles that the library's kernel is made of.
// q, k, v, out: [n, d] row-major.

using Attention = void (*)(const float* q, const float* k, const float* v, float* out, int64_t n, int64_t d, float scale);

/// The definition: every score in memory, O(n^2).
void naive(const float* q, const float* k, const float* v, float* out, int64_t n, int64_t d, float scale);

/// One row at a time with the online softmax: the same numbers in O(n) memory.
void online(const float* q, const float* k, const float* v, float* out, int64_t n, int64_t d, float scale);

/// 16 rows at a time, a tile of 64 keys in cache: every key that is loaded serves 16 queries.
void tiled(const float* q, const float* k, const float* v, float* out, int64_t n, int64_t d, float scale);

/// As tiled, with scores and results transposed: lane = query row, so that maximum, sum and rescaling need no sums across lanes.
void transposed(const float* q, const float* k, const float* v, float* out, int64_t n, int64_t d, float scale);

/// As transposed, with 8 keys at a time in registers: each vector of queries that is loaded serves all of them. What is left to
/// the library: exp in vectors, two vectors of queries, packed tiles, every mask and derivative.
void blocked(const float* q, const float* k, const float* v, float* out, int64_t n, int64_t d, float scale);
