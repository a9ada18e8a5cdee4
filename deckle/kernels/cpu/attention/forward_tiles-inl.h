// The forward of bfloat16 on AMX tiles: the scheme of forward.cpp with other operands.
//
// A block is 32 query rows, a tile of keys 256 (forward.cpp: 64): sums over keys go through the tile registers less often, and
// every processor with tiles has the second cache for it, whatever a virtual machine says. Per block and tile of keys: scores S^T
// = K Q^T by tile products; softmax in vectors, which writes P rounded and paired; O^T += V^T P^T. The reference of the softmax
// moves only where a score exceeds it by 2^8: sums and out are rescaled about once per block, not once per tile of keys. The
// scale is applied inside the exponential unless features, a sink or a negative scale come between.
//
// GF/s on an Emerald Rapids (family 6, model 207), full mask, D = 64, S = 2048, two cores (float32 FMA peak 341, one TDPBF16PS in
// 16 cycles: 5,900), and on 16 (2026-11-22, ae14af6a):
//   the pair dot product (arithmetic-inl.h)                             131
//   tiles, 128 keys at a time, lazily updated softmax reference         591    4,165
// One core, quiet minutes of two runs, at S = 512, S = 2048, and at S = 2048 with D = 128:
//   64 keys at a time                                                   302    324    435
//   128                                                                 328    365    490
//   256                                                                 347    388    535
//   256, second run                                                     345    372    496
// Two cores in turns, D = 64, S = 512 and S = 128 (2026-11-28, ec2f1bb2):
//   a row's address by a table of sizes (pack-inl.h)                    583    361
//   without                                                             659    388
// Rejected. At 128 keys, so that stores are not read back at once: the scores of the next block before the softmax of this one
// (320, 351, 487), and out one block late as well (313, 345, 498). Second run: out prefetched while the softmax computes (303,
// 356, 476); two blocks for each reading of keys and values (301, 360, 503). Scores 64 keys at a time with requests
// between: 1.00.

#if defined(DECKLE_ATTENTION_FORWARD_TILES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef DECKLE_ATTENTION_FORWARD_TILES_INL_H_
#undef DECKLE_ATTENTION_FORWARD_TILES_INL_H_
#else
#define DECKLE_ATTENTION_FORWARD_TILES_INL_H_
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
#include "deckle/kernels/cpu/attention/prefetch.h"
#include "deckle/kernels/cpu/attention/scores-inl.h"
#include "deckle/kernels/cpu/attention/tile_operands-inl.h"

