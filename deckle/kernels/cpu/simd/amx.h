#pragma once

#include <cstdint>

#include "deckle/base/cpu_cap.h"

// Matrix products on AMX tiles: 16 rows of 64 bytes, bfloat16 in pairs as in bf16_dot.h, sums in float32. One TDPBF16PS
// multiplies 16 x 32 by 32 x 16 in 16 cycles, 16 times the rate of float32 FMAs.

namespace deckle::kernels::cpu::simd {

/// Rows and columns of a tile, and units (pairs) of its depth: operands are padded to multiples of it.
inline constexpr int64_t kTile = 16;

constexpr int64_t round_up_tiles(int64_t n) { return (n + kTile - 1) / kTile * kTile; }

/// C[m, n] = (add ? C : 0) + A[m, depth] . B[depth, n] in float32, depth counted in pairs; m, n and depth are rounded up to whole
/// tiles, which the operands must have room for, with zeros along depth in both. Sums run over depth in ascending order, 32
/// elements at a time (even and odd ones apart, rounded once each), whatever m and n are. Call only while a TileScope of this
/// thread lives.
void tile_matmul(int64_t m, int64_t n, int64_t depth, const uint32_t* a, int64_t lda, const uint32_t* b, int64_t ldb, float* c,
                 int64_t ldc, bool add);

/// Rows that are requested from memory while others are used: row r at first + r * stride; none if first is null. A product whose
/// operand comes from memory requests a tile for each that it reads: a burst between products would hold them up.
struct RowRequests {
  const char* first = nullptr;
  int64_t stride = 0;
};

/// C[keys, 16] = K[keys, depth] . B[depth, 16], ldc 16, for rows of K where they lie; keys are whole tiles. The bits of
/// tile_matmul.
void tile_scores(int64_t keys, int64_t depth, const uint32_t* k, int64_t ldk, const uint32_t* b, float* c,
                 const RowRequests& requests);

/// One of the products of tile_sums: C[16, 16] += A[16, keys] . B[keys, 16], from a column of each.
struct TileSum {
  const uint32_t *a, *b;
  float* c;
  RowRequests requests;  // 64 bytes of a row for each of B
};

/// Up to four products with rows of B where they lie, side by side, for the next product of a sum waits for the last one. Sums
/// with the same A follow each other. The bits of tile_matmul.
void tile_sums(int64_t keys, const TileSum* sums, int64_t count, int64_t lda, int64_t ldb, int64_t ldc, bool add);

/// Configures the tile registers of the calling thread and releases them: other libraries of the process configure them too.
/// Create one only if bf16_products() says tiles.
class TileScope {
 public:
  TileScope();
  ~TileScope();
  TileScope(const TileScope&) = delete;
  TileScope& operator=(const TileScope&) = delete;
};

/// bf16_arithmetic(), or tiles if they are emulated.
Bf16Arithmetic bf16_products();

/// For tests, on any machine: tile products by a software model that matches the hardware bit for bit.
void model_tiles(bool on);

}  // namespace deckle::kernels::cpu::simd
