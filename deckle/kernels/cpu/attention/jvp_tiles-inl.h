// The JVP of bfloat16 on AMX tiles: the pass of jvp.cpp with the operands of forward_tiles-inl.h.
//
// Rows of keys lie beside those of their tangent, queries behind those of theirs, so that tq k^T + q tk^T is one product of twice
// the depth. Per block of 32 rows and tile of keys: S^T = K Q^T, tS^T = [K, tK] [tQ, Q]^T; the softmax in vectors, which writes P
// and P (tz - r) rounded and paired; A += V^T P, T += V^T P (tz - r) + tV^T P. The softmax reads scores twice, as r is known only
// after all weights of a tile: P (tz - r) is rounded once it is small.
//
// GF/s in turns on an Intel with AMX (family 6, model 167), 8 heads, full mask, six products counted, of the forward's with two
// (22eb9512, 2026-12-01, host shared):
//                            S = 512, D = 64    D = 128      S = 2048, D = 64    D = 128
//   widened, one core        122 of 366         132 of 446   135 of 499          138 of 619
//   tiles, one core          513 of 405         589 of 460   609 of 495          719 of 622
//   widened, two cores       251 of 754         256 of 863   257 of 964          279 of 1,193
//   tiles, two cores         1,067 of 807       1,222 of 981 1,209 of 964        1,470 of 1,273

#if defined(DECKLE_ATTENTION_JVP_TILES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef DECKLE_ATTENTION_JVP_TILES_INL_H_
#undef DECKLE_ATTENTION_JVP_TILES_INL_H_
#else
#define DECKLE_ATTENTION_JVP_TILES_INL_H_
#endif

#include <algorithm>
#include <cstdint>
#include <limits>

#include "deckle/base/scratch.h"
#include "deckle/kernels/cpu/attention/dropout-inl.h"
#include "deckle/kernels/cpu/attention/exp-inl.h"
#include "deckle/kernels/cpu/attention/features-inl.h"
#include "deckle/kernels/cpu/attention/geometry.h"
#include "deckle/kernels/cpu/attention/gradient_step-inl.h"
#include "deckle/kernels/cpu/attention/pack-inl.h"
#include "deckle/kernels/cpu/attention/scores-inl.h"
#include "deckle/kernels/cpu/attention/tangent_softmax-inl.h"
#include "deckle/kernels/cpu/attention/tile_operands-inl.h"
#include "deckle/kernels/cpu/simd/amx_tangent.h"