HWY_BEFORE_NAMESPACE();
namespace deckle::kernels::cpu {
namespace HWY_NAMESPACE {

#if HWY_TARGET == HWY_AVX3

inline constexpr int64_t kForwardTileBlocks = 16;

/// Keys of a tile: their operands fit L2 together with sixteen blocks of queries.
inline constexpr int64_t kForwardTileKeys = 256;

/// Running state of one block of rows.
struct ForwardTileBlock {
  float reference[simd::kTileQueries];
  float sum[simd::kTileQueries];
  LaneRange<float> range;
  bool started;
};

/// features.apply for any number of keys.
template <typename T>
void apply_features(const Features<T>& features, T* scores, int64_t stride, const TilePlace& at,
                    const FeatureScratch<T>& scratch) {
  for (int64_t done = 0; done < at.keys; done += kTileKeys) {
    const TilePlace part{at.row, at.count, at.lanes, at.key + done, std::min(kTileKeys, at.keys - done)};
    features.apply(scores + done * stride, stride, part, scratch, nullptr);
  }
}

inline void forward_task_on_tiles(const AttentionProblem& problem, const AttentionOperands& x, const AttentionResults& result,
                                  const RowTask& task, const RowTask* next) {
  constexpr int64_t kW = simd::kTileQueries;
  static_assert(kW == kBlock<float>);
  const int64_t D = problem.head_dim, Dv = problem.value_dim;
  const Sequence sequence(problem, task.sequence);
  const int64_t kv_head = task.head / problem.group();
  const int64_t blocks = (task.count + kW - 1) / kW;
  constexpr int64_t kMostPairs = kForwardTileKeys / 2;

  Scratch scratch;
  auto* state = scratch.take<ForwardTileBlock>(kForwardTileBlocks);
  TileOperand q(scratch, kW, D), k(scratch, kForwardTileKeys, D), v(scratch, kForwardTileKeys, Dv);
  const int64_t out_rows = 2 * v.units;
  auto* q_lanes = scratch.take<uint32_t>(kForwardTileBlocks * q.units * kW);
  auto* v_units = scratch.take<uint32_t>(v.units * kForwardTileKeys);
  auto* v_pairs = scratch.take<uint32_t>(out_rows * odd_lines(kMostPairs));
  float* out = scratch.take<float>(kForwardTileBlocks * out_rows * kW);
  float* scores = scratch.take<float>(kForwardTileKeys * kW);
  auto* pairs = scratch.take<uint32_t>(kMostPairs * kW);
  float* rescale = scratch.take<float>(kW);
  float* rows = scratch.take<float>(kW * tile_stride<float>(Dv));
  const FeatureScratch<float> feature_scratch(scratch);
  auto* keep = scratch.take<uint8_t>(kForwardTileKeys * kW);
  const Features<float> features(problem, x, sequence, task.head);
  const Dropout dropout(problem.dropout, task.sequence, task.head);
  // A sink is one more key, seen first, without a value.
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const float sink = x.sinks ? static_cast<const float*>(x.sinks)[task.head] : -kInfinity;
  const float scale = static_cast<float>(problem.scale);
  const bool raw = scale > 0 && sink == -kInfinity && !features.any();  // the softmax applies the scale
  const float factor = raw ? static_cast<float>(problem.scale * kLog2E) : static_cast<float>(kLog2E);

  KeyRange all{sequence.keys, 0};
  for (int64_t block = 0; block < blocks; ++block) {
    ForwardTileBlock& s = state[block];
    const int64_t first = task.first + block * kW, count = std::min(kW, task.first + task.count - first);
    q.load(x.q, sequence.first_row + first, count, kW, task.head);
    q.to_lanes(0, q_lanes + block * q.units * kW, kW);
    s.range = LaneRange<float>(problem, sequence, first, count);
    std::fill_n(s.reference, kW, sink);
    std::fill_n(s.sum, kW, sink == -kInfinity ? 0.0f : 1.0f);
    s.started = false;
    if (s.range.outer.empty()) continue;
    all.begin = std::min(all.begin, s.range.outer.begin / kForwardTileKeys * kForwardTileKeys);
    all.end = std::max(all.end, s.range.outer.end);
  }

  const simd::TileScope tiles;
  for (int64_t first_key = all.begin; first_key < all.end; first_key += kForwardTileKeys) {
    const int64_t tile_end = std::min(first_key + kForwardTileKeys, all.end),
                  tile_keys = simd::round_up_keys(tile_end - first_key), pair_stride = odd_lines(tile_keys / 2);
    k.load(x.k, sequence.first_key + first_key, tile_end - first_key, tile_keys, kv_head);
    v.load(x.v, sequence.first_key + first_key, tile_end - first_key, tile_keys, kv_head);
    v.to_key_pairs(tile_keys, v_units, v_pairs, pair_stride);
    RowPrefetch soon = next_rows(problem, x, result, task, next, all, first_key, kForwardTileKeys);
    soon.spread(2 * blocks);
    for (int64_t block = 0; block < blocks; ++block) {
      ForwardTileBlock& s = state[block];
      // Groups of keys are not split; the mask removes the extra keys.
      const int64_t begin = std::max(first_key, s.range.outer.begin / simd::kKeyGroup * simd::kKeyGroup),
                    end = std::min(tile_end, s.range.outer.end), keys = simd::round_up_keys(end - begin);
      if (begin >= end) continue;
      const TilePlace at{task.first + block * kW, std::min(kW, task.count - block * kW), s.range.lanes, begin, end - begin};
      if (!features.touches(at)) continue;
      float* out_block = out + block * out_rows * kW;
      soon.step();
      simd::tile_matmul(keys, at.lanes, k.units, k.rows + (begin - first_key) * k.stride, k.stride,
                        q_lanes + block * q.units * kW, kW, scores, kW, false);
      if (!raw) scale_scores(scores, keys * kW, scale);
      if (features.any()) apply_features(features, scores, kW, at, feature_scratch);
      if (s.range.cuts(begin, begin + keys)) mask_scores(scores, kW, begin, keys, s.range);
      const bool moved = simd::tile_softmax(scores, keys, at.lanes, factor, s.reference, s.sum, pairs, rescale);
      if (moved && s.started) simd::tile_rescale(out_block, out_rows, at.lanes, rescale);
      soon.step();
      if (dropout.on()) {
        dropout.tile(at.row, at.lanes, begin, keys, keep, kW);
        simd::tile_drop(pairs, keys, keep);
      }
      simd::tile_matmul(out_rows, at.lanes, keys / 2, v_pairs + (begin - first_key) / 2, pair_stride, pairs, kW, out_block, kW,
                        s.started);
      s.started = true;
    }
  }

  for (int64_t block = 0; block < blocks; ++block) {
    ForwardTileBlock& s = state[block];
    const int64_t first = task.first + block * kW, count = std::min(kW, task.first + task.count - first);
    const int64_t stride = tile_stride<float>(Dv);
    if (raw) scale_scores(s.reference, kW, scale);
    finish_block(s.started ? out + block * out_rows * kW : nullptr, Dv, s.reference, s.sum,
                 static_cast<float>(Dropout::factor(problem.dropout)), rows, stride);
    store_rows(problem.dtype, result.out, sequence.first_row + first, count, task.head, Dv, rows, stride);
    if (result.lse == nullptr) continue;
    float* lse = static_cast<float*>(result.lse) + (sequence.first_row + first) * problem.heads + task.head;
    for (int64_t lane = 0; lane < count; ++lane) lse[lane * problem.heads] = s.reference[lane];
  }
}

#endif

}  // namespace HWY_NAMESPACE
}  // namespace deckle::kernels::cpu
HWY_AFTER_NAMESPACE();

#endif
