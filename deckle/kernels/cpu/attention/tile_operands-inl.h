// Operands of the tile products (simd/amx.h): rows of bfloat16 in scratch, padded with zeros to whole tiles.

#if defined(DECKLE_ATTENTION_TILE_OPERANDS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef DECKLE_ATTENTION_TILE_OPERANDS_INL_H_
#undef DECKLE_ATTENTION_TILE_OPERANDS_INL_H_
#else
#define DECKLE_ATTENTION_TILE_OPERANDS_INL_H_
#endif

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <limits>

#include "deckle/base/scratch.h"
#include "deckle/kernels/cpu/attention/chunks.h"
#include "deckle/kernels/cpu/attention/exp-inl.h"
#include "deckle/kernels/cpu/attention/pack-inl.h"
#include "deckle/kernels/cpu/simd/amx.h"
#include "deckle/kernels/cpu/simd/amx_scores.h"

HWY_BEFORE_NAMESPACE();
namespace deckle::kernels::cpu {
namespace HWY_NAMESPACE {

#if HWY_TARGET == HWY_AVX3

/// Units of a contraction over n elements, in whole tiles.
constexpr int64_t tile_units(int64_t n) { return simd::round_up_tiles((n + 1) / 2); }

/// Stride in units or floats of rows of n: an odd number of cache lines, to avoid set conflicts between the rows of a tile.
constexpr int64_t odd_lines(int64_t n) { return ((n + 15) / 16 | 1) * 16; }

/// Up to `capacity` rows of n bfloat16, and the other layouts that products need.
struct TileOperand {
  int64_t width, units, stride;  // units: of a row, with its zeros
  uint32_t* rows;                // [capacity, stride]: contracted along the row, on the left

  TileOperand(Scratch& scratch, int64_t capacity, int64_t n)
      : width(n), units(tile_units(n)), stride(odd_lines(units)), rows(scratch.take<uint32_t>(capacity * stride)) {}

  /// Rows past `count` up to `padded` become 0.
  void load(const AttentionRows& from, int64_t first, int64_t count, int64_t padded, int64_t head) {
    const hn::ScalableTag<float> d;  // only moves bits
    const int64_t bytes = 2 * width;
    for (int64_t r = 0; r < count; ++r) {
      auto* to = reinterpret_cast<char*>(rows + r * stride);
      const char* source = row_address(DType::bfloat16, from, first + r, head);
      if (bytes == 4 * units) {
        for (int64_t at = 0; at < bytes; at += 64)
          hn::StoreU(hn::LoadU(d, reinterpret_cast<const float*>(source + at)), d, reinterpret_cast<float*>(to + at));
      } else {
        std::memcpy(to, source, static_cast<size_t>(bytes));
        std::memset(to + bytes, 0, static_cast<size_t>(4 * units - bytes));
      }
    }
    for (int64_t r = count; r < padded; ++r) clear(r);
  }
  void clear(int64_t row) { std::memset(rows + row * stride, 0, static_cast<size_t>(units) * 4); }

  /// Rows [first, first + 32) to [units, 32]: contracted along the row, on the right.
  void to_lanes(int64_t first, uint32_t* to, int64_t to_stride) const {
    transpose(reinterpret_cast<const float*>(rows + first * stride), stride, simd::kTileQueries, units,
              reinterpret_cast<float*>(to), to_stride);
  }

  /// Rows [0, count), a multiple of 32, to [2 units, stride]: contracted over the rows, on the left. `units_by_row`
  /// [units, count] is scratch.
  void to_key_pairs(int64_t count, uint32_t* units_by_row, uint32_t* to, int64_t to_stride) const {
    transpose(reinterpret_cast<const float*>(rows), stride, count, units, reinterpret_cast<float*>(units_by_row), count);
    simd::tile_key_pairs(units_by_row, count, units, count, to, to_stride);
  }
};

/// Keys or values of a block of the key-stationary passes, and after load_paired also as the left side of sums over keys.
struct TileKeyOperand : TileOperand {
  static constexpr int64_t kPairStride = kKeyBlock / 2 + 16;
  uint32_t *pairs, *units_by_row;

  TileKeyOperand(Scratch& scratch, int64_t n)
      : TileOperand(scratch, kKeyBlock, n),
        pairs(scratch.take<uint32_t>(2 * units * kPairStride)),
        units_by_row(scratch.take<uint32_t>(units * kKeyBlock)) {}

  void load_paired(const AttentionRows& from, int64_t first, int64_t count, int64_t padded, int64_t head) {
    load(from, first, count, padded, head);
    to_key_pairs(padded, units_by_row, pairs, kPairStride);
  }
};

/// Blocks of rows in a tile of the key-stationary passes.
inline constexpr int kTileRowBlocks = 4;

/// One operand of a row tile: rows, [block][units][32] and pairs of adjacent rows.
struct TileRowOperand : TileOperand {
  uint32_t* lanes;
  uint32_t* pairs;
  int64_t pair_stride;

  TileRowOperand(Scratch& scratch, int64_t n)
      : TileOperand(scratch, kTileRowBlocks * simd::kTileQueries, n),
        lanes(scratch.take<uint32_t>(kTileRowBlocks * simd::kTileQueries * units)),
        pairs(scratch.take<uint32_t>(kTileRowBlocks * simd::kTileQueries / 2 * odd_lines(2 * units))),
        pair_stride(odd_lines(2 * units)) {}

  /// Rows without visible keys (lse +inf) become 0: their contents must not reach a product, as 0 * NaN is NaN.
  void load_seen(const AttentionRows& from, int64_t first, int64_t count, int64_t head, const float* lse) {
    const int64_t padded = simd::round_up_keys(count);
    load(from, first, count, padded, head);
    for (int64_t r = 0; r < count; ++r) {
      if (lse[r] == std::numeric_limits<float>::infinity()) clear(r);
    }
    for (int64_t r = 0; r < padded; r += simd::kTileQueries) to_lanes(r, block(r / simd::kTileQueries), simd::kTileQueries);
    simd::tile_row_pairs(rows, stride, padded, 2 * units, pairs, pair_stride);
  }
  uint32_t* block(int64_t b) const { return lanes + b * units * simd::kTileQueries; }
};

/// Weights of 0 for a block of rows, laid out as simd::tile_gradient lays its own out.
inline void clear_weights(int64_t keys, std::initializer_list<uint32_t*> units, int64_t unit_stride,
                          std::initializer_list<uint32_t*> pairs, int64_t pair_stride) {
  for (uint32_t* to : units) {
    for (int64_t j = 0; j < keys; ++j) std::fill_n(to + j * unit_stride, simd::kTileQueries / 2, 0u);
  }
  for (uint32_t* to : pairs) {
    for (int64_t j = 0; j < keys / 2; ++j) std::fill_n(to + j * pair_stride, simd::kTileQueries, 0u);
  }
}

/// lse2 = lse log2 e of `count` rows; whether all of them may be subtracted from scores times log2 e.
inline bool are_near(const float* lse, int64_t count, float* lse2) {
  bool near = true;
  for (int64_t r = 0; r < count; ++r) {
    lse2[r] = lse[r] * static_cast<float>(kLog2E);
    near = near && !(std::abs(lse[r]) > simd::kFarReference && std::isfinite(lse[r]));
  }
  return near;
}

/// Tag of the arithmetic on AMX tiles.
struct OnTiles {
  using Element = float;
};

#endif

}  // namespace HWY_NAMESPACE
}  // namespace deckle::kernels::cpu
HWY_AFTER_NAMESPACE();

#endif
