// The second order of bfloat16 on AMX tiles: the key-stationary pass of second.cpp with the tiles and operands of
// backward_tiles-inl.h.
//
// Products whose factors are inputs (z, tz, dP, tdP) round nothing. P, P (tz - tlse), dZ and tdZ come of them in float32, with
// the unrounded statistics of the rows, and are rounded once, each as a whole: its parts cancel.

#if defined(DECKLE_ATTENTION_SECOND_TILES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef DECKLE_ATTENTION_SECOND_TILES_INL_H_
#undef DECKLE_ATTENTION_SECOND_TILES_INL_H_
#else
#define DECKLE_ATTENTION_SECOND_TILES_INL_H_
#endif

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "deckle/base/scratch.h"
#include "deckle/kernels/cpu/attention/chunks.h"
#include "deckle/kernels/cpu/attention/dropout-inl.h"
#include "deckle/kernels/cpu/attention/features-inl.h"
#include "deckle/kernels/cpu/attention/geometry.h"
#include "deckle/kernels/cpu/attention/gradient_step-inl.h"
#include "deckle/kernels/cpu/attention/pack-inl.h"
#include "deckle/kernels/cpu/attention/row_tile-inl.h"
#include "deckle/kernels/cpu/attention/scores-inl.h"
#include "deckle/kernels/cpu/attention/second_step-inl.h"
#include "deckle/kernels/cpu/attention/tile_operands-inl.h"
#include "deckle/kernels/cpu/simd/amx_gradient.h"

HWY_BEFORE_NAMESPACE();
namespace deckle::kernels::cpu {
namespace HWY_NAMESPACE {

#if HWY_TARGET == HWY_AVX3

/// What a task multiplies: of a block of keys, and of a tile of rows.
struct SecondOperands {
  const SecondCall<float>& c;
  Scratch& scratch;
  const int64_t dim = c.problem.head_dim, value_dim = c.problem.value_dim;
  const bool has_tq = c.t.q.data != nullptr, has_tk = c.t.k.data != nullptr, has_tv = c.t.v.data != nullptr,
             has_tdout = c.cotangent_tangent.out.data != nullptr;
  TileKeyOperand k{scratch, dim}, tk{scratch, dim};
  TileOperand v{scratch, kKeyBlock, value_dim}, tv{scratch, kKeyBlock, value_dim};
  TileRowOperand q{scratch, dim}, tq{scratch, dim}, dout{scratch, value_dim}, tdout{scratch, value_dim};

  void load_keys(int64_t first, int64_t count, int64_t padded, int64_t kv_head) {
    k.load_paired(c.x.k, first, count, padded, kv_head);
    v.load(c.x.v, first, count, padded, kv_head);
    if (has_tk) tk.load_paired(c.t.k, first, count, padded, kv_head);
    if (has_tv) tv.load(c.t.v, first, count, padded, kv_head);
  }
  void load_rows(int64_t first, int64_t count, int64_t head, const float* lse) {
    q.load_seen(c.x.q, first, count, head, lse);
    dout.load_seen(c.cotangent.out, first, count, head, lse);
    if (has_tq) tq.load_seen(c.t.q, first, count, head, lse);
    if (has_tdout) tdout.load_seen(c.cotangent_tangent.out, first, count, head, lse);
  }

