// The online softmax of scores with a first-order tangent: blocks, tiles and step of first- and second-order forward mode.

#if defined(DECKLE_ATTENTION_TANGENT_SOFTMAX_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef DECKLE_ATTENTION_TANGENT_SOFTMAX_INL_H_
#undef DECKLE_ATTENTION_TANGENT_SOFTMAX_INL_H_
#else
#define DECKLE_ATTENTION_TANGENT_SOFTMAX_INL_H_
#endif

#include <algorithm>
#include <cstdint>
#include <limits>

#include "deckle/base/parallel.h"
#include "deckle/kernels/cpu/attention/dropout-inl.h"
#include "deckle/kernels/cpu/attention/exp-inl.h"
#include "deckle/kernels/cpu/attention/features-inl.h"
#include "deckle/kernels/cpu/attention/geometry.h"
#include "deckle/kernels/cpu/attention/pack-inl.h"
#include "deckle/kernels/cpu/attention/scores-inl.h"
#include "deckle/kernels/cpu/simd/not_equal.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace deckle::kernels::cpu {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

/// Blocks of rows of a task.
inline constexpr int64_t kJvpBlocks = 4;

/// Running state of one block of rows.
template <typename T>
struct JvpBlock {
  T maximum[kBlock<T>];  // of z; on tiles the reference of tile_softmax, which is near it
  T sum[kBlock<T>];
  T mean[kBlock<T>];  // r: sum e tz / sum e of the keys so far
  LaneRange<T> range;
  bool started;
};

/// Without a key but `sink` (-inf: none); the mean is the caller's. `keys` grows by those that rows [first, first + count)
/// see.
template <typename T>
void start_block(const AttentionProblem& problem, const Sequence& sequence, int64_t first, int64_t count, T sink,
                 JvpBlock<T>& state, KeyRange& keys) {
  state.range = LaneRange<T>(problem, sequence, first, count);
  std::fill_n(state.maximum, kBlock<T>, sink);
  std::fill_n(state.sum, kBlock<T>, sink == -std::numeric_limits<T>::infinity() ? T(0) : T(1));
  state.started = false;
  if (state.range.outer.empty()) return;
  keys.begin = std::min(keys.begin, state.range.outer.begin);
  keys.end = std::max(keys.end, state.range.outer.end);
}

/// For each tile of `keys` load(first row, count), then step(block, place, first key in the tile) for the blocks that see some.
template <typename T, class Load, class Step>
void for_key_tiles(const RowTask& task, const Sequence& sequence, const KeyRange& keys, const Features<T>& features,
                   const JvpBlock<T>* state, const Load& load, const Step& step) {
  constexpr int64_t kW = kBlock<T>;
  for (int64_t first_key = keys.begin; first_key < keys.end; first_key += kTileKeys) {
    const int64_t tile_end = std::min(first_key + kTileKeys, keys.end);
    load(sequence.first_key + first_key, tile_end - first_key);
    for (int64_t block = 0; block * kW < task.count; ++block) {
      const LaneRange<T>& range = state[block].range;
      const int64_t begin = std::max(first_key, range.outer.begin), end = std::min(tile_end, range.outer.end);
      if (begin >= end) continue;
      const TilePlace at{task.first + block * kW, std::min(kW, task.count - block * kW), range.lanes, begin, end - begin};
      if (features.touches(at)) step(block, at, begin - first_key);
    }
  }
}

/// run(task) for all row tasks of a tangent pass over elements T, of up to `most_rows` rows.
template <typename T, class Run>
void for_jvp_tasks(const AttentionProblem& problem, const Run& run, int64_t most_rows = kJvpBlocks * kBlock<T>) {
  const auto tasks = row_tasks(problem, most_rows);
  const auto count = static_cast<int64_t>(tasks.size());
  parallel_for(count, task_grain(count), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) run(tasks[static_cast<size_t>(i)]);
  });
}

