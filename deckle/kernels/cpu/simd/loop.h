// The inner loop of a pointwise op: load a vector of every input, compute, store. Generated kernels are a functor F with
//   template <class D, class V> V operator()(D d, V input0, V input1, ...) const
// (kExact: its results on halves are halves, unrounded; kHalves = false: it needs no loop over halves; kInt32: in lanes of int32
// it gives what it gives in those of int64, modulo 2^32) and blocks<F, N>(), its N-input block functions for float and double
// (blocks_with_integers: and int64; blocks_of_integers: int64 alone).
//
// A number is broadcast to one vector beforehand and reloaded at every step, so one loop serves all mixtures of arrays and
// numbers. The tail goes through padded copies: no lane beyond n is read or written.
//
// bfloat16, on AVX-512, in one pass: a vector of 32 is its even and its odd elements as floats, which needs no lane to move.
// Microseconds of half a million elements, one thread of Emerald Rapids:
//   version                                             neg  square  add  div  sqrt  log
//   blocks of 1,024 widened, computed, narrowed         101      99  199  292   214  212
//   in one pass                                          49      62  112  133   151  184
//
// float16, on AVX-512, in one pass too: a vector of floats at a time is widened, computed and narrowed. int32 as it is.
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
  constexpr bool kMany = sizeof...(I) > 2;  // pointers that move and a count to 0 take fewer instructions than so many indices
  const T* at[] = {from[I]...};             // in registers: what `output` points to might else be these
  const size_t move[] = {kMany ? moves[I] & lanes : moves[I]...};
  const auto whole = static_cast<ptrdiff_t>(count), first = kMany ? -whole : 0;
  const F f;
  for (ptrdiff_t i = first; kMany ? i != 0 : i < whole; i += static_cast<ptrdiff_t>(lanes)) {
    hn::StoreU(f(d, hn::LoadU(d, at[I] + (kMany ? 0 : i & move[I]))...), d, output - first + i);
    if constexpr (kMany) ((at[I] += move[I]), ...);
  }
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

#if HWY_TARGET == HWY_AVX3
/// The formula on `count` elements of two bytes: whole vectors where they lie, the rest through padded copies. Numbers, whose
/// pointers stay, are whole vectors already.
template <size_t N, size_t kLanes, class Input>
HWY_INLINE void halves_with_tail(void (*formula)(size_t, const Input*, uint16_t*), size_t count, Input* in, uint16_t* to) {
  const size_t tail_size = count % kLanes, whole = count - tail_size;
  formula(whole, in, to);
  if (tail_size == 0) return;
  HWY_ALIGN uint16_t tail[N + 1][kLanes] = {};
  for (size_t k = 0; k < N; ++k) {
    if (in[k].moves == 0) continue;
    std::memcpy(tail[k], in[k].from + whole, tail_size * sizeof(uint16_t));
    in[k].from = tail[k];
  }
  formula(kLanes, in, tail[N]);
  std::memcpy(to + whole, tail[N], tail_size * sizeof(uint16_t));
}

/// How the words of an input of bfloat16 become floats: the even elements, in their lower halves, by a shift, the odd ones by a
/// mask. Of a number, a float in every word, neither changes anything.
struct HalfInput {
  const uint16_t* from;
  size_t moves;  // as above
  uint32_t shift, mask;
};
using HalfLoop = void (*)(size_t count, const HalfInput* inputs, uint16_t* output);

/// Rounded to bfloat16, which is the upper half of each word; the lower half is anything.
template <class F, class D>
HWY_INLINE auto rounded_half(D d, hn::Vec<D> value) {
  const hn::RebindToUnsigned<D> words;
  const auto bits = hn::BitCast(words, value);
  if constexpr (requires { F::kExact; }) {  // results are elements but for the sign, or whole numbers of few bits
    return bits;
  } else {
    const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(words, 1u));
    const auto rounded = hn::Add(hn::Add(bits, hn::Set(words, 0x7fffu)), odd);
    return hn::IfThenElse(hn::RebindMask(words, hn::IsNaN(value)), hn::Or(bits, hn::Set(words, 0x400000u)), rounded);
  }
}

template <class F, size_t... I>
HWY_INLINE void half_vectors(size_t count, const HalfInput* inputs, uint16_t* output, std::index_sequence<I...>) {
  const hn::ScalableTag<float> d;
  const hn::RebindToUnsigned<decltype(d)> words;
  const hn::ScalableTag<uint16_t> halves;
  const uint16_t* const start[] = {inputs[I].from...};
  const size_t move[] = {inputs[I].moves...};
  const hn::Vec<decltype(words)> shift[] = {hn::Set(words, inputs[I].shift)...}, mask[] = {hn::Set(words, inputs[I].mask)...};
  const auto load = [&](size_t k, size_t i) HWY_ATTR { return hn::BitCast(words, hn::LoadU(halves, start[k] + (i & move[k]))); };
  const F f;
  for (size_t i = 0; i < count; i += hn::Lanes(halves)) {
    const auto even = rounded_half<F>(d, f(d, hn::BitCast(d, hn::Shl(load(I, i), shift[I]))...));
    const auto odd = rounded_half<F>(d, f(d, hn::BitCast(d, hn::And(load(I, i), mask[I]))...));
    hn::StoreU(hn::OddEven(hn::BitCast(halves, odd), hn::BitCast(halves, hn::ShiftRight<16>(even))), halves, output + i);
  }
}
template <class F, size_t N>
void half_loop(size_t count, const HalfInput* inputs, uint16_t* output) {
  half_vectors<F>(count, inputs, output, std::make_index_sequence<N>());
}

