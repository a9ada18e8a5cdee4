// The elementwise steps on a tile of scores in the backward.

#if defined(DECKLE_ATTENTION_GRADIENT_STEP_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef DECKLE_ATTENTION_GRADIENT_STEP_INL_H_
#undef DECKLE_ATTENTION_GRADIENT_STEP_INL_H_
#else
#define DECKLE_ATTENTION_GRADIENT_STEP_INL_H_
#endif

#include <cstdint>

#include "deckle/kernels/cpu/attention/exp-inl.h"
#include "deckle/kernels/cpu/attention/matmul-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace deckle::kernels::cpu {
namespace HWY_NAMESPACE {

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

/// tile[count] *= factor.
inline void scale_scores(float* HWY_RESTRICT tile, int64_t count, float factor) {
  const hn::ScalableTag<float> d;
  for (int64_t i = 0; i < count; i += kLanes<float>) hn::StoreU(hn::Mul(hn::LoadU(d, tile + i), hn::Set(d, factor)), d, tile + i);
}

}  // namespace HWY_NAMESPACE
}  // namespace deckle::kernels::cpu
HWY_AFTER_NAMESPACE();

#endif