/// The online softmax of a block: scores become e = exp(z - maximum), tangents become e (tz - r) for the new r. Earlier
/// accumulators must be updated: T -= `shift` A, then both are multiplied by `rescale`.
template <typename T>
HWY_NOINLINE void jvp_step(T* HWY_RESTRICT scores, T* HWY_RESTRICT tangents, const TilePlace& at, JvpBlock<T>& state,
                           T* HWY_RESTRICT rescale, T* HWY_RESTRICT shift) {
  const hn::ScalableTag<T> d;
  const auto minus_infinity = hn::Set(d, -std::numeric_limits<T>::infinity());
  for (int64_t lane = 0; lane < at.lanes; lane += kLanes<T>) {
    const auto before = hn::LoadU(d, state.maximum + lane), r = hn::LoadU(d, state.mean + lane);
    auto top = before;
    for (int64_t j = 0; j < at.keys; ++j) top = hn::Max(top, hn::LoadU(d, scores + j * kBlock<T> + lane));
    const auto base = hn::IfThenZeroElse(hn::Eq(top, minus_infinity), top);
    const auto factor = exp_minus(d, before, base);
    auto sum = hn::Zero(d), moment = hn::Zero(d);
    for (int64_t j = 0; j < at.keys; ++j) {
      const auto e = exp_minus(d, hn::LoadU(d, scores + j * kBlock<T> + lane), base);
      hn::StoreU(e, d, scores + j * kBlock<T> + lane);
      sum = hn::Add(sum, e);
      const auto centred = hn::Sub(hn::LoadU(d, tangents + j * kBlock<T> + lane), r);
      moment = hn::Add(moment, hn::IfThenElseZero(not_equal(e, hn::Zero(d)), hn::Mul(e, centred)));
    }
    sum = hn::MulAdd(factor, hn::LoadU(d, state.sum + lane), sum);
    // Earlier keys contribute nothing to the moment, by the definition of r.
    const auto moved = hn::IfThenElseZero(not_equal(sum, hn::Zero(d)), hn::Div(moment, sum));
    const auto now = hn::Add(r, moved);
    for (int64_t j = 0; j < at.keys; ++j) {
      const auto e = hn::LoadU(d, scores + j * kBlock<T> + lane);
      T* to = tangents + j * kBlock<T> + lane;
      hn::StoreU(hn::IfThenElseZero(not_equal(e, hn::Zero(d)), hn::Mul(e, hn::Sub(hn::LoadU(d, to), now))), d, to);
    }
    hn::StoreU(top, d, state.maximum + lane);
    hn::StoreU(sum, d, state.sum + lane);
    hn::StoreU(now, d, state.mean + lane);
    hn::StoreU(factor, d, rescale + lane);
    hn::StoreU(moved, d, shift + lane);
  }
}

/// T = rescale (T - shift A), A = rescale A; both [columns, kBlock].
template <typename T>
HWY_NOINLINE void recentre(T* HWY_RESTRICT a, T* HWY_RESTRICT t, int64_t columns, int64_t lanes, const T* rescale,
                           const T* shift) {
  const hn::ScalableTag<T> d;
  for (int64_t lane = 0; lane < lanes; lane += kLanes<T>) {
    const auto factor = hn::LoadU(d, rescale + lane), moved = hn::LoadU(d, shift + lane);
    for (int64_t c = 0; c < columns; ++c) {
      const auto old = hn::LoadU(d, a + c * kBlock<T> + lane);
      hn::StoreU(hn::Mul(factor, hn::NegMulAdd(moved, old, hn::LoadU(d, t + c * kBlock<T> + lane))), d, t + c * kBlock<T> + lane);
      hn::StoreU(hn::Mul(factor, old), d, a + c * kBlock<T> + lane);
    }
  }
}

/// Ends the blocks of a task and stores what is wanted. `sum_a` and `sum_t` hold A and T, a block every `size`; `rows` [kBlock,
/// stride] is scratch.
template <typename T>
void finish_jvp(const AttentionProblem& problem, const AttentionResults& result, const AttentionResults& result_tangent,
                DType out_dtype, const RowTask& task, JvpBlock<T>* state, T* sum_a, T* sum_t, int64_t size, T* rows,
                int64_t stride) {
  constexpr int64_t kW = kBlock<T>;
  const int64_t Dv = problem.value_dim, first_row = problem.q_offsets[task.sequence] + task.first;
  const T factor = static_cast<T>(Dropout::factor(problem.dropout));
  for (int64_t block = 0; block * kW < task.count; ++block) {
    JvpBlock<T>& s = state[block];
    const int64_t row = first_row + block * kW, count = std::min(kW, task.count - block * kW);
    T lse[kW];
    if (result.out.data != nullptr || result.lse != nullptr) {
      std::copy_n(s.maximum, kW, lse);
      finish_block(s.started ? sum_a + block * size : nullptr, Dv, lse, s.sum, factor, rows, stride);
      if (result.out.data != nullptr) store_rows(out_dtype, result.out, row, count, task.head, Dv, rows, stride);
    }
    finish_block(s.started ? sum_t + block * size : nullptr, Dv, s.maximum, s.sum, factor, rows, stride);
    if (result_tangent.out.data != nullptr) store_rows(out_dtype, result_tangent.out, row, count, task.head, Dv, rows, stride);
    for (int64_t lane = 0; lane < count; ++lane) {
      const int64_t to = (row + lane) * problem.heads + task.head;
      if (result.lse != nullptr) static_cast<T*>(result.lse)[to] = lse[lane];
      if (result_tangent.lse != nullptr) static_cast<T*>(result_tangent.lse)[to] = s.sum[lane] == T(0) ? T(0) : s.mean[lane];
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace deckle::kernels::cpu
HWY_AFTER_NAMESPACE();

#endif
