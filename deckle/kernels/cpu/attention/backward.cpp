// dq, dk, dv from dout, dlse.       P = exp(z - lse)   dP = dout v^T   dZ = P (dP - Delta)   Delta = rowsum(dout out) - dlse
//
// One fused pass, five products per score (S, dP, dV, dK, dQ): a task owns the dk and dv of a chunk of keys of one key head and
// walks the query heads of its group and their row tiles; tasks that share a bias traverse their keys together, block by block.
// dq is accumulated per chunk, in a private buffer (the output itself if there is one chunk), and the chunks are added in order:
// no atomics, and bit-equal for any number of threads.
// FLOPs: 2 (3 D + 2 Dv) per score in the products; about 18 more for exp and the element-wise part.
// Instances: as the forward's.
//
// GF/s of one core (machine, commit and setting of forward.cpp, full mask, S = 512, D = 64, five products counted):
//   one pass, tiles of 64 rows x 64 keys        90.7   92.4 at D = 128, 95.5 at S = 8192
//   bfloat16 by pairs                          152.3
//   with a broadcast bias and its gradient      68.9   45 with eight chunks of keys in place of eight copies of the bias gradient
// GF/s of two cores of the same kind with a bias and its gradient shared by 16 heads and texts, of GF/s without, full mask, S =
// 2048, D = 64 (2026-11-21, fea13353):
//                                                            float32           bfloat16
//   every tile read from and added to the planes' rows       127.8 of 186.8    179.8 of 311.2
//   strips (bias_strip-inl.h), sums in large pages           143.8 of 176.2    214.7 of 328.8
//   next tile prefetched, rows without visible keys skipped  175.8 of 189.5    277.8 of 327.9
// GF/s of one core of Emerald Rapids in turns with the version before, others running, 8 heads, D = 64 (2026-11-23, 68849196):
//                                                             96 x S = 128      24 x S = 512
//   next rows, keys and results prefetched (prefetch.h)       26.9 of 16.4      40.9 of 31.4
// Two cores of it in turns, 32 x S = 128 (2026-11-28, ec2f1bb2):   D = 64   D = 64 causal   D = 128   D = 128 causal
//   rows copied by a call each, dq cleared and added to                 117       73            111        63
//   by one loop, dq stored, requests earlier and inside the products    158      108            142        86
// Where a core's time goes at S = 512, D = 64, full mask (as in forward.cpp, 3,080 samples): the five products 83 %, exp and dZ 5
// %, the rest of a block 4 %, dq, dk and dv written 3 %, rows copied 2 %, Delta 1 %. At 127 GF/s beside a peak of 176, which is
// 72 %, the products run at 87 % of the peak.
// Rejected: two passes without a dq buffer (rows, then columns): seven products in place of five.

#include "deckle/kernels/cpu/simd/targets.h"

#include <cmath>
#include <limits>
#include <type_traits>

#include "deckle/base/parallel.h"
#include "deckle/base/scratch.h"
#include "deckle/kernels/cpu/attention/attention.h"
#include "deckle/kernels/cpu/attention/chunks.h"
#include "deckle/kernels/cpu/attention/geometry.h"
#include "deckle/kernels/cpu/attention/prefetch.h"
#include "deckle/kernels/cpu/attention/require.h"
#include "deckle/kernels/cpu/simd/amx.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "deckle/kernels/cpu/attention/backward.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

#include "deckle/kernels/cpu/attention/arithmetic-inl.h"
#include "deckle/kernels/cpu/attention/backward_tiles-inl.h"
#include "deckle/kernels/cpu/attention/bias_strip-inl.h"
#include "deckle/kernels/cpu/attention/dropout-inl.h"
#include "deckle/kernels/cpu/attention/exp-inl.h"
#include "deckle/kernels/cpu/attention/feature_gradients-inl.h"
#include "deckle/kernels/cpu/attention/features-inl.h"
#include "deckle/kernels/cpu/attention/gradient_step-inl.h"
#include "deckle/kernels/cpu/attention/matmul-inl.h"
#include "deckle/kernels/cpu/attention/pack-inl.h"
#include "deckle/kernels/cpu/attention/row_statistics-inl.h"
#include "deckle/kernels/cpu/attention/row_tile-inl.h"
#include "deckle/kernels/cpu/attention/scores-inl.h"

