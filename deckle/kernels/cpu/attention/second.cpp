// The tangent of the backward: double backward, forward over reverse and reverse over forward (docs/attention.md).
//
//   tdZ = P [(tz - tlse)(dP - Delta) + tdP - tDelta]      tdY = phi' tdZ + phi'' ty dZ
//   tdq = scale (tdY k + dY tk)    tdk = scale (tdY^T q + dY^T tq)    tdv = (R P (tz - tlse))^T dout + (R P)^T tdout
//
// Two passes: the JVP (jvp.cpp) for out, tout and tlse, unrounded, hence Delta and tDelta; then one key-stationary pass shaped as
// the backward's. FLOPs: 2 (3 D + 3 Dv) + 2 (7 D + 3 Dv) per score, 2 Dv more for each product of tdout; absent tangents drop
// theirs. 85 GF/s where the backward has 86 (machine and commit of backward.cpp).
//
// The second pass of bfloat16 runs on AMX tiles (second_tiles-inl.h) where the backward does; else it is widened.

#include "deckle/kernels/cpu/simd/targets.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

#include "deckle/base/parallel.h"
#include "deckle/base/scratch.h"
#include "deckle/kernels/cpu/attention/attention.h"
#include "deckle/kernels/cpu/attention/chunks.h"
#include "deckle/kernels/cpu/attention/geometry.h"
#include "deckle/kernels/cpu/attention/jvp.h"
#include "deckle/kernels/cpu/attention/require.h"
#include "deckle/kernels/cpu/simd/amx.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "deckle/kernels/cpu/attention/second.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

#include "deckle/kernels/cpu/attention/arithmetic-inl.h"
#include "deckle/kernels/cpu/attention/dropout-inl.h"
#include "deckle/kernels/cpu/attention/feature_gradients-inl.h"
#include "deckle/kernels/cpu/attention/features-inl.h"
#include "deckle/kernels/cpu/attention/matmul-inl.h"
#include "deckle/kernels/cpu/attention/pack-inl.h"
#include "deckle/kernels/cpu/attention/row_statistics-inl.h"
#include "deckle/kernels/cpu/attention/row_tile-inl.h"
#include "deckle/kernels/cpu/attention/scores-inl.h"
#include "deckle/kernels/cpu/attention/second_step-inl.h"
#include "deckle/kernels/cpu/attention/second_tiles-inl.h"

