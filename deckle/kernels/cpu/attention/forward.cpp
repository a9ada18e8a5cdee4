// out, lse = attention(q, k, v).     q [Tq, H, D]  k [Tk, Hk, D]  v [Tk, Hk, Dv]  out [Tq, H, Dv]  lse [Tq, H]
//
// A task is up to 16 blocks of query rows of one head; blocks are two vectors wide (32 rows in float32 with AVX-512). Scores are
// held transposed, keys by queries: S^T = K Q^T and O^T += V^T P^T, so that every row statistic is one lane, K and V are used in
// their own layout, and only q and out are transposed, once per task. Cap, bias, ALiBi, table and masks act on the score tile
// between the two products (features-inl.h), dropout after the sum of the softmax.
// FLOPs: 2 (D + Dv) per score, in the matrix products; about 13 more (7 of them FMAs) for mask, maximum, exp and sum.
// Bytes: K and V once per task from memory, score tiles stay in L1, out tiles in L2.
// Instances: float32, float64; float16 widened to float32; bfloat16 on AMX tiles (forward_tiles-inl.h), on the pair dot
// product, or widened: what is fast on the processor (base/cpu_cap.h).
//
// GF/s of one core of an EPYC of family 25 (FMA peak 116, pair dot 233; 2026-11-21, f097e820), full mask, S = 512, D = 64:
//   definition, one query at a time          6.7   examples/attention_ladder: naive
//   transposed tiles of the compiler        27.5   examples/attention_ladder: transposed
//   with 8 keys in registers                43.4   examples/attention_ladder: blocked
//   one product kernel of 8 x 2 vectors     88.8   exp by a polynomial in registers; 92.0 at D = 128
//   bfloat16 by pairs                      140.0   same tiles, P rounded once
//
// At S = 128 a batch of 4,096 tokens and 8 heads does not fit the caches, and rows come from memory 256 bytes at a time. One
// core, GF/s (2026-11-22, a7aca047):
//   rows read when they are needed          67.5   in pages of 4 kB 65
//   prefetched a few at a time (prefetch.h) 74.6   the queries and keys of the next task and the next tile of this one
//   and the rows of out for writing         76.7
//   out written by the transposition        79.6   90.0 where everything is in L2
// Two cores of Emerald Rapids in turns, 8 heads, GF/s of forward and backward (2026-11-28, ec2f1bb2):
//                                                             32 x S = 128            8 x S = 512
//                                                             D = 64     D = 128      D = 64     D = 128
//   rows copied by a call each                                123, 117   125, 111     177, 163   231, 208
//   by one loop (pack-inl.h); prefetches inside the products  155, 158   161, 142     215, 202   242, 238
// Of it, one core at S = 128: the loop 1.27 to 1.34 times (of a task, copies of keys, values and queries 31 % before, 8 % after);
// rows prefetched also for the task of the next turn, dq stored at once in place of cleared and added to, and shares of what
// the end of a block needs requested earlier, 1.15 backward; single lines every 4 steps of a product in place of bursts between
// products (the processor holds few requests, and loads wait behind them) 1.04.
// Where a core's time goes at S = 512, D = 64, full mask (Emerald Rapids, one thread, sampled every 4 ms, 2,860 samples,
// c954bc6b): the two products 76 %, the softmax 11 %, mask and rescaling 6 %, transposes 3 %, copies and the ends of blocks 3 %.
// At 123 GF/s beside a peak of 176, which is 70 %, the products run at 92 % of the peak; at all of it they would make 76 %. Two
// cores of that machine, which others share, had a peak of 168 to 201 in one half minute and of 353 to 428 in the next: a share
// counts beside a peak of the same turns.
// Rejected: prefetching all next rows at once, in a burst: 2 %, within the noise; most requests are dropped. Copying the next
// rows in small pieces between the products: 76 where a copy of the whole tile gives 81 (D = 128: 81, 83). Reading keys and
// values in place, uncopied: 81 as well, though 91 for 89 where everything is in L2. Prefetching into L1 instead of L2: no
// difference.

#include "deckle/kernels/cpu/simd/targets.h"

#include <cmath>
#include <limits>

