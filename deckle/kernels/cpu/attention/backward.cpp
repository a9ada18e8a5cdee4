// dq, dk, dv from dout, dlse.       P = exp(z - lse)   dP = dout v^T   dZ = P (dP - Delta)   Delta = rowsum(dout out) - dlse
//
// One fused pass, five products per score (S, dP, dV, dK, dQ): a task owns the dk and dv of a chunk of keys of one key head and walks the
// query heads of its group and their row tiles. dq is added up per chunk, in a buffer nobody else writes (the output itself where
// there is one chunk), and the chunks are added in order: no atomics, and bit-equal for any number of threads.
// FLOPs: 2 (3 D + 2 Dv) per score in the products; about 18 more for exp and the element-wise part.

#include "deckle/kernels/cpu/simd/targets.h"

#include <cmath>
#include <limits>
#include <memory>

#include "deckle/base/parallel.h"
#include "deckle/kernels/cpu/attention/attention.h"
#include "deckle/kernels/cpu/attention/chunks.h"
#include "deckle/kernels/cpu/attention/geometry.h"
#include "deckle/kernels/cpu/attention/require.h"
#include "deckle/kernels/cpu/attention/scratch.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "deckle/kernels/cpu/attention/backward.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

#include "deckle/kernels/cpu/attention/exp-inl.h"
#include "deckle/kernels/cpu/attention/matmul-inl.h"
#include "deckle/kernels/cpu/attention/pack-inl.h"
#include "deckle/kernels/cpu/attention/row_statistics-inl.h"
#include "deckle/kernels/cpu/attention/scores-inl.h"