template <size_t N>
HWY_NOINLINE void half_block_loop(HalfLoop formula, int64_t n, const bfloat16* const* inputs, const uint8_t* is_scalar,
                                  bfloat16* output) {
  const hn::ScalableTag<uint32_t> words;
  constexpr size_t kLanes = 2 * hn::MaxLanes(words);  // halves; vectors are full at this target
  HWY_ALIGN uint16_t spread[N][kLanes];
  HalfInput in[N];
  for (size_t k = 0; k < N; ++k) {
    in[k] = {reinterpret_cast<const uint16_t*>(inputs[k]), ~size_t{0}, 16, 0xffff0000u};
    if (!is_scalar[k]) continue;
    uint32_t word;
    if (is_scalar[k] == pointwise::kNumber) {
      std::memcpy(&word, inputs[k], sizeof(word));
      in[k].shift = 0;
      in[k].mask = ~0u;
    } else {
      word = inputs[k]->bits * 0x10001u;
    }
    hn::Store(hn::Set(words, word), words, reinterpret_cast<uint32_t*>(spread[k]));
    in[k].from = spread[k];
    in[k].moves = 0;
  }
  halves_with_tail<N, kLanes>(formula, static_cast<size_t>(n), in, reinterpret_cast<uint16_t*>(output));
}

template <class F, size_t N>
void half_block(int64_t n, const bfloat16* const* inputs, const uint8_t* is_scalar, bfloat16* const* outputs) {
  half_block_loop<N>(half_loop<F, N>, n, inputs, is_scalar, outputs[0]);
}

/// An input of float16: elements, or a number.
struct Float16Input {
  const uint16_t* from;
  size_t moves;  // as above
  float number;
  bool is_number;
};
using Float16Loop = void (*)(size_t count, const Float16Input* inputs, uint16_t* output);

template <class F, size_t... I>
HWY_INLINE void float16_vectors(size_t count, const Float16Input* inputs, uint16_t* output, std::index_sequence<I...>) {
  const hn::ScalableTag<float> d;
  const hn::Rebind<hwy::float16_t, decltype(d)> halves;
  const size_t lanes = hn::Lanes(d);
  const hwy::float16_t* const start[] = {reinterpret_cast<const hwy::float16_t*>(inputs[I].from)...};
  const size_t move[] = {inputs[I].moves...};
  const hn::Vec<decltype(d)> number[] = {hn::Set(d, inputs[I].number)...};
  const hn::Mask<decltype(d)> is_number[] = {hn::FirstN(d, inputs[I].is_number ? lanes : 0)...};
  const auto load = [&](size_t k, size_t i) HWY_ATTR {
    return hn::IfThenElse(is_number[k], number[k], hn::PromoteTo(d, hn::LoadU(halves, start[k] + (i & move[k]))));
  };
  const F f;
  auto* const to = reinterpret_cast<hwy::float16_t*>(output);
  for (size_t i = 0; i < count; i += lanes) hn::StoreU(hn::DemoteTo(halves, f(d, load(I, i)...)), halves, to + i);
}
template <class F, size_t N>
void float16_loop(size_t count, const Float16Input* inputs, uint16_t* output) {
  float16_vectors<F>(count, inputs, output, std::make_index_sequence<N>());
}

template <size_t N>
HWY_NOINLINE void float16_block_loop(Float16Loop formula, int64_t n, const float16* const* inputs, const uint8_t* is_scalar,
                                     float16* output) {
  constexpr size_t kLanes = hn::MaxLanes(hn::ScalableTag<float>());  // vectors are full at this target
  static constexpr uint16_t kNothing[kLanes] = {};                   // what is read where there is a number
  Float16Input in[N];
  for (size_t k = 0; k < N; ++k) {
    in[k] = {reinterpret_cast<const uint16_t*>(inputs[k]), ~size_t{0}, 0, false};
    if (!is_scalar[k]) continue;
    in[k] = {kNothing, 0, 0, true};
    if (is_scalar[k] == pointwise::kNumber)
      std::memcpy(&in[k].number, inputs[k], sizeof(float));
    else
      in[k].number = static_cast<float>(*inputs[k]);
  }
  halves_with_tail<N, kLanes>(formula, static_cast<size_t>(n), in, reinterpret_cast<uint16_t*>(output));
}

template <class F, size_t N>
void float16_block(int64_t n, const float16* const* inputs, const uint8_t* is_scalar, float16* const* outputs) {
  float16_block_loop<N>(float16_loop<F, N>, n, inputs, is_scalar, outputs[0]);
}
#endif

/// Those of halves are null where runs of them are converted before and after: on other targets, and of a functor with kHalves =
/// false.
template <class F, size_t N>
void add_halves([[maybe_unused]] pointwise::Blocks& blocks) {
#if HWY_TARGET == HWY_AVX3
  if constexpr (!requires { F::kHalves; }) {
    blocks.bf16 = half_block<F, N>;
    blocks.f16 = float16_block<F, N>;
  }
#endif
}

template <class F, size_t N>
pointwise::Blocks blocks_of_integers() {
  pointwise::Blocks blocks = {nullptr, nullptr, block<F, N, int64_t>};
#if HWY_TARGET != HWY_SCALAR
  if constexpr (requires { F::kInt32; }) blocks.i32 = block<F, N, int32_t>;
#endif
  return blocks;
}

template <class F, size_t N>
pointwise::Blocks blocks() {
  pointwise::Blocks blocks = {block<F, N, float>, block<F, N, double>};
  add_halves<F, N>(blocks);
  return blocks;
}

template <class F, size_t N>
pointwise::Blocks blocks_with_integers() {
  pointwise::Blocks blocks = blocks_of_integers<F, N>();
  blocks.f32 = block<F, N, float>;
  blocks.f64 = block<F, N, double>;
  add_halves<F, N>(blocks);
  return blocks;
}

}  // namespace deckle::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
