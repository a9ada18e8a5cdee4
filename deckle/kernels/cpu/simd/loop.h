// The inner loop of a pointwise op: load a vector of every input, compute, store. Generated kernels are a functor F with
//   template <class D, class V> V operator()(D d, V input0, V input1, ...) const
// and blocks<F, N>(), its N-input block functions for float and double (blocks_with_integers: and int64).
//
// A number is broadcast to one vector beforehand and reloaded at every step, so one loop serves all mixtures of arrays and
// numbers. The tail goes through padded copies: no lane beyond n is read or written.
//
// Included once per instruction set, after <hwy/highway.h>.
#if defined(DECKLE_KERNELS_CPU_SIMD_LOOP_H) == defined(HWY_TARGET_TOGGLE)
#ifdef DECKLE_KERNELS_CPU_SIMD_LOOP_H
#undef DECKLE_KERNELS_CPU_SIMD_LOOP_H
#else
#define DECKLE_KERNELS_CPU_SIMD_LOOP_H
#endif

#include <hwy/highway.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>

#include "deckle/kernels/cpu/simd/blocks.h"
#include "deckle/kernels/cpu/simd/not_equal.h"

HWY_BEFORE_NAMESPACE();
namespace deckle::kernels::cpu::HWY_NAMESPACE {
namespace hn = ::hwy::HWY_NAMESPACE;

/// a * b with 0 * inf = 0, for an a that vanishes faster than b grows.
template <class V>
HWY_INLINE V damped(V a, V b) {
  const hn::DFromV<V> d;
  return hn::IfThenElse(hn::Eq(a, hn::Zero(d)), hn::Zero(d), hn::Mul(a, b));
}

/// a <= b and a >= b, which Highway has for floating lanes only.
template <class V>
HWY_INLINE hn::Mask<hn::DFromV<V>> less_equal(V a, V b) {
  if constexpr (hwy::IsFloat<hn::TFromV<V>>()) {
    return hn::Le(a, b);
  } else {
    return hn::Not(hn::Lt(b, a));
  }
}
template <class V>
HWY_INLINE hn::Mask<hn::DFromV<V>> greater_equal(V a, V b) {
  return less_equal(b, a);
}

template <class F, typename T, size_t... I>
void block_loop(int64_t n, const T* const* inputs, const uint8_t* is_scalar, T* output, std::index_sequence<I...>) {
  constexpr size_t kInputs = sizeof...(I);
  const hn::ScalableTag<T> d;
  constexpr size_t kMaxLanes = hn::MaxLanes(d);
  const size_t lanes = hn::Lanes(d), count = static_cast<size_t>(n);
  HWY_ALIGN T spread[kInputs][kMaxLanes];
  const T* from[kInputs];
  size_t moves[kInputs];  // all ones: the pointer moves with the loop; 0: it stays
  for (size_t k = 0; k < kInputs; ++k) {
    if (is_scalar[k]) hn::Store(hn::Set(d, *inputs[k]), d, spread[k]);
    from[k] = is_scalar[k] ? spread[k] : inputs[k];
    moves[k] = is_scalar[k] ? 0 : ~size_t{0};
  }
  const F f;
  size_t i = 0;
  for (; i + lanes <= count; i += lanes) hn::StoreU(f(d, hn::LoadU(d, from[I] + (i & moves[I]))...), d, output + i);
  if (i == count) return;
  HWY_ALIGN T tail[kInputs + 1][kMaxLanes] = {};
  for (size_t k = 0; k < kInputs; ++k) {
    const size_t valid = is_scalar[k] ? lanes : count - i;
    std::memcpy(tail[k], from[k] + (i & moves[k]), valid * sizeof(T));
  }
  hn::Store(f(d, hn::Load(d, tail[I])...), d, tail[kInputs]);
  std::memcpy(output + i, tail[kInputs], (count - i) * sizeof(T));
}

template <class F, size_t N, typename T>
void block(int64_t n, const T* const* inputs, const uint8_t* is_scalar, T* const* outputs) {
  block_loop<F>(n, inputs, is_scalar, outputs[0], std::make_index_sequence<N>());
}

template <class F, size_t N>
pointwise::Blocks blocks() {
  return {block<F, N, float>, block<F, N, double>, nullptr};
}

template <class F, size_t N>
pointwise::Blocks blocks_with_integers() {
  return {block<F, N, float>, block<F, N, double>, block<F, N, int64_t>};
}

}  // namespace deckle::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
