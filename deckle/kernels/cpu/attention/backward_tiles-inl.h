// The backward of bfloat16 on AMX tiles: the pass of backward.cpp with other operands.
//
// Tiles are 128 rows by 64 keys. Per block of 32 rows: S^T = K Q^T and dP^T = V dO^T, then P and dZ in vectors, rounded once and
// laid out for the next products: adjacent rows in a pair for dV += P dO and dK += dZ Q, keys i and i + 16 in a pair for dQ^T +=
// K^T dZ.
//
// GF/s, machine, commit and setting of forward_tiles-inl.h, five products counted, two cores and 16:
//   the pair dot product (arithmetic-inl.h)          131
//   tiles of 128 rows x 64 keys                      585    3,226

#if defined(DECKLE_ATTENTION_BACKWARD_TILES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef DECKLE_ATTENTION_BACKWARD_TILES_INL_H_
#undef DECKLE_ATTENTION_BACKWARD_TILES_INL_H_
#else
#define DECKLE_ATTENTION_BACKWARD_TILES_INL_H_
#endif

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "deckle/base/scratch.h"
#include "deckle/kernels/cpu/attention/bias_strip-inl.h"
#include "deckle/kernels/cpu/attention/chunks.h"
#include "deckle/kernels/cpu/attention/dropout-inl.h"
#include "deckle/kernels/cpu/attention/exp-inl.h"
#include "deckle/kernels/cpu/attention/feature_gradients-inl.h"
#include "deckle/kernels/cpu/attention/features-inl.h"
#include "deckle/kernels/cpu/attention/geometry.h"
#include "deckle/kernels/cpu/attention/gradient_step-inl.h"
#include "deckle/kernels/cpu/attention/pack-inl.h"
#include "deckle/kernels/cpu/attention/prefetch.h"
#include "deckle/kernels/cpu/attention/row_statistics-inl.h"
#include "deckle/kernels/cpu/attention/row_tile-inl.h"
#include "deckle/kernels/cpu/attention/scores-inl.h"
#include "deckle/kernels/cpu/attention/tile_operands-inl.h"
#include "deckle/kernels/cpu/simd/amx_gradient.h"