HWY_BEFORE_NAMESPACE();
namespace deckle::kernels::cpu {
namespace HWY_NAMESPACE {

template <typename T>
void second_task(const SecondCall<T>& c, const KeyTask& task) {
  constexpr int64_t kW = kBlock<T>, kRows = kTileRows<T>, kTile = kTileKeys * kRows;
  const AttentionProblem& problem = c.problem;
  const int64_t D = problem.head_dim, Dv = problem.value_dim, group = problem.group();
  const Sequence sequence(problem, task.sequence);
  const int64_t k_stride = tile_stride<T>(D), v_stride = tile_stride<T>(Dv);
  const bool has_tq = c.t.q.data != nullptr, has_tk = c.t.k.data != nullptr, has_tv = c.t.v.data != nullptr;
  const bool has_tdout = c.cotangent_tangent.out.data != nullptr;
  const bool want_tdq = c.gradient_tangent.q.data != nullptr, want_tdk = c.gradient_tangent.k.data != nullptr,
             want_tdv = c.gradient_tangent.v.data != nullptr;
  const T scale = static_cast<T>(problem.scale);

  Scratch scratch;
  T* k = scratch.take<T>(kKeyBlock * k_stride);
  T* v = scratch.take<T>(kKeyBlock * v_stride);
  T* tk = scratch.take<T>(kKeyBlock * k_stride);
  T* tv = scratch.take<T>(kKeyBlock * v_stride);
  T* tdk = scratch.take<T>(kKeyBlock * k_stride);
  T* tdv = scratch.take<T>(kKeyBlock * v_stride);
  T* tdq = scratch.take<T>(kRows * k_stride);
  const SecondTiles<T> tiles{scratch.take<T>(kTile), scratch.take<T>(kTile), scratch.take<T>(kTile), scratch.take<T>(kTile),
                             kRows};
  T* tanh_tile = scratch.take<T>(kTile);
  T* y_tangents = scratch.take<T>(kTile);
  auto* keep = scratch.take<uint8_t>(kTileKeys * kW);
  const SecondRows<T> rows{scratch.take<T>(kRows), scratch.take<T>(kRows), scratch.take<T>(kRows), scratch.take<T>(kRows)};
  RowOperand<Plain<T>> q(scratch, D), tq(scratch, D), dout(scratch, Dv), tdout(scratch, Dv);
  const FeatureScratch<T> feature_scratch(scratch);
  RowTile<T> tile;

  for (int64_t h = task.kv_head * group; h < (task.kv_head + 1) * group; ++h) {
    if (want_tdq) c.tdq.clear(task.chunk, sequence, h);
  }
  for (int64_t block_key = task.begin; block_key < task.end; block_key += kKeyBlock) {
    const KeyRange block_keys{block_key, std::min(block_key + kKeyBlock, task.end)};
    const int64_t first_key = sequence.first_key + block_key, count = block_keys.end - block_key;
    load_rows(problem.dtype, c.x.k, first_key, count, 0, task.kv_head, D, T(1), k, k_stride);
    load_rows(problem.dtype, c.x.v, first_key, count, 0, task.kv_head, Dv, T(1), v, v_stride);
    if (has_tk) load_rows(problem.dtype, c.t.k, first_key, count, 0, task.kv_head, D, T(1), tk, k_stride);
    if (has_tv) load_rows(problem.dtype, c.t.v, first_key, count, 0, task.kv_head, Dv, T(1), tv, v_stride);
    std::memset(tdk, 0, static_cast<size_t>(count * k_stride) * sizeof(T));
    std::memset(tdv, 0, static_cast<size_t>(count * v_stride) * sizeof(T));
    for (int64_t h = task.kv_head * group; h < (task.kv_head + 1) * group; ++h) {
      const SecondHead<T> head(c, task, sequence, h);
      for (int64_t first = 0; first < sequence.rows; first += kRows) {
        if (!tile.place(problem, sequence, first, block_keys)) continue;
        const int64_t row = sequence.first_row + first;
        c.statistics.load(row, tile.count, kRows, h, rows.lse, rows.delta);
        c.tangent_statistics.load(row, tile.count, kRows, h, rows.lse_tangent, rows.delta_tangent);
        q.load_seen(problem.dtype, c.x.q, row, tile.count, h, scale, rows.lse);
        dout.load_seen(problem.dtype, c.cotangent.out, row, tile.count, h, T(1), rows.lse);
        if (has_tq) tq.load_seen(problem.dtype, c.t.q, row, tile.count, h, scale, rows.lse);
        if (has_tdout) tdout.load_seen(problem.dtype, c.cotangent_tangent.out, row, tile.count, h, T(1), rows.lse);
        bool started = false;
        for (int64_t key = tile.seen.begin; key < tile.seen.end; key += kTileKeys) {
          const int64_t end = std::min(key + kTileKeys, tile.seen.end), keys = end - key;
          const int64_t k_at = (key - block_key) * k_stride, v_at = (key - block_key) * v_stride;
          for (int64_t block = 0; block < tile.blocks; ++block) {
            const TilePlace at = tile.at(block, key, keys);
            const SecondTiles<T> s{tiles.scores + block * kW, tiles.tangents + block * kW, tiles.products + block * kW,
                                   tiles.product_tangents + block * kW, kRows};
            if (!head.features.touches(at)) {
              for (T* part : {s.scores, s.tangents, s.products, s.product_tangents}) zero_tile(part, kRows, keys, at.lanes);
              continue;
            }
            matmul<AOrder::rows>(keys, at.lanes, D, k + k_at, k_stride, q.block(block), kW, s.scores, kRows, {});
            if (has_tq) matmul<AOrder::rows>(keys, at.lanes, D, k + k_at, k_stride, tq.block(block), kW, s.tangents, kRows, {});
            if (has_tk)
              matmul<AOrder::rows>(keys, at.lanes, D, tk + k_at, k_stride, q.block(block), kW, s.tangents, kRows, {has_tq});
            if (!has_tq && !has_tk) zero_tile(s.tangents, kRows, keys, at.lanes);
            matmul<AOrder::rows>(keys, at.lanes, Dv, v + v_at, v_stride, dout.block(block), kW, s.products, kRows, {});
            if (has_tdout)
              matmul<AOrder::rows>(keys, at.lanes, Dv, v + v_at, v_stride, tdout.block(block), kW, s.product_tangents, kRows, {});
            if (has_tv)
              matmul<AOrder::rows>(keys, at.lanes, Dv, tv + v_at, v_stride, dout.block(block), kW, s.product_tangents, kRows,
                                   {has_tdout});
            if (!has_tdout && !has_tv) zero_tile(s.product_tangents, kRows, keys, at.lanes);
            second_block(c, head, at, tile.range[block], s, keys, at.lanes, rows, block * kW,
                         {tanh_tile + block * kW, y_tangents + block * kW, keep, feature_scratch});
          }
          if (want_tdv)
            matmul<AOrder::rows>(keys, Dv, tile.count, tiles.tangents, kRows, dout.rows, v_stride, tdv + v_at, v_stride, {true});
          if (want_tdv && has_tdout)
            matmul<AOrder::rows>(keys, Dv, tile.count, tiles.scores, kRows, tdout.rows, v_stride, tdv + v_at, v_stride, {true});
          if (want_tdk)
            matmul<AOrder::rows>(keys, D, tile.count, tiles.product_tangents, kRows, q.rows, k_stride, tdk + k_at, k_stride,
                                 {true});
          if (want_tdk && has_tq)
            matmul<AOrder::rows>(keys, D, tile.count, tiles.products, kRows, tq.rows, k_stride, tdk + k_at, k_stride, {true});
          if (want_tdq)
            matmul<AOrder::columns>(tile.count, D, keys, tiles.product_tangents, kRows, k + k_at, k_stride, tdq, k_stride,
                                    {started});
          if (want_tdq && has_tk)
            matmul<AOrder::columns>(tile.count, D, keys, tiles.products, kRows, tk + k_at, k_stride, tdq, k_stride, {true});
          started = true;
        }
        if (want_tdq) c.tdq.add(task.chunk, row, tile.count, h, tdq, k_stride, scale, false);
      }
    }
    if (want_tdk) store_rows(problem.dtype, c.gradient_tangent.k, first_key, count, task.kv_head, D, tdk, k_stride);
    if (want_tdv) store_rows(problem.dtype, c.gradient_tangent.v, first_key, count, task.kv_head, Dv, tdv, v_stride);
  }
}

/// tdsink = -sum p [(tsink - tlse) Delta + tDelta], p = exp(sink - lse).
template <typename T>
void sink_tangent(const SecondCall<T>& c) {
  parallel_for(c.problem.heads, 1, [&](int64_t h, int64_t) {
    const double sink = static_cast<const T*>(c.x.sinks)[h], moved = c.t.sinks ? static_cast<const T*>(c.t.sinks)[h] : 0.0;
    double sum = 0;
    for (int64_t b = 0; b < c.problem.sequences; ++b) {
      const Sequence sequence(c.problem, b);
      for (int64_t i = 0; i < sequence.rows; ++i) {
        const int64_t row = sequence.first_row + i;
        const double p = std::exp(sink - static_cast<double>(c.statistics.lse(row, h))), delta = c.statistics.delta(row, h);
        if (p == 0) continue;
        sum -= p * ((moved - static_cast<double>(c.tangent_statistics.lse(row, h))) * delta +
                    static_cast<double>(c.tangent_statistics.delta(row, h)));
      }
    }
    static_cast<T*>(c.gradient_tangent.sinks)[h] = static_cast<T>(sum);
  });
}

template <class A, typename T = typename A::Element>
void run_second_as(const AttentionProblem& problem, const AttentionOperands& x, const AttentionOperands& tangent,
                   const AttentionResults& result, const AttentionResults& cotangent, const AttentionResults& cotangent_tangent,
                   const AttentionOperands& gradient_tangent, const AttentionResults& result_tangent) {
  const int64_t rows = batch_rows(problem), heads = problem.heads, Dv = problem.value_dim, size = rows * heads * Dv;
  Scratch scratch;
  T* const work = scratch.take<T>(2 * size + rows * heads);
  const AttentionResults primal{{work, heads * Dv, Dv}, nullptr};
  AttentionResults moved{{work + size, heads * Dv, Dv}, result_tangent.lse};
  if (moved.lse == nullptr) moved.lse = work + 2 * size;
  attention_jvp_as(problem, x, tangent, primal, moved, dtype_of<T>);
  if (result_tangent.out.data != nullptr) {
    for (int64_t b = 0; b < problem.sequences; ++b) {
      const Sequence sequence(problem, b);
      parallel_for(sequence.rows, kRowGrain, [&](int64_t begin, int64_t end) {
        for (int64_t h = 0; h < heads; ++h) {
          const int64_t row = sequence.first_row + begin;
          store_rows(problem.dtype, result_tangent.out, row, end - begin, h, Dv, work + size + (row * heads + h) * Dv,
                     heads * Dv);
        }
      });
    }
  }

  const RowStatistics<T> statistics(scratch, problem, {primal.out, result.lse}, dtype_of<T>, cotangent);
  const TangentStatistics<T> tangent_statistics(scratch, problem, statistics, primal, moved, cotangent, cotangent_tangent);
  const KeyTasks tasks = key_tasks(problem, shared_bias_sums(problem, gradient_tangent));
  const QueryGradient<T> tdq(problem, gradient_tangent.q, tasks);
  FeatureGradients<T> feature_tangents(problem, gradient_tangent, tasks);
  const SecondCall<T> call{problem,          x,   tangent,         cotangent, cotangent_tangent, statistics, tangent_statistics,
                           gradient_tangent, tdq, feature_tangents};
  const auto groups = static_cast<int64_t>(tasks.groups.size());
  parallel_for(groups, task_grain(groups), [&](int64_t begin, int64_t end) {
    for (int64_t g = begin; g < end; ++g) {
      for (int64_t i : tasks.groups[g]) {
#if HWY_TARGET == HWY_AVX3
        if constexpr (std::is_same_v<A, OnTiles>) {
          second_task_on_tiles(call, tasks.tasks[i]);
          continue;
        } else
#endif
          second_task(call, tasks.tasks[i]);
      }
    }
  });
  tdq.finish();
  feature_tangents.finish();
  if (gradient_tangent.sinks != nullptr) sink_tangent(call);
}

void run_second(const AttentionProblem& problem, const AttentionOperands& x, const AttentionOperands& tangent,
                const AttentionResults& result, const AttentionResults& cotangent, const AttentionResults& cotangent_tangent,
                const AttentionOperands& gradient_tangent, const AttentionResults& result_tangent) {
  const auto run = [&]<class A>(A) {
    run_second_as<A>(problem, x, tangent, result, cotangent, cotangent_tangent, gradient_tangent, result_tangent);
  };
#if HWY_TARGET == HWY_AVX3
  if (problem.dtype == DType::bfloat16 && simd::bf16_products() == Bf16Arithmetic::tiles) return run(OnTiles());
#endif
  if (problem.dtype == DType::float64) return run(Plain<double>());
  run(Plain<float>());
}

}  // namespace HWY_NAMESPACE
}  // namespace deckle::kernels::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace deckle::kernels::cpu {

HWY_EXPORT(run_second);

void attention_second(const Context&, const AttentionProblem& problem, const AttentionOperands& operands,
                      const AttentionOperands& tangent, const AttentionResults& result, const AttentionResults& cotangent,
                      const AttentionResults& cotangent_tangent, const AttentionOperands& gradient_tangent,
                      const AttentionResults& result_tangent) {
  require_served(problem);
  DECKLE_SIMD(run_second)(problem, operands, tangent, result, cotangent, cotangent_tangent, gradient_tangent, result_tangent);
}

}  // namespace deckle::kernels::cpu
#endif
