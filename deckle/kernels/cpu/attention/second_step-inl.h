// What the second order does to a tile of scores, and the arguments of its tasks.

#if defined(DECKLE_ATTENTION_SECOND_STEP_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef DECKLE_ATTENTION_SECOND_STEP_INL_H_
#undef DECKLE_ATTENTION_SECOND_STEP_INL_H_
#else
#define DECKLE_ATTENTION_SECOND_STEP_INL_H_
#endif

#include <cstdint>

#include "deckle/kernels/args/attention.h"
#include "deckle/kernels/cpu/attention/exp-inl.h"
#include "deckle/kernels/cpu/attention/feature_gradients-inl.h"
#include "deckle/kernels/cpu/attention/matmul-inl.h"
#include "deckle/kernels/cpu/attention/row_statistics-inl.h"
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
};

/// Statistics of the rows of a tile.
template <typename T>
struct SecondRows {
  T *lse, *delta, *lse_tangent, *delta_tangent;
};

template <typename T>
HWY_NOINLINE void second_step(const SecondTiles<T>& tiles, int64_t stride, int64_t keys, int64_t lanes, const SecondRows<T>& rows,
                              int64_t first_lane) {
  const hn::ScalableTag<T> d;
  for (int64_t lane = 0; lane < lanes; lane += kLanes<T>) {
    const auto lse = hn::LoadU(d, rows.lse + first_lane + lane), delta = hn::LoadU(d, rows.delta + first_lane + lane);
    const auto lse_tangent = hn::LoadU(d, rows.lse_tangent + first_lane + lane);
    const auto delta_tangent = hn::LoadU(d, rows.delta_tangent + first_lane + lane);
    for (int64_t j = 0; j < keys; ++j) {
      const int64_t at = j * stride + lane;
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
HWY_NOINLINE void uncap_second(const SecondTiles<T>& tiles, const T* tanh_tile, const T* y_tangents, T cap, int64_t stride,
                               int64_t keys, int64_t lanes) {
  const hn::ScalableTag<T> d;
  const auto factor = hn::Set(d, T(-2) / cap);
  for (int64_t j = 0; j < keys; ++j) {
    for (int64_t lane = 0; lane < lanes; lane += kLanes<T>) {
      const int64_t at = j * stride + lane;
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

}  // namespace HWY_NAMESPACE
}  // namespace deckle::kernels::cpu
HWY_AFTER_NAMESPACE();

#endif