HWY_BEFORE_NAMESPACE();
namespace deckle::kernels::cpu {
namespace HWY_NAMESPACE {

#if HWY_TARGET == HWY_AVX3

/// The part of a task that lies in `block_keys`, which are its first if `fresh`; `next` is what this thread goes on with.
inline void backward_block_on_tiles(const AttentionProblem& problem, const AttentionOperands& x,
                                    const AttentionResults& cotangent, const RowStatistics<float>& statistics,
                                    const AttentionOperands& gradient, const QueryGradient<float>& dq_target,
                                    FeatureGradients<float>& feature_gradients, BiasStrip<float>& strip, const KeyTask& task,
                                    const KeyRange& block_keys, bool fresh, const KeyBlock& next) {
  constexpr int64_t kW = simd::kTileQueries, kRows = kTileRowBlocks * kW;
  const int64_t D = problem.head_dim, Dv = problem.value_dim, group = problem.group();
  const Sequence sequence(problem, task.sequence);
  const bool want_dq = gradient.q.data != nullptr, want_dk = gradient.k.data != nullptr, want_dv = gradient.v.data != nullptr;
  const bool want_dz = want_dq || want_dk || feature_gradients.any();
  const float scale = static_cast<float>(problem.scale), dropout_factor = static_cast<float>(Dropout::factor(problem.dropout));

  Scratch scratch;
  TileKeyOperand k(scratch, D);
  TileOperand v(scratch, kKeyBlock, Dv);
  TileRowOperand q(scratch, D), dout(scratch, Dv);
  const int64_t d_rows = 2 * k.units, dk_stride = odd_lines(2 * k.units), dv_stride = odd_lines(2 * v.units);
  constexpr int64_t kUnitStride = kRows / 2 + 16, kDzStride = kRows + 16;
  float* dk = scratch.take<float>(kKeyBlock * dk_stride);
  float* dv = scratch.take<float>(kKeyBlock * dv_stride);
  float* dq_lanes = scratch.take<float>(d_rows * kDzStride);  // dQ^T
  float* dq = scratch.take<float>(kRows * dk_stride);
  float* scores = scratch.take<float>(kTileKeys * kW);    // S, then P: [keys, kW]
  float* products = scratch.take<float>(kTileKeys * kW);  // dP, then dZ, then dY
  float* tanh_tile = scratch.take<float>(kTileKeys * kW);
  auto* p_units = scratch.take<uint32_t>(kTileKeys * kUnitStride);
  auto* dy_units = scratch.take<uint32_t>(kTileKeys * kUnitStride);
  auto* dy_pairs = scratch.take<uint32_t>(kTileKeys / 2 * kDzStride);
  auto* keep = scratch.take<uint8_t>(kTileKeys * kW);
  float* lse = scratch.take<float>(kRows);
  float* lse2 = scratch.take<float>(kRows);
  float* delta = scratch.take<float>(kRows);
  const FeatureScratch<float> feature_scratch(scratch);
  RowTile<float, kTileRowBlocks, simd::kKeyGroup> tile;

  const int64_t first_key = sequence.first_key + block_keys.begin, count = block_keys.end - block_keys.begin,
                padded = simd::round_up_keys(count);
  k.load_paired(x.k, first_key, count, padded, task.kv_head);
  v.load(x.v, first_key, count, padded, task.kv_head);
  std::memset(dk, 0, static_cast<size_t>(padded * dk_stride) * sizeof(float));
  std::memset(dv, 0, static_cast<size_t>(padded * dv_stride) * sizeof(float));
  const simd::TileScope tiles;
  for (int64_t h = task.kv_head * group; h < (task.kv_head + 1) * group; ++h) {
    const Features<float> features(problem, x, sequence, h);
    const Dropout dropout(problem.dropout, task.sequence, h);
    const bool plain = scale > 0 && !features.any() && !dropout.on() && !feature_gradients.any();
    for (int64_t first = 0; first < sequence.rows; first += kRows) {
      const int64_t row = sequence.first_row + first;
      if (!tile.place(problem, sequence, first, block_keys)) {
        if (fresh && want_dq) dq_target.clear(task.chunk, row, tile.count, h);
        continue;
      }
      const int64_t lanes = tile.blocks * kW;
      statistics.load(row, tile.count, kRows, h, lse, delta);
      const bool near = are_near(lse, lanes, lse2);
      q.load_seen(x.q, row, tile.count, h, lse);
      dout.load_seen(cotangent.out, row, tile.count, h, lse);
      RowPrefetch soon = next_gradient_rows(problem, x, cotangent, gradient, task, block_keys, h, first, kRows, next,
                                            fresh && dq_target.in_place());
      soon.spread(tile.blocks * ((tile.seen.end - tile.seen.begin + kTileKeys - 1) / kTileKeys));
      bool dq_started = false;
      for (int64_t key = tile.seen.begin; key < tile.seen.end; key += kTileKeys) {
        const int64_t end = std::min(key + kTileKeys, tile.seen.end), keys = simd::round_up_keys(end - key),
                      offset = key - block_keys.begin;
        for (int64_t block = 0; block < tile.blocks; ++block) {
          const LaneRange<float>& range = tile.range[block];
          const TilePlace at = tile.at(block, key, end - key);
          uint32_t* p_block = p_units + block * kW / 2;
          uint32_t* dy_block = dy_units + block * kW / 2;
          uint32_t* pair_block = dy_pairs + block * kW;
          if (key >= range.outer.end || key + keys <= range.outer.begin || !features.touches(at)) {
            clear_weights(keys, {p_block, dy_block}, kUnitStride, {pair_block}, kDzStride);
            continue;
          }
          soon.step();
          simd::tile_matmul(keys, kW, k.units, k.rows + offset * k.stride, k.stride, q.block(block), kW, scores, kW, false);
          if (want_dz)
            simd::tile_matmul(keys, kW, v.units, v.rows + offset * v.stride, v.stride, dout.block(block), kW, products, kW,
                              false);
          if (plain && near) {
            if (range.cuts(key, key + keys)) mask_scores(scores, kW, key, keys, range);
            simd::tile_gradient(scores, products, keys, static_cast<float>(problem.scale * kLog2E), lse2 + block * kW,
                                delta + block * kW, p_block, dy_block, kUnitStride, pair_block, kDzStride);
            continue;
          }
          scale_scores(scores, keys * kW, scale);
          if (features.any()) features.apply(scores, kW, at, feature_scratch, tanh_tile, strip.bias(h, at));
          if (range.cuts(key, key + keys)) mask_scores(scores, kW, key, keys, range);
          if (dropout.on()) {
            dropout.tile(at.row, kW, key, keys, keep, kW);
            drop(products, kW, keys, kW, keep, dropout_factor);
          }
          gradient_step(scores, products, kW, keys, kW, lse + block * kW, delta + block * kW);
          if (dropout.on()) drop(scores, kW, keys, kW, keep, dropout_factor);
          if (feature_gradients.any()) feature_gradients.add(task, sequence, h, at, products, kW, feature_scratch, &strip);
          if (features.capped()) uncap(products, tanh_tile, kW, at.keys, at.lanes);
          if (feature_gradients.any())
            feature_gradients.add_before_cap(task, sequence, h, at, products, kW, feature_scratch, &strip);
          simd::tile_gradient_units(scores, products, keys, p_block, dy_block, kUnitStride, pair_block, kDzStride);
        }
        if (want_dv)
          simd::tile_matmul(keys, 2 * v.units, lanes / 2, p_units, kUnitStride, dout.pairs, dout.pair_stride,
                            dv + offset * dv_stride, dv_stride, true);
        if (want_dk)
          simd::tile_matmul(keys, d_rows, lanes / 2, dy_units, kUnitStride, q.pairs, q.pair_stride, dk + offset * dk_stride,
                            dk_stride, true);
        if (want_dq)
          simd::tile_matmul(d_rows, lanes, keys / 2, k.pairs + offset / 2, k.kPairStride, dy_pairs, kDzStride, dq_lanes,
                            kDzStride, dq_started);
        dq_started = true;
      }
      if (!want_dq) continue;
      transpose(dq_lanes, kDzStride, d_rows, lanes, dq, dk_stride);
      dq_target.add(task.chunk, row, tile.count, h, dq, dk_stride, scale, fresh);
    }
  }
  if (want_dk) {
    scale_scores(dk, padded * dk_stride, scale);
    store_rows(problem.dtype, gradient.k, first_key, count, task.kv_head, D, dk, dk_stride);
  }
  if (want_dv) store_rows(problem.dtype, gradient.v, first_key, count, task.kv_head, Dv, dv, dv_stride);
}

#endif

}  // namespace HWY_NAMESPACE
}  // namespace deckle::kernels::cpu
HWY_AFTER_NAMESPACE();

#endif
