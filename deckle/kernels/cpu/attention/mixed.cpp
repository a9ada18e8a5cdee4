// out and lse along two tangents at once, forward over forward: d2 f(x + s a + t b + s t ab) / ds dt.
//
//   zab = phi' yab + phi'' ya yb + ...       c = (za - lse_a)(zb - lse_b) + zab       lse_ab = sum P c
//   out_ab = sum R P [(c - lse_ab) v + (za - lse_a) vb + (zb - lse_b) va + vab]
//
// Two passes of the JVP without its values give lse_a and lse_b; then one pass shaped as the JVP's, with c in place of tz,
// centred on the running lse_ab of the keys so far. FLOPs: 2 (6 D) + 2 (9 D + 5 Dv) per score; absent tangents drop their
// products.

#include "deckle/kernels/cpu/simd/targets.h"

#include <algorithm>
#include <initializer_list>
#include <limits>
#include <utility>

#include "deckle/base/scratch.h"
#include "deckle/kernels/cpu/attention/attention.h"
#include "deckle/kernels/cpu/attention/geometry.h"
#include "deckle/kernels/cpu/attention/jvp.h"
#include "deckle/kernels/cpu/attention/require.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "deckle/kernels/cpu/attention/mixed.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

#include "deckle/kernels/cpu/attention/dropout-inl.h"
#include "deckle/kernels/cpu/attention/features-inl.h"
#include "deckle/kernels/cpu/attention/matmul-inl.h"
#include "deckle/kernels/cpu/attention/pack-inl.h"
#include "deckle/kernels/cpu/attention/scores-inl.h"
#include "deckle/kernels/cpu/attention/tangent_softmax-inl.h"
#include "deckle/kernels/cpu/simd/not_equal.h"

HWY_BEFORE_NAMESPACE();
namespace deckle::kernels::cpu {
namespace HWY_NAMESPACE {

/// The operands of a task for x, a, b or ab; null if absent.
template <typename T>
struct MixedPart {
  T* q = nullptr;  // [block][D][kBlock], scaled
  T* k = nullptr;  // [kTileKeys, tile_stride(D)]
  T* v = nullptr;

