// out, lse and their tangents in one pass.      tlse = sum P tz      tout = sum R P [(tz - tlse) v + tv]
//
// The forward's pass with twice the operands: tz = scale (tq k^T + q tk^T) + features, and a second accumulator T beside A = sum
// e v. T is kept centred on the running tlse of the keys so far (r), so nothing large cancels at the end; when r moves by d, T -=
// d A.
// FLOPs: 2 (3 D + 3 Dv) per score; an absent tangent drops its products. 79 GF/s where the forward has 75 to 84 (machine:
// forward.cpp; 2026-11-21, f097e820).
//
// bfloat16 runs on AMX tiles (jvp_tiles-inl.h), takes pairs for its logits, or is widened: what base/cpu_cap.h chooses.
//
// GF/s of one core for bfloat16, S = 512, D = 64, six products counted: all products in float32 89; logits by pairs, without
// extra rounding, 108 (2026-11-22, a7aca047; machine: forward.cpp).

#include "deckle/kernels/cpu/simd/targets.h"

#include <algorithm>
#include <limits>

#include "deckle/base/scratch.h"
#include "deckle/kernels/cpu/attention/attention.h"
#include "deckle/kernels/cpu/attention/geometry.h"
#include "deckle/kernels/cpu/attention/jvp.h"
#include "deckle/kernels/cpu/attention/require.h"
#include "deckle/kernels/cpu/simd/amx.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "deckle/kernels/cpu/attention/jvp.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

#include "deckle/kernels/cpu/attention/arithmetic-inl.h"
#include "deckle/kernels/cpu/attention/dropout-inl.h"
#include "deckle/kernels/cpu/attention/features-inl.h"
#include "deckle/kernels/cpu/attention/jvp_tiles-inl.h"
#include "deckle/kernels/cpu/attention/matmul-inl.h"
#include "deckle/kernels/cpu/attention/pack-inl.h"
#include "deckle/kernels/cpu/attention/scores-inl.h"
#include "deckle/kernels/cpu/attention/tangent_softmax-inl.h"