HWY_BEFORE_NAMESPACE();
namespace deckle::kernels::cpu {
namespace HWY_NAMESPACE {

/// The part of a task that lies in `block_keys`, which are its first if `fresh`; `next` is what this thread goes on with.
template <class A, typename T = typename A::Element>
void backward_block(const AttentionProblem& problem, const AttentionOperands& x, const AttentionResults& cotangent,
                    const RowStatistics<T>& statistics, const AttentionOperands& gradient, const QueryGradient<T>& dq_target,
                    FeatureGradients<T>& feature_gradients, BiasStrip<T>& strip, const KeyTask& task, const KeyRange& block_keys,
                    bool fresh, const KeyBlock& next) {
  constexpr int64_t kW = kBlock<T>, kRows = kTileRows<T>;
  const int64_t D = problem.head_dim, Dv = problem.value_dim, group = problem.group();
  const Sequence sequence(problem, task.sequence);
  const int64_t k_stride = tile_stride<T>(D), v_stride = tile_stride<T>(Dv);
  const bool want_dq = gradient.q.data != nullptr, want_dk = gradient.k.data != nullptr, want_dv = gradient.v.data != nullptr;
  const bool want_dz = want_dq || want_dk || feature_gradients.any();
  const T scale = static_cast<T>(problem.scale), dropout_factor = static_cast<T>(Dropout::factor(problem.dropout));

  Scratch scratch;
  Operand<A> k(scratch, kKeyBlock, D), v(scratch, kKeyBlock, Dv);
  RowOperand<A> q(scratch, D), dout(scratch, Dv);
  T* dk = scratch.take<T>(kKeyBlock * k_stride);
  T* dv = scratch.take<T>(kKeyBlock * v_stride);
  T* dq = scratch.take<T>(kRows * k_stride);
  T* scores = scratch.take<T>(kTileKeys * kRows);    // S, then P: [keys, kRows]
  T* products = scratch.take<T>(kTileKeys * kRows);  // dP, then dZ, then dY
  T* tanh_tile = scratch.take<T>(kTileKeys * kRows);
  auto* p_units = scratch.take<typename A::Unit>(kTileKeys * kRows);
  auto* dy_units = scratch.take<typename A::Unit>(kTileKeys * kRows);
  auto* dy_pairs = scratch.take<typename A::Unit>(kTileKeys * kRows);
  auto* keep = scratch.take<uint8_t>(kTileKeys * kW);
  T* lse = scratch.take<T>(kRows);
  T* delta = scratch.take<T>(kRows);
  const FeatureScratch<T> feature_scratch(scratch);
  RowTile<T> tile;

  const int64_t first_key = sequence.first_key + block_keys.begin, count = block_keys.end - block_keys.begin;
  k.load(problem.dtype, x.k, first_key, count, 0, task.kv_head, T(1));
  k.pair(count);
  v.load(problem.dtype, x.v, first_key, count, 0, task.kv_head, T(1));
  std::memset(dk, 0, static_cast<size_t>(count * k_stride) * sizeof(T));
  std::memset(dv, 0, static_cast<size_t>(count * v_stride) * sizeof(T));
  for (int64_t h = task.kv_head * group; h < (task.kv_head + 1) * group; ++h) {
    const Features<T> features(problem, x, sequence, h);
    const Dropout dropout(problem.dropout, task.sequence, h);
    for (int64_t first = 0; first < sequence.rows; first += kRows) {
      const int64_t row = sequence.first_row + first;
      if (!tile.place(problem, sequence, first, block_keys)) {
        if (fresh && want_dq) dq_target.clear(task.chunk, row, tile.count, h);
        continue;
      }
      statistics.load(row, tile.count, kRows, h, lse, delta);
      q.load_seen(problem.dtype, x.q, row, tile.count, h, A::query_factor(problem.scale), lse);
      dout.load_seen(problem.dtype, cotangent.out, row, tile.count, h, T(1), lse);
      RowPrefetch soon = next_gradient_rows(problem, x, cotangent, gradient, task, block_keys, h, first, kRows, next,
                                            fresh && dq_target.in_place());
      soon.spread((want_dz ? 2 : 1) * tile.blocks * ((tile.seen.end - tile.seen.begin + kPrefetchRows - 1) / kPrefetchRows));
      bool dq_started = false;
      for (int64_t key = tile.seen.begin; key < tile.seen.end; key += kTileKeys) {
        const int64_t end = std::min(key + kTileKeys, tile.seen.end), keys = end - key, offset = key - block_keys.begin;
        for (int64_t block = 0; block < tile.blocks; ++block) {
          const LaneRange<T>& range = tile.range[block];
          const TilePlace at = tile.at(block, key, keys);
          T* s = scores + block * kW;
          T* dp = products + block * kW;
          T* w = tanh_tile + block * kW;
          if (!features.touches(at)) {
            zero_tile(s, kRows, keys, at.lanes);
            zero_tile(dp, kRows, keys, at.lanes);
            continue;
          }
          product_with_requests<A, AOrder::rows>(keys, at.lanes, D, k.rows + offset * k.row_stride, k.row_stride, q.block(block),
                                                 kW, s, kRows, {}, A::score_factor(problem.scale), soon);
          if (want_dz)
            product_with_requests<A, AOrder::rows>(keys, at.lanes, Dv, v.rows + offset * v.row_stride, v.row_stride,
                                                   dout.block(block), kW, dp, kRows, {}, T(1), soon);
          if (features.any()) features.apply(s, kRows, at, feature_scratch, w, strip.bias(h, at));
          if (range.cuts(key, end)) mask_scores(s, kRows, key, keys, range);
          if (dropout.on()) {
            dropout.tile(at.row, at.lanes, key, keys, keep, kW);
            drop(dp, kRows, keys, at.lanes, keep, dropout_factor);
          }
          gradient_step(s, dp, kRows, keys, at.lanes, lse + block * kW, delta + block * kW);
          if (dropout.on()) drop(s, kRows, keys, at.lanes, keep, dropout_factor);
          if (feature_gradients.any()) feature_gradients.add(task, sequence, h, at, dp, kRows, feature_scratch, &strip);
          if (features.capped()) uncap(dp, w, kRows, keys, at.lanes);
          if (feature_gradients.any())
            feature_gradients.add_before_cap(task, sequence, h, at, dp, kRows, feature_scratch, &strip);
        }
        const int64_t lanes = (tile.blocks - 1) * kW + tile.range[tile.blocks - 1].lanes;
        if (want_dv) {
          const auto* p = A::along_columns(scores, kRows, keys, lanes, p_units, kRows);
          A::template product<AOrder::rows>(keys, Dv, tile.count, p, kRows, dout.pairs, dout.pair_stride, dv + offset * v_stride,
                                            v_stride, {true});
        }
        if (want_dk) {
          const auto* dy = A::along_columns(products, kRows, keys, lanes, dy_units, kRows);
          A::template product<AOrder::rows>(keys, D, tile.count, dy, kRows, q.pairs, q.pair_stride, dk + offset * k_stride,
                                            k_stride, {true});
        }
        if (want_dq) {
          const auto* dy = A::across_rows(products, kRows, keys, lanes, dy_pairs, kRows);
          A::template product<AOrder::columns>(tile.count, D, keys, dy, kRows, k.pairs + offset / A::kFold * k.pair_stride,
                                               k.pair_stride, dq, k_stride, {dq_started});
        }
        dq_started = true;
      }
      if (want_dq) dq_target.add(task.chunk, row, tile.count, h, dq, k_stride, scale, fresh);
    }
  }
  const T k_factor = A::score_factor(problem.scale);  // q carries the rest of the scale
  if (k_factor != T(1)) {
    for (int64_t i = 0; i < count * k_stride; ++i) dk[i] *= k_factor;
  }
  if (want_dk) store_rows(problem.dtype, gradient.k, first_key, count, task.kv_head, D, dk, k_stride);
  if (want_dv) store_rows(problem.dtype, gradient.v, first_key, count, task.kv_head, Dv, dv, v_stride);
}

/// All tasks of a group, one block of keys at a time: what they share for a block is loaded before and stored after it. `next` is
/// the first task of the next group of this thread, or null.
template <class A, typename T = typename A::Element>
void backward_group(const AttentionProblem& problem, const AttentionOperands& x, const AttentionResults& cotangent,
                    const RowStatistics<T>& statistics, const AttentionOperands& gradient, const QueryGradient<T>& dq_target,
                    FeatureGradients<T>& feature_gradients, const KeyTasks& tasks, const std::vector<int64_t>& group,
                    const KeyTask* next) {
  BiasStrip<T> strip(problem, x, gradient, tasks, group);
  const KeyTask& first_task = tasks.tasks[group.front()];
  int64_t end = 0;
  for (int64_t t : group) {
    const KeyTask& task = tasks.tasks[t];
    end = std::max(end, task.end);
    if (gradient.q.data == nullptr || task.begin < task.end) continue;
    const Sequence sequence(problem, task.sequence);
    for (int64_t h = task.kv_head * problem.group(); h < (task.kv_head + 1) * problem.group(); ++h)
      dq_target.clear(task.chunk, sequence, h);
  }
  for (int64_t key = first_task.begin; key < end; key += kKeyBlock) {
    if (strip.on()) strip.start(x, key);
    for (size_t i = 0; i < group.size(); ++i) {
      const KeyTask& task = tasks.tasks[group[i]];
      const KeyRange keys{key, std::min(key + kKeyBlock, task.end)};
      if (keys.empty()) continue;
      const bool fresh = key == task.begin;
      KeyBlock after{next, next != nullptr ? next->begin : 0};
      if (i + 1 < group.size())
        after = {&tasks.tasks[group[i + 1]], key};
      else if (key + kKeyBlock < end)
        after = {&first_task, key + kKeyBlock};
#if HWY_TARGET == HWY_AVX3
      if constexpr (std::is_same_v<A, OnTiles>) {
        backward_block_on_tiles(problem, x, cotangent, statistics, gradient, dq_target, feature_gradients, strip, task, keys,
                                fresh, after);
        continue;
      } else
#endif
        backward_block<A>(problem, x, cotangent, statistics, gradient, dq_target, feature_gradients, strip, task, keys, fresh,
                          after);
    }
    if (strip.on()) feature_gradients.store_strip(first_task, strip);
  }
}

/// dsink = -sum over rows of p Delta, p = exp(sink - lse).
template <typename T>
void sink_gradient(const AttentionProblem& problem, const AttentionOperands& x, const RowStatistics<T>& statistics,
                   const AttentionOperands& gradient) {
  parallel_for(problem.heads, 1, [&](int64_t h, int64_t) {
    const double sink = static_cast<const T*>(x.sinks)[h];
    double sum = 0;
    for (int64_t b = 0; b < problem.sequences; ++b) {
      const Sequence sequence(problem, b);
      for (int64_t i = 0; i < sequence.rows; ++i) {
        const int64_t row = sequence.first_row + i;
        sum -= std::exp(sink - static_cast<double>(statistics.lse(row, h))) * static_cast<double>(statistics.delta(row, h));
      }
    }
    static_cast<T*>(gradient.sinks)[h] = static_cast<T>(sum);
  });
}

template <class A, typename T = typename A::Element>
void run_backward_as(const AttentionProblem& problem, const AttentionOperands& x, const AttentionResults& result,
                     const AttentionResults& cotangent, const AttentionOperands& gradient) {
  Scratch scratch;
  const RowStatistics<T> statistics(scratch, problem, result, problem.dtype, cotangent);
  const KeyTasks tasks = key_tasks(problem, shared_bias_sums(problem, gradient));
  const QueryGradient<T> dq(problem, gradient.q, tasks);
  FeatureGradients<T> feature_gradients(problem, gradient, tasks, true);
  feature_gradients.take_row_sums(x, statistics, cotangent);
  const auto groups = static_cast<int64_t>(tasks.groups.size()), grain = task_grain(groups);
  parallel_for(groups, grain, [&](int64_t begin, int64_t end) {
    for (int64_t g = begin; g < end; ++g) {
      const std::vector<int64_t>* const after = likely_next(tasks.groups, g, end, grain);
      const KeyTask* next = after != nullptr ? &tasks.tasks[after->front()] : nullptr;
      backward_group<A>(problem, x, cotangent, statistics, gradient, dq, feature_gradients, tasks, tasks.groups[g], next);
    }
  });
  dq.finish();
  feature_gradients.finish();
  if (gradient.sinks != nullptr) sink_gradient(problem, x, statistics, gradient);
}

void run_backward(const AttentionProblem& problem, const AttentionOperands& x, const AttentionResults& result,
                  const AttentionResults& cotangent, const AttentionOperands& gradient) {
#if HWY_TARGET == HWY_AVX3
  if (problem.dtype == DType::bfloat16) {
    const Bf16Arithmetic products = simd::bf16_products();
    if (products == Bf16Arithmetic::tiles) return run_backward_as<OnTiles>(problem, x, result, cotangent, gradient);
    if (products == Bf16Arithmetic::pair_dot) return run_backward_as<PairDot>(problem, x, result, cotangent, gradient);
  }
#endif
  if (problem.dtype == DType::float64) {
    run_backward_as<Plain<double>>(problem, x, result, cotangent, gradient);
  } else {
    run_backward_as<Plain<float>>(problem, x, result, cotangent, gradient);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace deckle::kernels::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace deckle::kernels::cpu {

HWY_EXPORT(run_backward);

void attention_backward(const Context&, const AttentionProblem& problem, const AttentionOperands& operands,
                        const AttentionResults& result, const AttentionResults& cotangent, const AttentionOperands& gradient) {
  require_served(problem);
  DECKLE_SIMD(run_backward)(problem, operands, result, cotangent, gradient);
}

}  // namespace deckle::kernels::cpu
#endif
