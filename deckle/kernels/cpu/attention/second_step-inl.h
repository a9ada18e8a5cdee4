// What the second order does to a block of scores, and the arguments of its tasks.

#if defined(DECKLE_ATTENTION_SECOND_STEP_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef DECKLE_ATTENTION_SECOND_STEP_INL_H_
#undef DECKLE_ATTENTION_SECOND_STEP_INL_H_
#else
#define DECKLE_ATTENTION_SECOND_STEP_INL_H_
#endif

#include <cstdint>

#include "deckle/kernels/args/attention.h"
#include "deckle/kernels/cpu/attention/chunks.h"
#include "deckle/kernels/cpu/attention/dropout-inl.h"
#include "deckle/kernels/cpu/attention/exp-inl.h"
#include "deckle/kernels/cpu/attention/feature_gradients-inl.h"
#include "deckle/kernels/cpu/attention/features-inl.h"
#include "deckle/kernels/cpu/attention/geometry.h"
#include "deckle/kernels/cpu/attention/matmul-inl.h"
#include "deckle/kernels/cpu/attention/row_statistics-inl.h"
#include "deckle/kernels/cpu/attention/scores-inl.h"
#include "deckle/kernels/cpu/simd/not_equal.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace deckle::kernels::cpu {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

/// The tiles of one block of scores, [keys, stride] each, before and after second_step.
template <typename T>
struct SecondTiles {
  T* scores;            // z, then P
  T* tangents;          // tz, then P (tz - tlse)
  T* products;          // R dP, then dZ
  T* product_tangents;  // R tdP, then tdZ
  int64_t stride;
};

/// Statistics of the rows of a tile.
template <typename T>
struct SecondRows {
  T *lse, *delta, *lse_tangent, *delta_tangent;
};

template <typename T>
HWY_NOINLINE void second_step(const SecondTiles<T>& tiles, int64_t keys, int64_t lanes, const SecondRows<T>& rows,
                              int64_t first_lane) {
  const hn::ScalableTag<T> d;
  for (int64_t lane = 0; lane < lanes; lane += kLanes<T>) {
    const auto lse = hn::LoadU(d, rows.lse + first_lane + lane), delta = hn::LoadU(d, rows.delta + first_lane + lane);
    const auto lse_tangent = hn::LoadU(d, rows.lse_tangent + first_lane + lane);
    const auto delta_tangent = hn::LoadU(d, rows.delta_tangent + first_lane + lane);
    for (int64_t j = 0; j < keys; ++j) {
      const int64_t at = j * tiles.stride + lane;
      const auto p = exp_minus(d, hn::LoadU(d, tiles.scores + at), lse);
      const auto seen = not_equal(p, hn::Zero(d));
      const auto centred = hn::IfThenElseZero(seen, hn::Sub(hn::LoadU(d, tiles.tangents + at), lse_tangent));
      const auto slack = hn::Sub(hn::LoadU(d, tiles.products + at), delta);
      const auto bracket = hn::MulAdd(centred, slack, hn::Sub(hn::LoadU(d, tiles.product_tangents + at), delta_tangent));
      hn::StoreU(p, d, tiles.scores + at);
      hn::StoreU(hn::Mul(p, centred), d, tiles.tangents + at);
      hn::StoreU(hn::Mul(p, slack), d, tiles.products + at);
      hn::StoreU(hn::Mul(p, bracket), d, tiles.product_tangents + at);
    }
  }
}

/// tdZ becomes tdY = phi' tdZ + phi'' ty dZ, and dZ becomes dY = phi' dZ; phi' = 1 - w^2, phi'' = -(2 / cap) w phi'.
template <typename T>
HWY_NOINLINE void uncap_second(const SecondTiles<T>& tiles, const T* tanh_tile, const T* y_tangents, T cap, int64_t keys,
                               int64_t lanes) {
  const hn::ScalableTag<T> d;
  const auto factor = hn::Set(d, T(-2) / cap);
  for (int64_t j = 0; j < keys; ++j) {
    for (int64_t lane = 0; lane < lanes; lane += kLanes<T>) {
      const int64_t at = j * tiles.stride + lane;
      const auto w = hn::LoadU(d, tanh_tile + at), first = hn::NegMulAdd(w, w, hn::Set(d, T(1)));
      const auto dy = hn::Mul(first, hn::LoadU(d, tiles.products + at));
      const auto bend =
          hn::Mul(hn::Mul(factor, w), hn::IfThenElseZero(not_equal(dy, hn::Zero(d)), hn::LoadU(d, y_tangents + at)));
      hn::StoreU(dy, d, tiles.products + at);
      hn::StoreU(hn::MulAdd(first, hn::LoadU(d, tiles.product_tangents + at), hn::Mul(bend, dy)), d, tiles.product_tangents + at);
    }
  }
}