#include "deckle/base/parallel.h"
#include "deckle/base/scratch.h"
#include "deckle/kernels/cpu/attention/attention.h"
#include "deckle/kernels/cpu/attention/decode.h"
#include "deckle/kernels/cpu/attention/geometry.h"
#include "deckle/kernels/cpu/attention/prefetch.h"
#include "deckle/kernels/cpu/attention/require.h"
#include "deckle/kernels/cpu/simd/amx.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "deckle/kernels/cpu/attention/forward.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

#include "deckle/kernels/cpu/attention/arithmetic-inl.h"
#include "deckle/kernels/cpu/attention/dropout-inl.h"
#include "deckle/kernels/cpu/attention/exp-inl.h"
#include "deckle/kernels/cpu/attention/features-inl.h"
#include "deckle/kernels/cpu/attention/forward_tiles-inl.h"
#include "deckle/kernels/cpu/attention/matmul-inl.h"
#include "deckle/kernels/cpu/attention/pack-inl.h"
#include "deckle/kernels/cpu/attention/scores-inl.h"

HWY_BEFORE_NAMESPACE();
namespace deckle::kernels::cpu {
namespace HWY_NAMESPACE {

/// Blocks of rows of a task: each reads all keys once, so more blocks read less; half where the tasks would be too few.
inline constexpr int64_t kForwardBlocks = 16;
inline constexpr int64_t kEnoughTasks = 32;

/// The online softmax of a block after a new tile of scores: scores become exp(z - maximum), and `rescale` is what the old sum
/// and accumulator must be multiplied by.
template <int kVectors, typename T>
HWY_NOINLINE void softmax_step(T* HWY_RESTRICT scores, int64_t keys, T* HWY_RESTRICT maximum, T* HWY_RESTRICT sum,
                               T* HWY_RESTRICT rescale) {
  const hn::ScalableTag<T> d;
  using V = hn::Vec<decltype(d)>;
  constexpr int kN = kLanes<T>;
  constexpr T kInfinity = std::numeric_limits<T>::infinity();
  V top[kVectors], reference[kVectors], held[kVectors], total[kVectors];
  for (int v = 0; v < kVectors; ++v) top[v] = hn::LoadU(d, maximum + v * kN);
  for (int64_t j = 0; j < keys; ++j) {
    for (int v = 0; v < kVectors; ++v) top[v] = hn::Max(top[v], hn::LoadU(d, scores + j * kBlock<T> + v * kN));
  }
  for (int v = 0; v < kVectors; ++v) {
    // A row without a visible key so far has maximum -inf; its reference is 0, as -inf - (-inf) is NaN.
    reference[v] = hn::IfThenZeroElse(hn::Eq(top[v], hn::Set(d, -kInfinity)), top[v]);
    const V factor = exp_minus(d, hn::LoadU(d, maximum + v * kN), reference[v]);
    hn::StoreU(factor, d, rescale + v * kN);
    hn::StoreU(top[v], d, maximum + v * kN);
    held[v] = hn::Mul(factor, hn::LoadU(d, sum + v * kN));
    total[v] = hn::Zero(d);  // of this tile: short chains of additions round less
  }
  for (int64_t j = 0; j < keys; ++j) {
    for (int v = 0; v < kVectors; ++v) {
      T* at = scores + j * kBlock<T> + v * kN;
      const V e = exp_minus(d, hn::LoadU(d, at), reference[v]);
      hn::StoreU(e, d, at);
      total[v] = hn::Add(total[v], e);
    }
  }
  for (int v = 0; v < kVectors; ++v) hn::StoreU(hn::Add(held[v], total[v]), d, sum + v * kN);
}

/// Running state of one block of rows.
template <typename T>
struct ForwardBlock {
  T maximum[kBlock<T>];
  T sum[kBlock<T>];
  LaneRange<T> range;
  bool started;
};

/// `next` is the next task of this thread, or null.
template <class A, typename T = typename A::Element>
void forward_task(const AttentionProblem& problem, const AttentionOperands& x, const AttentionResults& result,
                  const RowTask& task, const RowTask* next) {
  constexpr int64_t kW = kBlock<T>;
  const int64_t D = problem.head_dim, Dv = problem.value_dim;
  const Sequence sequence(problem, task.sequence);
  const int64_t kv_head = task.head / problem.group();
  const int64_t blocks = (task.count + kW - 1) / kW;
  const int64_t v_stride = tile_stride<T>(Dv), o_rows = Dv + 3;

  Scratch scratch;
  auto* state = scratch.take<ForwardBlock<T>>(kForwardBlocks);
  T* rows = scratch.take<T>(kW * v_stride);
  const int64_t q_size = (units_of<A>(D) + 3) * kW;
  Operand<A> q(scratch, kW, D), k(scratch, kTileKeys, D), v(scratch, kTileKeys, Dv);
  auto* q_t = scratch.take<typename A::Unit>(kForwardBlocks * q_size);  // [block][D][kW]
  T* out_t = scratch.take<T>(kForwardBlocks * o_rows * kW);             // [block][Dv][kW]
  T* scores = scratch.take<T>(kTileKeys * kW);                          // [keys][kW]
  auto* p_units = scratch.take<typename A::Unit>(kTileKeys * kW);
  T* rescale = scratch.take<T>(kW);
  const FeatureScratch<T> feature_scratch(scratch);
  auto* keep = scratch.take<uint8_t>(kTileKeys * kW);  // [keys][kW]
  const Features<T> features(problem, x, sequence, task.head);
  const Dropout dropout(problem.dropout, task.sequence, task.head);
  // A sink is one more key, seen first, without a value.
  const T sink = x.sinks ? static_cast<const T*>(x.sinks)[task.head] : -std::numeric_limits<T>::infinity();
  const T first_sum = sink == -std::numeric_limits<T>::infinity() ? T(0) : T(1);

  KeyRange all{sequence.keys, 0};
  for (int64_t block = 0; block < blocks; ++block) {
    ForwardBlock<T>& s = state[block];
    const int64_t first = task.first + block * kW, count = std::min(kW, task.first + task.count - first);
    q.load(problem.dtype, x.q, sequence.first_row + first, count, kW, task.head, A::query_factor(problem.scale));
    block_to_lanes<A>(q.rows, q.row_stride, D, q_t + block * q_size);
    s.range = LaneRange<T>(problem, sequence, first, count);
    std::fill_n(s.maximum, kW, sink);
    std::fill_n(s.sum, kW, first_sum);
    s.started = false;
    if (s.range.outer.empty()) continue;
    // Tiles start at multiples of their size: the split of the keys does not depend on which rows share a task.
    all.begin = std::min(all.begin, s.range.outer.begin / kTileKeys * kTileKeys);
    all.end = std::max(all.end, s.range.outer.end);
  }

  for (int64_t first_key = all.begin; first_key < all.end; first_key += kTileKeys) {
    const int64_t tile_end = std::min(first_key + kTileKeys, all.end);
    k.load(problem.dtype, x.k, sequence.first_key + first_key, tile_end - first_key, 0, kv_head, T(1));
    v.load(problem.dtype, x.v, sequence.first_key + first_key, tile_end - first_key, 0, kv_head, T(1));
    v.pair(tile_end - first_key);
    RowPrefetch soon = next_rows(problem, x, result, task, next, all, first_key, kTileKeys);
    soon.spread(blocks * ((tile_end - first_key + kPrefetchRows - 1) / kPrefetchRows + (Dv + kPrefetchRows - 1) / kPrefetchRows));
    for (int64_t block = 0; block < blocks; ++block) {
      ForwardBlock<T>& s = state[block];
      // Pairs of keys are not split; the mask removes the extra key.
      const int64_t begin = std::max(first_key, s.range.outer.begin & ~int64_t{1}), end = std::min(tile_end, s.range.outer.end),
                    keys = end - begin;
      if (begin >= end) continue;
      const TilePlace at{task.first + block * kW, std::min(kW, task.count - block * kW), s.range.lanes, begin, keys};
      if (!features.touches(at)) continue;
      T* out_block = out_t + block * o_rows * kW;
      product_with_requests<A, AOrder::rows>(keys, at.lanes, D, k.rows + (begin - first_key) * k.row_stride, k.row_stride,
                                             q_t + block * q_size, kW, scores, kW, {}, A::score_factor(problem.scale), soon);
      if (features.any()) features.apply(scores, kW, at, feature_scratch, nullptr);
      if (s.range.cuts(begin, end)) mask_scores(scores, kW, begin, keys, s.range);
      if (s.range.lanes > kLanes<T>) {
        softmax_step<2>(scores, keys, s.maximum, s.sum, rescale);
      } else {
        softmax_step<1>(scores, keys, s.maximum, s.sum, rescale);
      }
      if (dropout.on()) {
        dropout.tile(at.row, at.lanes, begin, keys, keep, kW);
        drop(scores, kW, keys, at.lanes, keep, T(1));
      }
      const auto* p = A::across_rows(scores, kW, keys, at.lanes, p_units, kW);
      product_with_requests<A, AOrder::columns>(Dv, at.lanes, keys, v.pairs + (begin - first_key) / A::kFold * v.pair_stride,
                                                v.pair_stride, p, kW, out_block, kW, {s.started, rescale}, T(1), soon);
      s.started = true;
    }
  }

  for (int64_t block = 0; block < blocks; ++block) {
    ForwardBlock<T>& s = state[block];
    const int64_t first = task.first + block * kW, count = std::min(kW, task.first + task.count - first);
    // Whole blocks of the same type are stored straight to memory.
    const bool direct = problem.dtype == dtype_of<T> && count == kW && Dv % kSquareSide<T> == 0;
    T* to = direct ? reinterpret_cast<T*>(row_address(problem.dtype, result.out, sequence.first_row + first, task.head)) : rows;
    finish_block(s.started ? out_t + block * o_rows * kW : nullptr, Dv, s.maximum, s.sum,
                 static_cast<T>(Dropout::factor(problem.dropout)), to, direct ? result.out.row_stride : v_stride);
    if (!direct) store_rows(problem.dtype, result.out, sequence.first_row + first, count, task.head, Dv, rows, v_stride);
    if (result.lse == nullptr) continue;
    T* lse = static_cast<T*>(result.lse) + (sequence.first_row + first) * problem.heads + task.head;
    for (int64_t lane = 0; lane < count; ++lane) lse[lane * problem.heads] = s.maximum[lane];
  }
}

/// run(task, next) for all tasks of up to `most_rows` rows; next: the next task of the same thread, or null.
template <typename Run>
void run_forward_tasks(const AttentionProblem& problem, int64_t most_rows, Run run) {
  auto tasks = row_tasks(problem, most_rows);
  if (static_cast<int64_t>(tasks.size()) < kEnoughTasks) tasks = row_tasks(problem, most_rows / 2);
  if (problem.decoded != nullptr) std::erase_if(tasks, [&](const RowTask& task) { return problem.decoded[task.sequence] != 0; });
  const auto count = static_cast<int64_t>(tasks.size()), grain = task_grain(count);
  parallel_for(count, grain, [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) run(tasks[t], likely_next(tasks, t, end, grain));
  });
}

template <class A>
void run_forward_as(const AttentionProblem& problem, const AttentionOperands& x, const AttentionResults& result) {
  run_forward_tasks(problem, kForwardBlocks * kBlock<typename A::Element>,
                    [&](const RowTask& task, const RowTask* next) { forward_task<A>(problem, x, result, task, next); });
}

#if HWY_TARGET == HWY_AVX3
void run_forward_on_tiles(const AttentionProblem& problem, const AttentionOperands& x, const AttentionResults& result) {
  run_forward_tasks(problem, kForwardTileBlocks * simd::kTileQueries,
                    [&](const RowTask& task, const RowTask* next) { forward_task_on_tiles(problem, x, result, task, next); });
}
#endif

void run_forward(const AttentionProblem& problem, const AttentionOperands& x, const AttentionResults& result) {
#if HWY_TARGET == HWY_AVX3
  if (problem.dtype == DType::bfloat16) {
    const Bf16Arithmetic products = simd::bf16_products();
    if (products == Bf16Arithmetic::tiles) return run_forward_on_tiles(problem, x, result);
    if (products == Bf16Arithmetic::pair_dot) return run_forward_as<PairDot>(problem, x, result);
  }
#endif
  if (problem.dtype == DType::float64) {
    run_forward_as<Plain<double>>(problem, x, result);
  } else {
    run_forward_as<Plain<float>>(problem, x, result);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace deckle::kernels::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace deckle::kernels::cpu {

HWY_EXPORT(run_forward);

void attention_forward(const Context&, const AttentionProblem& problem, const AttentionOperands& operands,
                       const AttentionResults& result) {
  require_served(problem);
  if (problem.decoded != nullptr) attention_decode(problem, operands, result);
  DECKLE_SIMD(run_forward)(problem, operands, result);
}

}  // namespace deckle::kernels::cpu
#endif