  /// z and tz without their scale, dP and tdP of a block of rows with `keys` of the loaded ones, from `first` on.
  void multiply(int64_t block, int64_t first, int64_t keys, const SecondTiles<float>& to) const {
    constexpr int64_t kW = simd::kTileQueries;
    const auto product = [&](const TileOperand& left, const TileRowOperand& right, float* tile, bool add) {
      simd::tile_matmul(keys, kW, left.units, left.rows + first * left.stride, left.stride, right.block(block), kW, tile, kW,
                        add);
    };
    product(k, q, to.scores, false);
    if (has_tq) product(k, tq, to.tangents, false);
    if (has_tk) product(tk, q, to.tangents, has_tq);
    if (!has_tq && !has_tk) std::fill_n(to.tangents, keys * kW, 0.0f);
    product(v, dout, to.products, false);
    if (has_tdout) product(v, tdout, to.product_tangents, false);
    if (has_tv) product(tv, dout, to.product_tangents, has_tdout);
    if (!has_tdout && !has_tv) std::fill_n(to.product_tangents, keys * kW, 0.0f);
  }
};

inline void second_task_on_tiles(const SecondCall<float>& c, const KeyTask& task) {
  constexpr int64_t kW = simd::kTileQueries, kRows = kTileRowBlocks * kW, kTile = kTileKeys * kW;
  constexpr int64_t kUnitStride = kRows / 2 + 16, kPairStride = kRows + 16;
  const AttentionProblem& problem = c.problem;
  const int64_t D = problem.head_dim, Dv = problem.value_dim, group = problem.group();
  const Sequence sequence(problem, task.sequence);
  const bool want_tdq = c.gradient_tangent.q.data != nullptr, want_tdk = c.gradient_tangent.k.data != nullptr,
             want_tdv = c.gradient_tangent.v.data != nullptr;
  const float scale = static_cast<float>(problem.scale);

  Scratch scratch;
  SecondOperands x{c, scratch};
  const int64_t k_columns = 2 * x.k.units, v_columns = 2 * x.v.units, k_stride = odd_lines(k_columns),
                v_stride = odd_lines(v_columns);
  float* tdk = scratch.take<float>(kKeyBlock * k_stride);
  float* tdv = scratch.take<float>(kKeyBlock * v_stride);
  float* tdq_lanes = scratch.take<float>(k_columns * kPairStride);  // tdQ^T
  float* tdq = scratch.take<float>(kRows * k_stride);
  const SecondTiles<float> s{scratch.take<float>(kTile), scratch.take<float>(kTile), scratch.take<float>(kTile),
                             scratch.take<float>(kTile), kW};
  float* tanh_tile = scratch.take<float>(kTile);
  float* y_tangents = scratch.take<float>(kTile);
  // In bfloat16, by neighbouring rows: P, P (tz - tlse), dY, tdY; by keys i and i + 16: dY, tdY.
  uint32_t* units[4];
  for (auto& each : units) each = scratch.take<uint32_t>(kTileKeys * kUnitStride);
  uint32_t* pairs[2];
  for (auto& each : pairs) each = scratch.take<uint32_t>(kTileKeys / 2 * kPairStride);
  auto* keep = scratch.take<uint8_t>(kTile);
  const SecondRows<float> rows{scratch.take<float>(kRows), scratch.take<float>(kRows), scratch.take<float>(kRows),
                               scratch.take<float>(kRows)};
  float* lse2 = scratch.take<float>(kRows);
  const FeatureScratch<float> feature_scratch(scratch);
  RowTile<float, kTileRowBlocks, simd::kKeyGroup> tile;

  if (want_tdq && task.begin == task.end) {
    for (int64_t h = task.kv_head * group; h < (task.kv_head + 1) * group; ++h) c.tdq.clear(task.chunk, sequence, h);
  }
  const simd::TileScope scope;
  for (int64_t block_key = task.begin; block_key < task.end; block_key += kKeyBlock) {
    const KeyRange block_keys{block_key, std::min(block_key + kKeyBlock, task.end)};
    const int64_t first_key = sequence.first_key + block_key, count = block_keys.end - block_key,
                  padded = simd::round_up_keys(count);
    const bool fresh = block_key == task.begin;
    x.load_keys(first_key, count, padded, task.kv_head);
    std::memset(tdk, 0, static_cast<size_t>(padded * k_stride) * sizeof(float));
    std::memset(tdv, 0, static_cast<size_t>(padded * v_stride) * sizeof(float));
    for (int64_t h = task.kv_head * group; h < (task.kv_head + 1) * group; ++h) {
      const SecondHead<float> head(c, task, sequence, h);
      const bool plain =
          scale > 0 && !head.features.any() && !head.moves.any() && !head.dropout.on() && !c.feature_tangents.any();
      for (int64_t first = 0; first < sequence.rows; first += kRows) {
        const int64_t row = sequence.first_row + first;
        if (!tile.place(problem, sequence, first, block_keys)) {
          if (fresh && want_tdq) c.tdq.clear(task.chunk, row, tile.count, h);
          continue;
        }
        const int64_t lanes = tile.blocks * kW;
        c.statistics.load(row, tile.count, kRows, h, rows.lse, rows.delta);
        c.tangent_statistics.load(row, tile.count, kRows, h, rows.lse_tangent, rows.delta_tangent);
        const bool near = are_near(rows.lse, lanes, lse2);
        x.load_rows(row, tile.count, h, rows.lse);
        bool started = false;
        for (int64_t key = tile.seen.begin; key < tile.seen.end; key += kTileKeys) {
          const int64_t end = std::min(key + kTileKeys, tile.seen.end), keys = simd::round_up_keys(end - key),
                        offset = key - block_key;
          for (int64_t block = 0; block < tile.blocks; ++block) {
            const LaneRange<float>& range = tile.range[block];
            const TilePlace at = tile.at(block, key, end - key);
            const int64_t unit_at = block * kW / 2, pair_at = block * kW;
            uint32_t* const p_units = x.has_tdout ? units[0] + unit_at : nullptr;
            if (key >= range.outer.end || key + keys <= range.outer.begin || !head.features.touches(at)) {
              clear_weights(keys, {units[0] + unit_at, units[1] + unit_at, units[2] + unit_at, units[3] + unit_at}, kUnitStride,
                            {pairs[0] + pair_at, pairs[1] + pair_at}, kPairStride);
              continue;
            }
            x.multiply(block, offset, keys, s);
            if (plain && near) {
              if (range.cuts(key, key + keys)) mask_scores(s.scores, kW, key, keys, range);
              simd::tile_second({s.scores, s.tangents, s.products, s.product_tangents, lse2 + pair_at, rows.delta + pair_at,
                                 rows.lse_tangent + pair_at, rows.delta_tangent + pair_at},
                                keys, static_cast<float>(problem.scale * kLog2E), scale,
                                {p_units, units[1] + unit_at, units[2] + unit_at, units[3] + unit_at, kUnitStride,
                                 pairs[0] + pair_at, pairs[1] + pair_at, kPairStride});
              continue;
            }
            scale_scores(s.scores, keys * kW, scale);
            scale_scores(s.tangents, keys * kW, scale);
            second_block(c, head, at, range, s, keys, kW, rows, pair_at, {tanh_tile, y_tangents, keep, feature_scratch});
            simd::tile_gradient_units(s.scores, s.products, keys, p_units, units[2] + unit_at, kUnitStride, pairs[0] + pair_at,
                                      kPairStride);
            simd::tile_gradient_units(s.tangents, s.product_tangents, keys, units[1] + unit_at, units[3] + unit_at, kUnitStride,
                                      pairs[1] + pair_at, kPairStride);
          }
          const auto add_over_rows = [&](const uint32_t* left, const TileRowOperand& right, float* to, int64_t stride) {
            simd::tile_matmul(keys, 2 * right.units, lanes / 2, left, kUnitStride, right.pairs, right.pair_stride,
                              to + offset * stride, stride, true);
          };
          const auto add_over_keys = [&](const TileKeyOperand& left, const uint32_t* right, bool add) {
            simd::tile_matmul(k_columns, lanes, keys / 2, left.pairs + offset / 2, left.kPairStride, right, kPairStride,
                              tdq_lanes, kPairStride, add);
          };
          if (want_tdv) add_over_rows(units[1], x.dout, tdv, v_stride);
          if (want_tdv && x.has_tdout) add_over_rows(units[0], x.tdout, tdv, v_stride);
          if (want_tdk) add_over_rows(units[3], x.q, tdk, k_stride);
          if (want_tdk && x.has_tq) add_over_rows(units[2], x.tq, tdk, k_stride);
          if (want_tdq) add_over_keys(x.k, pairs[1], started);
          if (want_tdq && x.has_tk) add_over_keys(x.tk, pairs[0], true);
          started = true;
        }
        if (!want_tdq) continue;
        transpose(tdq_lanes, kPairStride, k_columns, lanes, tdq, k_stride);
        c.tdq.add(task.chunk, row, tile.count, h, tdq, k_stride, scale, fresh);
      }
    }
    if (want_tdk) {
      scale_scores(tdk, padded * k_stride, scale);
      store_rows(problem.dtype, c.gradient_tangent.k, first_key, count, task.kv_head, D, tdk, k_stride);
    }
    if (want_tdv) store_rows(problem.dtype, c.gradient_tangent.v, first_key, count, task.kv_head, Dv, tdv, v_stride);
  }
}

#endif

}  // namespace HWY_NAMESPACE
}  // namespace deckle::kernels::cpu
HWY_AFTER_NAMESPACE();

#endif
