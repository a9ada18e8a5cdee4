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

#include "deckle/kernels/cpu/attention/dropout-inl.h"
#include "deckle/kernels/cpu/attention/exp-inl.h"
#include "deckle/kernels/cpu/attention/feature_gradients-inl.h"
#include "deckle/kernels/cpu/attention/features-inl.h"
#include "deckle/kernels/cpu/attention/matmul-inl.h"
#include "deckle/kernels/cpu/attention/pack-inl.h"
#include "deckle/kernels/cpu/attention/row_statistics-inl.h"
#include "deckle/kernels/cpu/attention/scores-inl.h"

HWY_BEFORE_NAMESPACE();
namespace deckle::kernels::cpu {
namespace HWY_NAMESPACE {

template <typename T>
inline constexpr int64_t kBackwardRows = 2 * kBlock<T>;

/// scores become P, products (dP) become dZ.
template <typename T>
HWY_NOINLINE void gradient_step(T* HWY_RESTRICT scores, T* HWY_RESTRICT products, int64_t stride, int64_t keys, int64_t lanes,
                                const T* HWY_RESTRICT lse, const T* HWY_RESTRICT delta) {
  const hn::ScalableTag<T> d;
  for (int64_t lane = 0; lane < lanes; lane += kLanes<T>) {
    const auto reference = hn::LoadU(d, lse + lane), shift = hn::LoadU(d, delta + lane);
    T* at = scores + lane;
    T* product = products + lane;
    for (int64_t j = 0; j < keys; ++j, at += stride, product += stride) {
      const auto p = exp_minus(d, hn::LoadU(d, at), reference);
      hn::StoreU(p, d, at);
      hn::StoreU(hn::Mul(p, hn::Sub(hn::LoadU(d, product), shift)), d, product);
    }
  }
}

/// dZ becomes dY = dZ (1 - tanh^2).
template <typename T>
HWY_NOINLINE void uncap(T* HWY_RESTRICT gradients, const T* HWY_RESTRICT tanh_tile, int64_t stride, int64_t keys, int64_t lanes) {
  const hn::ScalableTag<T> d;
  for (int64_t j = 0; j < keys; ++j) {
    for (int64_t lane = 0; lane < lanes; lane += kLanes<T>) {
      const auto w = hn::LoadU(d, tanh_tile + j * stride + lane);
      T* to = gradients + j * stride + lane;
      hn::StoreU(hn::Mul(hn::LoadU(d, to), hn::NegMulAdd(w, w, hn::Set(d, T(1)))), d, to);
    }
  }
}

template <typename T>
void zero_tile(T* tile, int64_t stride, int64_t keys, int64_t lanes) {
  for (int64_t j = 0; j < keys; ++j) std::fill_n(tile + j * stride, lanes, T(0));
}

/// One row tile, loaded: both orders of q and dout, and the statistics of its rows.
template <typename T>
struct RowTile {
  int64_t first, count, blocks;
  T *q, *q_t, *dout, *dout_t, *lse, *delta;
  LaneRange<T> range[kBackwardRows<T> / kBlock<T>];
  KeyRange outer;
};

template <typename T>
void backward_task(const AttentionProblem& problem, const AttentionOperands& x, const AttentionResults& cotangent,
                   const RowStatistics<T>& statistics, const AttentionOperands& gradient, const QueryGradient<T>& dq_target,
                   FeatureGradients<T>& feature_gradients, const KeyTask& task) {
  constexpr int64_t kW = kBlock<T>, kRows = kBackwardRows<T>, kBlocks = kRows / kW;
  const int64_t D = problem.head_dim, Dv = problem.value_dim, group = problem.group();
  const Sequence sequence(problem, task.sequence);
  const int64_t k_stride = tile_stride<T>(D), v_stride = tile_stride<T>(Dv);
  const bool want_dq = gradient.q.data != nullptr, want_dk = gradient.k.data != nullptr, want_dv = gradient.v.data != nullptr;

  Scratch scratch;
  T* k = scratch.take<T>(kKeyBlock * k_stride);
  T* v = scratch.take<T>(kKeyBlock * v_stride);
  T* dk = scratch.take<T>(kKeyBlock * k_stride);
  T* dv = scratch.take<T>(kKeyBlock * v_stride);
  T* dq = scratch.take<T>(kRows * k_stride);
  T* scores = scratch.take<T>(kTileKeys * kRows);
  T* products = scratch.take<T>(kTileKeys * kRows);
  T* tanh_tile = scratch.take<T>(kTileKeys * kRows);
  auto* keep = scratch.take<uint8_t>(kTileKeys * kW);
  const FeatureScratch<T> feature_scratch(scratch);
  const T dropout_factor = static_cast<T>(Dropout::factor(problem.dropout));
  auto* tile = scratch.take<RowTile<T>>(1);
  tile->q = scratch.take<T>(kRows * k_stride);
  tile->q_t = scratch.take<T>(kBlocks * (D + 3) * kW);
  tile->dout = scratch.take<T>(kRows * v_stride);
  tile->dout_t = scratch.take<T>(kBlocks * (Dv + 3) * kW);
  tile->lse = scratch.take<T>(kRows);
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
      const Features<T> features(problem, x, sequence, h);
      const Dropout dropout(problem.dropout, task.sequence, h);
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
        statistics.load(sequence.first_row + first, tile->count, kRows, h, tile->lse, tile->delta);
        for (int64_t r = 0; r < tile->count; ++r) {
          // Whatever arrives for a row that saw nothing must not reach the products: 0 * NaN is NaN.
          if (std::isinf(tile->lse[r])) std::memset(tile->dout + r * v_stride, 0, static_cast<size_t>(Dv) * sizeof(T));
        }
        for (int64_t block = 0; block < tile->blocks; ++block) {
          transpose(tile->q + block * kW * k_stride, k_stride, kW, D, tile->q_t + block * (D + 3) * kW, kW);
          transpose(tile->dout + block * kW * v_stride, v_stride, kW, Dv, tile->dout_t + block * (Dv + 3) * kW, kW);
        }
        bool dq_started = false;
        for (int64_t key = tile->outer.begin; key < tile->outer.end; key += kTileKeys) {
          const int64_t end = std::min(key + kTileKeys, tile->outer.end), keys = end - key, offset = key - block_key;
          for (int64_t block = 0; block < tile->blocks; ++block) {
            const LaneRange<T>& range = tile->range[block];
            T* block_scores = scores + block * kW;
            T* block_products = products + block * kW;
            const TilePlace at{first + block * kW, std::min(kW, tile->count - block * kW), range.lanes, key, keys};
            if (!features.touches(at)) {
              zero_tile(block_scores, kRows, keys, at.lanes);
              zero_tile(block_products, kRows, keys, at.lanes);
              continue;
            }
            T* block_tanh = tanh_tile + block * kW;
            matmul<AOrder::rows>(keys, range.lanes, D, k + offset * k_stride, k_stride, tile->q_t + block * (D + 3) * kW, kW, block_scores, kRows, {});
            if (features.any()) features.apply(block_scores, kRows, at, feature_scratch, block_tanh);
            if (range.cuts(key, end)) mask_scores(block_scores, kRows, key, keys, range);
            matmul<AOrder::rows>(keys, range.lanes, Dv, v + offset * v_stride, v_stride, tile->dout_t + block * (Dv + 3) * kW, kW, block_products, kRows, {});
            if (dropout.on()) {
              dropout.tile(at.row, at.lanes, key, keys, keep, kW);
              drop(block_products, kRows, keys, at.lanes, keep, dropout_factor);
            }
            gradient_step(block_scores, block_products, kRows, keys, range.lanes, tile->lse + block * kW, tile->delta + block * kW);
            if (dropout.on()) drop(block_scores, kRows, keys, at.lanes, keep, dropout_factor);
            if (feature_gradients.any()) feature_gradients.add(task, sequence, h, at, block_products, kRows, feature_scratch);
            if (features.capped()) uncap(block_products, block_tanh, kRows, keys, at.lanes);
            if (feature_gradients.any()) feature_gradients.add_before_cap(task, sequence, h, at, block_products, kRows, feature_scratch);
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
}

/// dsink = -sum over rows of p Delta, p = exp(sink - lse).
template <typename T>
void sink_gradient(const AttentionProblem& problem, const AttentionOperands& x, const RowStatistics<T>& statistics, const AttentionOperands& gradient) {
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

template <typename T>
void run_backward_as(const AttentionProblem& problem, const AttentionOperands& x, const AttentionResults& result,
                     const AttentionResults& cotangent, const AttentionOperands& gradient) {
  const RowStatistics<T> statistics(problem, result, cotangent);
  const KeyTasks tasks = key_tasks(problem, shared_bias_sums(problem, gradient));
  const QueryGradient<T> dq(problem, gradient.q, tasks);
  FeatureGradients<T> feature_gradients(problem, gradient, tasks);
  const auto groups = static_cast<int64_t>(tasks.groups.size());
  parallel_for(groups, task_grain(groups), [&](int64_t begin, int64_t end) {
    for (int64_t g = begin; g < end; ++g) {
      for (int64_t t : tasks.groups[g]) backward_task<T>(problem, x, cotangent, statistics, gradient, dq, feature_gradients, tasks.tasks[t]);
    }
  });
  dq.finish();
  feature_gradients.finish();
  if (gradient.sinks != nullptr) sink_gradient(problem, x, statistics, gradient);
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