HWY_BEFORE_NAMESPACE();
namespace deckle::kernels::cpu {
namespace HWY_NAMESPACE {

inline constexpr int64_t kBackwardKeys = 64;  // keys of a score tile
template <typename T>
inline constexpr int64_t kBackwardRows = 2 * kBlock<T>;

/// scores become P, products (dP) become dZ.
template <typename T>
HWY_NOINLINE void gradient_step(T* HWY_RESTRICT scores, T* HWY_RESTRICT products, int64_t stride, int64_t keys, int64_t lanes,
                                const T* HWY_RESTRICT lse_log2, const T* HWY_RESTRICT delta) {
  const hn::ScalableTag<T> d;
  for (int64_t lane = 0; lane < lanes; lane += kLanes<T>) {
    const auto reference = hn::LoadU(d, lse_log2 + lane), shift = hn::LoadU(d, delta + lane);
    T* at = scores + lane;
    T* product = products + lane;
    for (int64_t j = 0; j < keys; ++j, at += stride, product += stride) {
      const auto p = exp_minus(d, hn::LoadU(d, at), reference);
      hn::StoreU(p, d, at);
      hn::StoreU(hn::Mul(p, hn::Sub(hn::LoadU(d, product), shift)), d, product);
    }
  }
}

/// One row tile, loaded: both orders of q and dout, and the statistics of its rows.
template <typename T>
struct RowTile {
  int64_t first, count, blocks;
  T *q, *q_t, *dout, *dout_t, *lse_log2, *delta;
  LaneRange<T> range[kBackwardRows<T> / kBlock<T>];
  KeyRange outer;
};

template <typename T>
void backward_task(const AttentionProblem& problem, const AttentionOperands& x, const AttentionResults& cotangent,
                   const RowStatistics<T>& statistics, const AttentionOperands& gradient, const QueryGradient<T>& dq_target,
                   const KeyTask& task) {
  constexpr int64_t kW = kBlock<T>, kRows = kBackwardRows<T>, kBlocks = kRows / kW;
  const int64_t D = problem.head_dim, Dv = problem.value_dim, group = problem.group();
  const Sequence sequence(problem, task.sequence);
  const int64_t k_stride = tile_stride<T>(D), v_stride = tile_stride<T>(Dv);
  const bool want_dq = gradient.q.data != nullptr, want_dk = gradient.k.data != nullptr, want_dv = gradient.v.data != nullptr;
  const bool want_dz = want_dq || want_dk;

  Scratch scratch;
  T* k = scratch.take<T>(kKeyBlock * k_stride);
  T* v = scratch.take<T>(kKeyBlock * v_stride);
  T* dk = scratch.take<T>(kKeyBlock * k_stride);
  T* dv = scratch.take<T>(kKeyBlock * v_stride);
  T* dq = scratch.take<T>(kRows * k_stride);
  T* scores = scratch.take<T>(kBackwardKeys * kRows);
  T* products = scratch.take<T>(kBackwardKeys * kRows);
  auto* tile = scratch.take<RowTile<T>>(1);
  tile->q = scratch.take<T>(kRows * k_stride);
  tile->q_t = scratch.take<T>(kBlocks * (D + 3) * kW);
  tile->dout = scratch.take<T>(kRows * v_stride);
  tile->dout_t = scratch.take<T>(kBlocks * (Dv + 3) * kW);
  tile->lse_log2 = scratch.take<T>(kRows);
  tile->delta = scratch.take<T>(kRows);

  if (want_dq) {
    for (int64_t h = task.kv_head * group; h < (task.kv_head + 1) * group; ++h) dq_target.clear(task.chunk, sequence, h);
  }
  for (int64_t block_key = task.begin; block_key < task.end; block_key += kKeyBlock) {
    const int64_t block_end = std::min(block_key + kKeyBlock, task.end), block_keys = block_end - block_key;
    load_rows(problem.dtype, x.k, sequence.first_key + block_key, block_keys, 0, task.kv_head, D, T(1), k, k_stride);
    load_rows(problem.dtype, x.v, sequence.first_key + block_key, block_keys, 0, task.kv_head, Dv, T(1), v, v_stride);
    std::memset(dk, 0, static_cast<size_t>(block_keys * k_stride) * sizeof(T));
    std::memset(dv, 0, static_cast<size_t>(block_keys * v_stride) * sizeof(T));
    for (int64_t h = task.kv_head * group; h < (task.kv_head + 1) * group; ++h) {
      for (int64_t first = 0; first < sequence.rows; first += kRows) {
        tile->first = first;
        tile->count = std::min(kRows, sequence.rows - first);
        tile->blocks = (tile->count + kW - 1) / kW;
        tile->outer = {block_end, block_key};
        for (int64_t block = 0; block < tile->blocks; ++block) {
          tile->range[block] = LaneRange<T>(problem, sequence, first + block * kW, std::min(kW, tile->count - block * kW));
          const KeyRange outer = tile->range[block].outer;
          if (outer.empty()) continue;
          tile->outer.begin = std::max(block_key, std::min(tile->outer.begin, outer.begin));
          tile->outer.end = std::min(block_end, std::max(tile->outer.end, outer.end));
        }
        if (tile->outer.empty()) continue;
        load_rows(problem.dtype, x.q, sequence.first_row + first, tile->count, kRows, h, D, static_cast<T>(problem.scale), tile->q, k_stride);
        load_rows(problem.dtype, cotangent.out, sequence.first_row + first, tile->count, kRows, h, Dv, T(1), tile->dout, v_stride);
        statistics.load(sequence.first_row + first, tile->count, kRows, h, tile->lse_log2, tile->delta);
        for (int64_t r = 0; r < tile->count; ++r) {
          // Whatever arrives for a row that saw nothing must not reach the products: 0 * NaN is NaN.
          if (std::isinf(tile->lse_log2[r])) std::memset(tile->dout + r * v_stride, 0, static_cast<size_t>(Dv) * sizeof(T));
        }
        for (int64_t block = 0; block < tile->blocks; ++block) {
          transpose(tile->q + block * kW * k_stride, k_stride, kW, D, tile->q_t + block * (D + 3) * kW, kW);
          transpose(tile->dout + block * kW * v_stride, v_stride, kW, Dv, tile->dout_t + block * (Dv + 3) * kW, kW);
        }
        bool dq_started = false;
        for (int64_t key = tile->outer.begin; key < tile->outer.end; key += kBackwardKeys) {
          const int64_t end = std::min(key + kBackwardKeys, tile->outer.end), keys = end - key, offset = key - block_key;
          for (int64_t block = 0; block < tile->blocks; ++block) {
            const LaneRange<T>& range = tile->range[block];
            T* block_scores = scores + block * kW;
            T* block_products = products + block * kW;
            matmul<AOrder::rows>(keys, range.lanes, D, k + offset * k_stride, k_stride, tile->q_t + block * (D + 3) * kW, kW, block_scores, kRows, {});
            if (range.cuts(key, end)) mask_scores(block_scores, kRows, key, keys, range);
            matmul<AOrder::rows>(keys, range.lanes, Dv, v + offset * v_stride, v_stride, tile->dout_t + block * (Dv + 3) * kW, kW, block_products, kRows, {});
            gradient_step(block_scores, block_products, kRows, keys, range.lanes, tile->lse_log2 + block * kW, tile->delta + block * kW);
          }
          if (want_dv) matmul<AOrder::rows>(keys, Dv, tile->count, scores, kRows, tile->dout, v_stride, dv + offset * v_stride, v_stride, {true});
          if (want_dk) matmul<AOrder::rows>(keys, D, tile->count, products, kRows, tile->q, k_stride, dk + offset * k_stride, k_stride, {true});
          if (want_dq) matmul<AOrder::columns>(tile->count, D, keys, products, kRows, k + offset * k_stride, k_stride, dq, k_stride, {dq_started});
          dq_started = true;
        }
        if (want_dq) dq_target.add(task.chunk, sequence.first_row + first, tile->count, h, dq, k_stride, static_cast<T>(problem.scale));
      }
    }
    if (want_dk) store_rows(problem.dtype, gradient.k, sequence.first_key + block_key, block_keys, task.kv_head, D, dk, k_stride);
    if (want_dv) store_rows(problem.dtype, gradient.v, sequence.first_key + block_key, block_keys, task.kv_head, Dv, dv, v_stride);
  }
  (void)want_dz;
}

template <typename T>
void run_backward_as(const AttentionProblem& problem, const AttentionOperands& x, const AttentionResults& result,
                     const AttentionResults& cotangent, const AttentionOperands& gradient) {
  const RowStatistics<T> statistics(problem, result, cotangent);
  const std::vector<KeyTask> tasks = key_tasks(problem);
  const QueryGradient<T> dq(problem, gradient.q, tasks);
  parallel_for(static_cast<int64_t>(tasks.size()), 1, [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) backward_task<T>(problem, x, cotangent, statistics, gradient, dq, tasks[t]);
  });
  dq.finish();
}

void run_backward(const AttentionProblem& problem, const AttentionOperands& x, const AttentionResults& result,
                  const AttentionResults& cotangent, const AttentionOperands& gradient) {
  if (problem.dtype == DType::float64) {
    run_backward_as<double>(problem, x, result, cotangent, gradient);
  } else {
    run_backward_as<float>(problem, x, result, cotangent, gradient);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace deckle::kernels::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace deckle::kernels::cpu {

HWY_EXPORT(run_backward);

void attention_backward(const CpuContext&, const AttentionProblem& problem, const AttentionOperands& operands,
                        const AttentionResults& result, const AttentionResults& cotangent, const AttentionOperands& gradient) {
  require_served(problem);
  DECKLE_SIMD(run_backward)(problem, operands, result, cotangent, gradient);
}

}  // namespace deckle::kernels::cpu
#endif
