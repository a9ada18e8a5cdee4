// The inner loop of a pointwise op: load a vector of every input, compute, store. Generated kernels are a functor F with
//   template <class D, class V> V operator()(D d, V input0, V input1, ...) const
// and blocks<F, N>(), its N-input block functions for float and double (blocks_with_integers: and int64; blocks_of_integers:
// int64 alone).
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

/// The formula on `count` elements, a multiple of the lanes.
template <typename T>
using VectorLoop = void (*)(size_t count, const T* const* from, const size_t* moves, T* output);

template <class F, typename T, size_t... I>
HWY_INLINE void vectors(size_t count, const T* const* from, const size_t* moves, T* output, std::index_sequence<I...>) {
  const hn::ScalableTag<T> d;
  const size_t lanes = hn::Lanes(d);
  const T* const start[] = {from[I]...};  // in registers: what `output` points to might else be these
  const size_t move[] = {moves[I]...};
  const F f;
  for (size_t i = 0; i < count; i += lanes) hn::StoreU(f(d, hn::LoadU(d, start[I] + (i & move[I]))...), d, output + i);
}
template <class F, size_t N, typename T>
void vector_loop(size_t count, const T* const* from, const size_t* moves, T* output) {
  vectors<F>(count, from, moves, output, std::make_index_sequence<N>());
}

/// What all formulas of N inputs share and is compiled once for them: numbers spread over a vector, and the tail.
template <size_t N, typename T>
HWY_NOINLINE void block_loop(VectorLoop<T> formula, int64_t n, const T* const* inputs, const uint8_t* is_scalar, T* output) {
  const hn::ScalableTag<T> d;
  constexpr size_t kMaxLanes = hn::MaxLanes(d);
  const size_t lanes = hn::Lanes(d), count = static_cast<size_t>(n), tail_size = count % lanes, whole = count - tail_size;
  HWY_ALIGN T spread[N][kMaxLanes];
  const T* from[N];
  size_t moves[N];  // all ones: the pointer moves with the loop; 0: it stays
  for (size_t k = 0; k < N; ++k) {
    if (is_scalar[k]) hn::Store(hn::Set(d, *inputs[k]), d, spread[k]);
    from[k] = is_scalar[k] ? spread[k] : inputs[k];
    moves[k] = is_scalar[k] ? 0 : ~size_t{0};
  }
  formula(whole, from, moves, output);
  if (tail_size == 0) return;
  HWY_ALIGN T tail[N + 1][kMaxLanes] = {};
  for (size_t k = 0; k < N; ++k) {
    std::memcpy(tail[k], from[k] + (whole & moves[k]), (is_scalar[k] ? lanes : tail_size) * sizeof(T));
    from[k] = tail[k];
  }
  formula(lanes, from, moves, tail[N]);
  std::memcpy(output + whole, tail[N], tail_size * sizeof(T));
}

template <class F, size_t N, typename T>
void block(int64_t n, const T* const* inputs, const uint8_t* is_scalar, T* const* outputs) {
  block_loop<N>(vector_loop<F, N, T>, n, inputs, is_scalar, outputs[0]);
}

template <class F, size_t N>
pointwise::Blocks blocks() {
  return {block<F, N, float>, block<F, N, double>, nullptr};
}

template <class F, size_t N>
pointwise::Blocks blocks_with_integers() {
  return {block<F, N, float>, block<F, N, double>, block<F, N, int64_t>};
}

template <class F, size_t N>
pointwise::Blocks blocks_of_integers() {
  return {nullptr, nullptr, block<F, N, int64_t>};
}

}  // namespace deckle::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