/// The arguments of a call, fixed for all its tasks.
template <typename T>
struct SecondCall {
  const AttentionProblem& problem;
  const AttentionOperands &x, &t;
  const AttentionResults &cotangent, &cotangent_tangent;
  const RowStatistics<T>& statistics;
  const TangentStatistics<T>& tangent_statistics;
  const AttentionOperands& gradient_tangent;
  const QueryGradient<T>& tdq;
  FeatureGradients<T>& feature_tangents;
};

/// What a task has for one head.
template <typename T>
struct SecondHead {
  const KeyTask& task;
  const Sequence& sequence;
  int64_t head;
  Features<T> features, moves;  // those of the inputs, and of their tangents
  Dropout dropout;

  SecondHead(const SecondCall<T>& c, const KeyTask& of, const Sequence& rows, int64_t h)
      : task(of),
        sequence(rows),
        head(h),
        features(c.problem, c.x, rows, h),
        moves(c.problem, c.t, rows, h),
        dropout(c.problem.dropout, of.sequence, h) {}
};

/// Scratch of a block beside its tiles, which have their strides but for `keep`.
template <typename T>
struct SecondScratch {
  T *tanh_tile, *y_tangents;
  uint8_t* keep;  // [kTileKeys, kBlock]
  const FeatureScratch<T>& features;
};

/// second_step with features, dropout and mask, for `keys` from at.key on, of which at.keys are there, and `lanes` rows, whose
/// statistics begin at first_lane: from scaled scores, their tangents and dP, tdP to R P, R P (tz - tlse), dY and tdY.
template <typename T>
void second_block(const SecondCall<T>& c, const SecondHead<T>& by, const TilePlace& at, const LaneRange<T>& range,
                  const SecondTiles<T>& tiles, int64_t keys, int64_t lanes, const SecondRows<T>& rows, int64_t first_lane,
                  const SecondScratch<T>& scratch) {
  const auto drop_both = [&](T* one, T* other) {
    const T factor = static_cast<T>(Dropout::factor(c.problem.dropout));
    drop(one, tiles.stride, keys, lanes, scratch.keep, factor);
    drop(other, tiles.stride, keys, lanes, scratch.keep, factor);
  };
  if (by.features.any()) by.features.apply(tiles.scores, tiles.stride, at, scratch.features, scratch.tanh_tile);
  by.moves.tangent(by.features, tiles.tangents, tiles.stride, at, scratch.features, scratch.tanh_tile, scratch.y_tangents);
  if (range.cuts(at.key, at.key + keys)) mask_scores(tiles.scores, tiles.stride, at.key, keys, range);
  if (by.dropout.on()) {
    by.dropout.tile(at.row, lanes, at.key, keys, scratch.keep, kBlock<T>);
    drop_both(tiles.products, tiles.product_tangents);
  }
  second_step(tiles, keys, lanes, rows, first_lane);
  if (by.dropout.on()) drop_both(tiles.scores, tiles.tangents);
  FeatureGradients<T>& moved = c.feature_tangents;
  if (moved.any()) moved.add(by.task, by.sequence, by.head, at, tiles.product_tangents, tiles.stride, scratch.features);
  if (by.features.capped()) uncap_second(tiles, scratch.tanh_tile, scratch.y_tangents, by.features.cap(), at.keys, at.lanes);
  if (moved.any())
    moved.add_before_cap(by.task, by.sequence, by.head, at, tiles.product_tangents, tiles.stride, scratch.features);
}

}  // namespace HWY_NAMESPACE
}  // namespace deckle::kernels::cpu
HWY_AFTER_NAMESPACE();

#endif