HWY_BEFORE_NAMESPACE();
namespace deckle::kernels::cpu {
namespace HWY_NAMESPACE {

/// A: the arithmetic of the logits, whose factors are inputs; products with probabilities use its element type.
template <class A, typename T = typename A::Element>
void jvp_task(const AttentionProblem& problem, const AttentionOperands& x, const AttentionOperands& t,
              const AttentionResults& result, const AttentionResults& result_tangent, DType out_dtype, const RowTask& task) {
  constexpr int64_t kW = kBlock<T>;
  const int64_t D = problem.head_dim, Dv = problem.value_dim;
  const Sequence sequence(problem, task.sequence);
  const int64_t kv_head = task.head / problem.group(), blocks = (task.count + kW - 1) / kW;
  const int64_t v_stride = tile_stride<T>(Dv), q_size = (units_of<A>(D) + 3) * kW, o_size = (Dv + 3) * kW;
  const bool has_tq = t.q.data != nullptr, has_tk = t.k.data != nullptr, has_tv = t.v.data != nullptr;
  const bool want_out = result.out.data != nullptr || result_tangent.out.data != nullptr;

  Scratch scratch;
  auto* state = scratch.take<JvpBlock<T>>(kJvpBlocks);
  T* rows = scratch.take<T>(kW * v_stride);
  Operand<A> q_rows(scratch, kW, D), k(scratch, kTileKeys, D), tk(scratch, kTileKeys, D);
  auto* q = scratch.take<typename A::Unit>(kJvpBlocks * q_size);  // [block][units of D][kW]
  auto* tq = scratch.take<typename A::Unit>(kJvpBlocks * q_size);
  T* sum_a = scratch.take<T>(kJvpBlocks * o_size);  // [block][Dv][kW]
  T* sum_t = scratch.take<T>(kJvpBlocks * o_size);
  T* v = scratch.take<T>(kTileKeys * v_stride);
  T* tv = scratch.take<T>(kTileKeys * v_stride);
  T* scores = scratch.take<T>(kTileKeys * kW);
  T* tangents = scratch.take<T>(kTileKeys * kW);
  T* tanh_tile = scratch.take<T>(kTileKeys * kW);
  T* rescale = scratch.take<T>(kW);
  T* shift = scratch.take<T>(kW);
  auto* keep = scratch.take<uint8_t>(kTileKeys * kW);
  const FeatureScratch<T> feature_scratch(scratch);
  const Features<T> features(problem, x, sequence, task.head), feature_tangents(problem, t, sequence, task.head);
  const Dropout dropout(problem.dropout, task.sequence, task.head);
  const T sink = x.sinks ? static_cast<const T*>(x.sinks)[task.head] : -std::numeric_limits<T>::infinity();
  const bool has_sink = sink != -std::numeric_limits<T>::infinity();

  KeyRange all{sequence.keys, 0};
  for (int64_t block = 0; block < blocks; ++block) {
    JvpBlock<T>& s = state[block];
    const int64_t first = task.first + block * kW, count = std::min(kW, task.first + task.count - first);
    q_rows.load(problem.dtype, x.q, sequence.first_row + first, count, kW, task.head, A::query_factor(problem.scale));
    block_to_lanes<A>(q_rows.rows, q_rows.row_stride, D, q + block * q_size);
    if (has_tq) {
      q_rows.load(problem.dtype, t.q, sequence.first_row + first, count, kW, task.head, A::query_factor(problem.scale));
      block_to_lanes<A>(q_rows.rows, q_rows.row_stride, D, tq + block * q_size);
    }
    start_block(problem, sequence, first, count, sink, s, all);
    std::fill_n(s.mean, kW, has_sink && t.sinks ? static_cast<const T*>(t.sinks)[task.head] : T(0));
  }

  const auto load = [&](int64_t row, int64_t count) {
    k.load(problem.dtype, x.k, row, count, 0, kv_head, T(1));
    load_rows(problem.dtype, x.v, row, count, 0, kv_head, Dv, T(1), v, v_stride);
    if (has_tk) tk.load(problem.dtype, t.k, row, count, 0, kv_head, T(1));
    if (has_tv) load_rows(problem.dtype, t.v, row, count, 0, kv_head, Dv, T(1), tv, v_stride);
  };
  const auto step = [&](int64_t block, const TilePlace& at, int64_t first) {
    JvpBlock<T>& s = state[block];
    const int64_t keys = at.keys, k_at = first * k.row_stride, v_at = first * v_stride;
    T* a = sum_a + block * o_size;
    T* b = sum_t + block * o_size;
    const auto logits = [&](const Operand<A>& keys_of, const typename A::Unit* queries, T* to, bool add) {
      A::template product<AOrder::rows>(keys, at.lanes, D, keys_of.rows + k_at, k.row_stride, queries + block * q_size, kW, to,
                                        kW, {add}, A::score_factor(problem.scale));
    };
    logits(k, q, scores, false);
    if (has_tq) logits(k, tq, tangents, false);
    if (has_tk) logits(tk, q, tangents, has_tq);
    if (!has_tq && !has_tk) std::fill_n(tangents, keys * kW, T(0));
    if (features.any()) features.apply(scores, kW, at, feature_scratch, tanh_tile);
    feature_tangents.tangent(features, tangents, kW, at, feature_scratch, tanh_tile, nullptr);
    if (s.range.cuts(at.key, at.key + keys)) mask_scores(scores, kW, at.key, keys, s.range);
    jvp_step(scores, tangents, at, s, rescale, shift);
    if (!want_out) return;
    if (dropout.on()) {
      dropout.tile(at.row, at.lanes, at.key, keys, keep, kW);
      drop(scores, kW, keys, at.lanes, keep, T(1));
      drop(tangents, kW, keys, at.lanes, keep, T(1));
    }
    if (s.started) recentre(a, b, Dv, at.lanes, rescale, shift);
    matmul<AOrder::columns>(Dv, at.lanes, keys, v + v_at, v_stride, scores, kW, a, kW, {s.started});
    matmul<AOrder::columns>(Dv, at.lanes, keys, v + v_at, v_stride, tangents, kW, b, kW, {s.started});
    if (has_tv) matmul<AOrder::columns>(Dv, at.lanes, keys, tv + v_at, v_stride, scores, kW, b, kW, {true});
    s.started = true;
  };
  for_key_tiles(task, sequence, all, features, state, load, step);

  finish_jvp(problem, result, result_tangent, out_dtype, task, state, sum_a, sum_t, o_size, rows, v_stride);
}

template <class A>
void run_jvp_as(const AttentionProblem& problem, const AttentionOperands& x, const AttentionOperands& tangent,
                const AttentionResults& result, const AttentionResults& result_tangent, DType out_dtype) {
  for_jvp_tasks<typename A::Element>(
      problem, [&](const RowTask& task) { jvp_task<A>(problem, x, tangent, result, result_tangent, out_dtype, task); });
}

void run_jvp(const AttentionProblem& problem, const AttentionOperands& x, const AttentionOperands& tangent,
             const AttentionResults& result, const AttentionResults& result_tangent, DType out_dtype) {
#if HWY_TARGET == HWY_AVX3
  if (problem.dtype == DType::bfloat16) {
    const Bf16Arithmetic products = simd::bf16_products();
    if (products == Bf16Arithmetic::tiles) {
      const auto run = [&](const RowTask& task) {
        jvp_task_on_tiles(problem, x, tangent, result, result_tangent, out_dtype, task);
      };
      return for_jvp_tasks<float>(problem, run, kJvpTileBlocks * simd::kTileQueries);
    }
    if (products == Bf16Arithmetic::pair_dot) return run_jvp_as<PairDot>(problem, x, tangent, result, result_tangent, out_dtype);
  }
#endif
  if (problem.dtype == DType::float64) {
    run_jvp_as<Plain<double>>(problem, x, tangent, result, result_tangent, out_dtype);
  } else {
    run_jvp_as<Plain<float>>(problem, x, tangent, result, result_tangent, out_dtype);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace deckle::kernels::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace deckle::kernels::cpu {

HWY_EXPORT(run_jvp);

void attention_jvp_as(const AttentionProblem& problem, const AttentionOperands& operands, const AttentionOperands& tangent,
                      const AttentionResults& result, const AttentionResults& result_tangent, DType out_dtype) {
  DECKLE_SIMD(run_jvp)(problem, operands, tangent, result, result_tangent, out_dtype);
}

void attention_jvp(const Context&, const AttentionProblem& problem, const AttentionOperands& operands,
                   const AttentionOperands& tangent, const AttentionResults& result, const AttentionResults& result_tangent) {
  require_served(problem);
  attention_jvp_as(problem, operands, tangent, result, result_tangent, problem.dtype);
}

}  // namespace deckle::kernels::cpu
#endif