  MixedPart(const AttentionOperands& from, Scratch& scratch, int64_t q_size, int64_t k_stride, int64_t v_stride) {
    T* memory[3] = {scratch.take<T>(kJvpBlocks * q_size), scratch.take<T>(kTileKeys * k_stride),
                    scratch.take<T>(kTileKeys * v_stride)};
    if (from.q.data != nullptr) q = memory[0];
    if (from.k.data != nullptr) k = memory[1];
    if (from.v.data != nullptr) v = memory[2];
  }
};

/// za and zb become za - lse_a and zb - lse_b, zab becomes c. `tanh_tile` is null without a cap.
template <typename T>
HWY_NOINLINE void join_tangents(T* HWY_RESTRICT za, T* HWY_RESTRICT zb, T* HWY_RESTRICT zab, const T* ya, const T* yb,
                                const T* tanh_tile, T cap, const T* lse_a, const T* lse_b, const TilePlace& at) {
  const hn::ScalableTag<T> d;
  const auto bend = hn::Set(d, tanh_tile == nullptr ? T(0) : T(-2) / cap);
  for (int64_t lane = 0; lane < at.lanes; lane += kLanes<T>) {
    const auto a_mean = hn::LoadU(d, lse_a + lane), b_mean = hn::LoadU(d, lse_b + lane);
    for (int64_t j = 0; j < at.keys; ++j) {
      const int64_t to = j * kBlock<T> + lane;
      auto c = hn::LoadU(d, zab + to);
      if (tanh_tile != nullptr) {  // phi'' = -(2 / cap) w (1 - w^2)
        const auto w = hn::LoadU(d, tanh_tile + to);
        const auto second = hn::Mul(hn::Mul(bend, w), hn::NegMulAdd(w, w, hn::Set(d, T(1))));
        c = hn::MulAdd(second, hn::Mul(hn::LoadU(d, ya + to), hn::LoadU(d, yb + to)), c);
      }
      const auto a = hn::Sub(hn::LoadU(d, za + to), a_mean), b = hn::Sub(hn::LoadU(d, zb + to), b_mean);
      hn::StoreU(a, d, za + to);
      hn::StoreU(b, d, zb + to);
      hn::StoreU(hn::MulAdd(a, b, c), d, zab + to);
    }
  }
}

/// tile *= e, and 0 where e is 0.
template <typename T>
HWY_NOINLINE void weigh(T* HWY_RESTRICT tile, const T* HWY_RESTRICT e, const TilePlace& at) {
  const hn::ScalableTag<T> d;
  for (int64_t j = 0; j < at.keys; ++j) {
    for (int64_t lane = 0; lane < at.lanes; lane += kLanes<T>) {
      const auto weight = hn::LoadU(d, e + j * kBlock<T> + lane);
      T* to = tile + j * kBlock<T> + lane;
      hn::StoreU(hn::IfThenElseZero(not_equal(weight, hn::Zero(d)), hn::Mul(weight, hn::LoadU(d, to))), d, to);
    }
  }
}

/// The arguments of a call, fixed for all its tasks.
template <typename T>
struct MixedCall {
  const AttentionProblem& problem;
  const AttentionOperands &x, &a, &b, &ab;
  const AttentionResults& mixed;
  const T *lse_a, *lse_b;  // [rows of the batch, heads]
};

template <typename T>
void mixed_task(const MixedCall<T>& c, const RowTask& task) {
  constexpr int64_t kW = kBlock<T>;
  constexpr T kInfinity = std::numeric_limits<T>::infinity();
  const AttentionProblem& problem = c.problem;
  const int64_t D = problem.head_dim, Dv = problem.value_dim, heads = problem.heads;
  const Sequence sequence(problem, task.sequence);
  const int64_t kv_head = task.head / problem.group(), blocks = (task.count + kW - 1) / kW;
  const int64_t k_stride = tile_stride<T>(D), v_stride = tile_stride<T>(Dv), q_size = (D + 3) * kW, o_size = (Dv + 3) * kW;
  const AttentionOperands* const operands[4] = {&c.x, &c.a, &c.b, &c.ab};

  Scratch scratch;
  auto* state = scratch.take<JvpBlock<T>>(kJvpBlocks);
  T* rows = scratch.take<T>(kW * std::max(k_stride, v_stride));
  const MixedPart<T> parts[4] = {{c.x, scratch, q_size, k_stride, v_stride},
                                 {c.a, scratch, q_size, k_stride, v_stride},
                                 {c.b, scratch, q_size, k_stride, v_stride},
                                 {c.ab, scratch, q_size, k_stride, v_stride}};
  const MixedPart<T>&x = parts[0], &a = parts[1], &b = parts[2], &ab = parts[3];
  T* lse_a = scratch.take<T>(kJvpBlocks * kW);
  T* lse_b = scratch.take<T>(kJvpBlocks * kW);
  T* sum_out = scratch.take<T>(kJvpBlocks * o_size);  // [block][Dv][kW]
  T* sum_mixed = scratch.take<T>(kJvpBlocks * o_size);
  constexpr int64_t kTile = kTileKeys * kW;
  T *scores = scratch.take<T>(kTile), *za = scratch.take<T>(kTile), *zb = scratch.take<T>(kTile), *zab = scratch.take<T>(kTile);
  T *ya = scratch.take<T>(kTile), *yb = scratch.take<T>(kTile), *tanh_tile = scratch.take<T>(kTile);
  T* rescale = scratch.take<T>(kW);
  T* shift = scratch.take<T>(kW);
  auto* keep = scratch.take<uint8_t>(kTile);
  const FeatureScratch<T> feature_scratch(scratch);
  const Features<T> features(problem, c.x, sequence, task.head), a_features(problem, c.a, sequence, task.head),
      b_features(problem, c.b, sequence, task.head), ab_features(problem, c.ab, sequence, task.head);
  const Dropout dropout(problem.dropout, task.sequence, task.head);
  const auto sink_of = [&](const AttentionOperands& from, T none) {
    return from.sinks ? static_cast<const T*>(from.sinks)[task.head] : none;
  };
  const T sink = sink_of(c.x, -kInfinity);
  const bool has_sink = sink != -kInfinity;

  KeyRange all{sequence.keys, 0};
  for (int64_t block = 0; block < blocks; ++block) {
    JvpBlock<T>& s = state[block];
    const int64_t first = task.first + block * kW, count = std::min(kW, task.first + task.count - first);
    for (int n = 0; n < 4; ++n) {
      if (parts[n].q == nullptr) continue;
      load_rows(problem.dtype, operands[n]->q, sequence.first_row + first, count, kW, task.head, D, static_cast<T>(problem.scale),
                rows, k_stride);
      transpose(rows, k_stride, kW, D, parts[n].q + block * q_size, kW);
    }
    start_block(problem, sequence, first, count, sink, s, all);
    std::fill_n(s.mean, kW, T(0));
    for (int64_t lane = 0; lane < kW; ++lane) {
      const int64_t at = (sequence.first_row + first + std::min(lane, count - 1)) * heads + task.head;
      const T a_mean = lse_a[block * kW + lane] = c.lse_a[at], b_mean = lse_b[block * kW + lane] = c.lse_b[at];
      if (has_sink) s.mean[lane] = (sink_of(c.a, 0) - a_mean) * (sink_of(c.b, 0) - b_mean) + sink_of(c.ab, 0);
    }
  }

  const auto load = [&](int64_t row, int64_t count) {
    for (int n = 0; n < 4; ++n) {
      if (parts[n].k) load_rows(problem.dtype, operands[n]->k, row, count, 0, kv_head, D, T(1), parts[n].k, k_stride);
      if (parts[n].v) load_rows(problem.dtype, operands[n]->v, row, count, 0, kv_head, Dv, T(1), parts[n].v, v_stride);
    }
  };
  const auto step = [&](int64_t block, const TilePlace& at, int64_t first) {
    JvpBlock<T>& s = state[block];
    const int64_t keys = at.keys;
    // to = the sum of k q^T over pairs that exist.
    const auto logits = [&](T* to, std::initializer_list<std::pair<const T*, const T*>> products) {
      bool started = false;
      for (const auto& [k, q] : products) {
        if (k == nullptr || q == nullptr) continue;
        matmul<AOrder::rows>(keys, at.lanes, D, k + first * k_stride, k_stride, q + block * q_size, kW, to, kW, {started});
        started = true;
      }
      if (!started) std::fill_n(to, keys * kW, T(0));
    };
    logits(scores, {{x.k, x.q}});
    logits(za, {{x.k, a.q}, {a.k, x.q}});
    logits(zb, {{x.k, b.q}, {b.k, x.q}});
    logits(zab, {{x.k, ab.q}, {a.k, b.q}, {b.k, a.q}, {ab.k, x.q}});
    if (features.any()) features.apply(scores, kW, at, feature_scratch, tanh_tile);
    a_features.tangent(features, za, kW, at, feature_scratch, tanh_tile, ya);
    b_features.tangent(features, zb, kW, at, feature_scratch, tanh_tile, yb);
    ab_features.tangent(features, zab, kW, at, feature_scratch, tanh_tile, nullptr);
    join_tangents(za, zb, zab, ya, yb, features.capped() ? tanh_tile : nullptr, features.cap(), lse_a + block * kW,
                  lse_b + block * kW, at);
    if (s.range.cuts(at.key, at.key + keys)) mask_scores(scores, kW, at.key, keys, s.range);
    jvp_step(scores, zab, at, s, rescale, shift);
    weigh(za, scores, at);
    weigh(zb, scores, at);
    if (dropout.on()) {
      dropout.tile(at.row, at.lanes, at.key, keys, keep, kW);
      for (T* tile : {scores, zab, za, zb}) drop(tile, kW, keys, at.lanes, keep, T(1));
    }
    T* out = sum_out + block * o_size;
    T* mixed = sum_mixed + block * o_size;
    if (s.started) recentre(out, mixed, Dv, at.lanes, rescale, shift);
    const auto values = [&](T* to, const T* v, const T* weights, bool add) {
      if (v != nullptr) matmul<AOrder::columns>(Dv, at.lanes, keys, v + first * v_stride, v_stride, weights, kW, to, kW, {add});
    };
    values(out, x.v, scores, s.started);
    values(mixed, x.v, zab, s.started);
    values(mixed, ab.v, scores, true);
    values(mixed, b.v, za, true);
    values(mixed, a.v, zb, true);
    s.started = true;
  };
  for_key_tiles(task, sequence, all, features, state, load, step);

  finish_jvp(problem, {}, c.mixed, problem.dtype, task, state, sum_out, sum_mixed, o_size, rows, v_stride);
}

template <typename T>
void run_mixed_as(const AttentionProblem& problem, const AttentionOperands& x, const AttentionOperands& a,
                  const AttentionOperands& b, const AttentionOperands& ab, const AttentionResults& mixed) {
  const int64_t rows = batch_rows(problem);
  Scratch scratch;
  T *lse_a = scratch.take<T>(rows * problem.heads), *lse_b = scratch.take<T>(rows * problem.heads);
  attention_jvp_as(problem, x, a, {}, {{}, lse_a}, dtype_of<T>);
  attention_jvp_as(problem, x, b, {}, {{}, lse_b}, dtype_of<T>);
  const MixedCall<T> call{problem, x, a, b, ab, mixed, lse_a, lse_b};
  for_jvp_tasks<T>(problem, [&](const RowTask& task) { mixed_task(call, task); });
}

void run_mixed(const AttentionProblem& problem, const AttentionOperands& x, const AttentionOperands& a,
               const AttentionOperands& b, const AttentionOperands& ab, const AttentionResults& mixed) {
  if (problem.dtype == DType::float64) {
    run_mixed_as<double>(problem, x, a, b, ab, mixed);
  } else {
    run_mixed_as<float>(problem, x, a, b, ab, mixed);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace deckle::kernels::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace deckle::kernels::cpu {

HWY_EXPORT(run_mixed);

void attention_mixed(const Context&, const AttentionProblem& problem, const AttentionOperands& operands,
                     const AttentionOperands& a, const AttentionOperands& b, const AttentionOperands& ab,
                     const AttentionResults& mixed) {
  require_served(problem);
  DECKLE_SIMD(run_mixed)(problem, operands, a, b, ab, mixed);
}

}  // namespace deckle::kernels::cpu
#endif