HWY_BEFORE_NAMESPACE();
namespace deckle::kernels::cpu {
namespace HWY_NAMESPACE {

#if HWY_TARGET == HWY_AVX3

inline constexpr int64_t kJvpTileBlocks = 8;
inline constexpr int64_t kJvpTileKeys = 256;

inline void jvp_task_on_tiles(const AttentionProblem& problem, const AttentionOperands& x, const AttentionOperands& t,
                              const AttentionResults& result, const AttentionResults& result_tangent, DType out_dtype,
                              const RowTask& task) {
  constexpr int64_t kW = simd::kTileQueries, kMostPairs = kJvpTileKeys / 2;
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  static_assert(kW == kBlock<float>);
  const int64_t D = problem.head_dim, Dv = problem.value_dim;
  const Sequence sequence(problem, task.sequence);
  const int64_t kv_head = task.head / problem.group(), blocks = (task.count + kW - 1) / kW;
  const bool has_tq = t.q.data != nullptr, has_tk = t.k.data != nullptr, has_tv = t.v.data != nullptr;
  const bool want_out = result.out.data != nullptr || result_tangent.out.data != nullptr;

  Scratch scratch;
  auto* state = scratch.take<JvpBlock<float>>(kJvpTileBlocks);
  TileOperand q(scratch, kW, D), k(scratch, kJvpTileKeys, 4 * tile_units(D)), v(scratch, kJvpTileKeys, Dv);
  k.width = D, k.units = q.units;
  TileOperand tk = k;  // behind k in each row: together one operand of twice the depth
  tk.rows += k.units;
  const int64_t q_size = 2 * q.units * kW, out_rows = 2 * v.units, out_size = out_rows * kW;
  auto* lanes = scratch.take<uint32_t>(kJvpTileBlocks * q_size);  // [block][tq, then q: units][kW]
  auto* v_units = scratch.take<uint32_t>(v.units * kJvpTileKeys);
  auto* v_pairs = scratch.take<uint32_t>(out_rows * odd_lines(kMostPairs));
  auto* tv_pairs = scratch.take<uint32_t>(out_rows * odd_lines(kMostPairs));
  float* sum_a = scratch.take<float>(kJvpTileBlocks * out_size);
  float* sum_t = scratch.take<float>(kJvpTileBlocks * out_size);
  float* scores = scratch.take<float>(kJvpTileKeys * kW);
  float* tangents = scratch.take<float>(kJvpTileKeys * kW);
  float* tanh_tile = scratch.take<float>(kTileKeys * kW);
  auto* pairs = scratch.take<uint32_t>(kMostPairs * kW);
  auto* tangent_pairs = scratch.take<uint32_t>(kMostPairs * kW);
  float* rescale = scratch.take<float>(kW);
  float* shift = scratch.take<float>(kW);
  float* rows = scratch.take<float>(kW * tile_stride<float>(Dv));
  auto* keep = scratch.take<uint8_t>(kJvpTileKeys * kW);
  const FeatureScratch<float> feature_scratch(scratch);
  const Features<float> features(problem, x, sequence, task.head), feature_tangents(problem, t, sequence, task.head);
  const Dropout dropout(problem.dropout, task.sequence, task.head);
  const float sink = x.sinks ? static_cast<const float*>(x.sinks)[task.head] : -kInfinity;
  const bool moves_sink = sink != -kInfinity && t.sinks != nullptr;
  const float scale = static_cast<float>(problem.scale);
  const bool featured = features.any() || feature_tangents.any();
  const bool raw = scale > 0 && sink == -kInfinity && !featured;  // the softmax applies the scale
  const float factor = raw ? static_cast<float>(problem.scale * kLog2E) : static_cast<float>(kLog2E);
  // Without the tangent of a logit P (tz - r) is 0.
  const bool has_tz = has_tq || has_tk || moves_sink || feature_tangents.any() || !has_tv;

  KeyRange all{sequence.keys, 0};
  for (int64_t block = 0; block < blocks; ++block) {
    JvpBlock<float>& s = state[block];
    const int64_t first = task.first + block * kW, count = std::min(kW, task.first + task.count - first);
    if (has_tq) {
      q.load(t.q, sequence.first_row + first, count, kW, task.head);
      q.to_lanes(0, lanes + block * q_size, kW);
    }
    q.load(x.q, sequence.first_row + first, count, kW, task.head);
    q.to_lanes(0, lanes + block * q_size + q.units * kW, kW);
    start_block(problem, sequence, first, count, sink, s, all);
    std::fill_n(s.mean, kW, moves_sink ? static_cast<const float*>(t.sinks)[task.head] : 0.0f);
  }
  // Tiles start at multiples of their size: the split of the keys does not depend on which rows share a task.
  all.begin = all.begin / kJvpTileKeys * kJvpTileKeys;

  const simd::TileScope tiles;
  for (int64_t first_key = all.begin; first_key < all.end; first_key += kJvpTileKeys) {
    const int64_t tile_end = std::min(first_key + kJvpTileKeys, all.end), count = tile_end - first_key,
                  padded = simd::round_up_keys(count), pair_stride = odd_lines(padded / 2), row = sequence.first_key + first_key;
    k.load(x.k, row, count, padded, kv_head);
    if (has_tk) tk.load(t.k, row, count, padded, kv_head);
    v.load(x.v, row, count, padded, kv_head);
    v.to_key_pairs(padded, v_units, v_pairs, pair_stride);
    if (has_tv) {
      v.load(t.v, row, count, padded, kv_head);
      v.to_key_pairs(padded, v_units, tv_pairs, pair_stride);
    }
    for (int64_t block = 0; block < blocks; ++block) {
      JvpBlock<float>& s = state[block];
      // Groups of keys are not split; the mask removes the extra keys.
      const int64_t begin = std::max(first_key, s.range.outer.begin / simd::kKeyGroup * simd::kKeyGroup),
                    end = std::min(tile_end, s.range.outer.end), keys = simd::round_up_keys(end - begin);
      if (begin >= end) continue;
      const TilePlace at{task.first + block * kW, std::min(kW, task.count - block * kW), s.range.lanes, begin, end - begin};
      if (!features.touches(at)) continue;
      const uint32_t* k_rows = k.rows + (begin - first_key) * k.stride;
      const uint32_t* tq_lanes = lanes + block * q_size;
      const uint32_t* q_lanes = tq_lanes + q.units * kW;
      simd::tile_matmul(keys, at.lanes, k.units, k_rows, k.stride, q_lanes, kW, scores, kW, false);
      if (has_tq || has_tk) {
        simd::tile_matmul(keys, at.lanes, (has_tq && has_tk ? 2 : 1) * k.units, has_tq ? k_rows : k_rows + k.units, k.stride,
                          has_tq ? tq_lanes : q_lanes, kW, tangents, kW, false);
      } else {
        std::fill_n(tangents, keys * kW, 0.0f);
      }
      if (!raw) scale_scores(scores, keys * kW, scale);
      if (featured) {
        scale_scores(tangents, keys * kW, scale);
        for (int64_t done = 0; done < at.keys; done += kTileKeys) {
          const TilePlace part{at.row, at.count, at.lanes, begin + done, std::min(kTileKeys, at.keys - done)};
          features.apply(scores + done * kW, kW, part, feature_scratch, tanh_tile);
          feature_tangents.tangent(features, tangents + done * kW, kW, part, feature_scratch, tanh_tile, nullptr);
        }
      }
      if (s.range.cuts(begin, begin + keys)) mask_scores(scores, kW, begin, keys, s.range);
      simd::tile_tangent_softmax(scores, tangents, keys, at.lanes, factor, featured ? 1.0f : scale, s.maximum, s.sum, s.mean,
                                 pairs, tangent_pairs, rescale, shift);
      if (!want_out) continue;
      if (dropout.on()) {
        dropout.tile(at.row, at.lanes, begin, keys, keep, kW);
        simd::tile_drop(pairs, keys, keep);
        simd::tile_drop(tangent_pairs, keys, keep);
      }
      float* a = sum_a + block * out_size;
      float* b = sum_t + block * out_size;
      if (s.started) recentre(a, b, Dv, at.lanes, rescale, shift);
      const auto add = [&](const uint32_t* values, const uint32_t* weights, float* to, bool more) {
        simd::tile_matmul(out_rows, at.lanes, keys / 2, values + (begin - first_key) / 2, pair_stride, weights, kW, to, kW, more);
      };
      add(v_pairs, pairs, a, s.started);
      if (has_tz) add(v_pairs, tangent_pairs, b, s.started);
      if (has_tv) add(tv_pairs, pairs, b, s.started || has_tz);
      s.started = true;
    }
  }

  if (raw) {
    for (int64_t block = 0; block < blocks; ++block) scale_scores(state[block].maximum, kW, scale);
  }
  finish_jvp(problem, result, result_tangent, out_dtype, task, state, sum_a, sum_t, out_size, rows, tile_stride<float>(Dv));
}

#endif

}  // namespace HWY_NAMESPACE
}  // namespace deckle::kernels::cpu
HWY_AFTER_NAMESPACE();

#endif
