// Dense copies of strided matrices, halves widened to float32, and float32 results narrowed again.
//
// Memory-bound: 2 to 8 bytes read, 2 to 8 written per element, against 2 * 512 FLOPs that a tile spends on it.

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "deckle/kernels/cpu/matmul/pack.cpp"
#include "deckle/kernels/cpu/simd/targets.h"
// After targets.h.
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "deckle/kernels/cpu/matmul/pack.h"

HWY_BEFORE_NAMESPACE();
namespace deckle::kernels::cpu::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// Without F16C Highway emulates, with other roundings than IEEE 754's: one by one, then. Stronger targets have lower bits.
constexpr bool kHasFloat16 = HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2;

void widen_bfloat16(const uint16_t* from, float* to, int64_t count) {
  const hn::ScalableTag<uint32_t> words;
  const hn::Rebind<uint16_t, decltype(words)> halves;
  const auto lanes = static_cast<int64_t>(hn::Lanes(words));
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    const auto bits = hn::ShiftLeft<16>(hn::PromoteTo(words, hn::LoadU(halves, from + i)));
    hn::StoreU(bits, words, reinterpret_cast<uint32_t*>(to + i));
  }
  for (; i < count; ++i) to[i] = detail::bfloat16_bits_to_float(from[i]);
}

void narrow_bfloat16(const float* from, uint16_t* to, int64_t count) {
  const hn::ScalableTag<float> floats;
  const hn::RebindToUnsigned<decltype(floats)> words;
  const hn::RebindToSigned<decltype(floats)> integers;
  const hn::Rebind<int16_t, decltype(floats)> halves;
  const auto lanes = static_cast<int64_t>(hn::Lanes(floats));
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    const auto value = hn::LoadU(floats, from + i);
    const auto bits = hn::BitCast(words, value);
    const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(words, 1u));
    const auto rounded = hn::Add(bits, hn::Add(odd, hn::Set(words, 0x7fffu)));
    const auto quiet = hn::Or(bits, hn::Set(words, 0x400000u));
    const auto nan = hn::BitCast(words, hn::VecFromMask(floats, hn::IsNaN(value)));
    const auto chosen = hn::Or(hn::And(nan, quiet), hn::AndNot(nan, rounded));
    // An arithmetic shift keeps the value within int16, so the saturating narrowing changes nothing.
    const auto narrow = hn::DemoteTo(halves, hn::ShiftRight<16>(hn::BitCast(integers, chosen)));
    hn::StoreU(narrow, halves, reinterpret_cast<int16_t*>(to + i));
  }
  for (; i < count; ++i) to[i] = detail::float_to_bfloat16_bits(from[i]);
}

void widen_float16(const uint16_t* from, float* to, int64_t count) {
  int64_t i = 0;
  if constexpr (kHasFloat16) {
    const hn::ScalableTag<float> floats;
    const hn::Rebind<hwy::float16_t, decltype(floats)> halves;
    const auto lanes = static_cast<int64_t>(hn::Lanes(floats));
    for (; i + lanes <= count; i += lanes) {
      hn::StoreU(hn::PromoteTo(floats, hn::LoadU(halves, reinterpret_cast<const hwy::float16_t*>(from + i))), floats, to + i);
    }
  }
  for (; i < count; ++i) to[i] = detail::float16_bits_to_float(from[i]);
}

void narrow_float16(const float* from, uint16_t* to, int64_t count) {
  int64_t i = 0;
  if constexpr (kHasFloat16) {
    const hn::ScalableTag<float> floats;
    const hn::Rebind<hwy::float16_t, decltype(floats)> halves;
    const auto lanes = static_cast<int64_t>(hn::Lanes(floats));
    for (; i + lanes <= count; i += lanes) {
      hn::StoreU(hn::DemoteTo(halves, hn::LoadU(floats, from + i)), halves, reinterpret_cast<hwy::float16_t*>(to + i));
    }
  }
  for (; i < count; ++i) to[i] = detail::float_to_float16_bits(from[i]);
}

}  // namespace deckle::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <cstring>

#include "deckle/base/error.h"

namespace deckle::kernels::cpu {
namespace {

HWY_EXPORT(widen_bfloat16);
HWY_EXPORT(widen_float16);
HWY_EXPORT(narrow_bfloat16);
HWY_EXPORT(narrow_float16);

template <typename T>
void copy_run(const T* from, T* to, int64_t count) {
  std::memcpy(to, from, static_cast<size_t>(count) * sizeof(T));
}
void copy_run(const bfloat16* from, float* to, int64_t count) {
  DECKLE_SIMD(widen_bfloat16)(reinterpret_cast<const uint16_t*>(from), to, count);
}
void copy_run(const float16* from, float* to, int64_t count) {
  DECKLE_SIMD(widen_float16)(reinterpret_cast<const uint16_t*>(from), to, count);
}

template <typename From, typename To>
void copy_dense(const From* from, int64_t outer, int64_t outer_stride, int64_t inner, int64_t inner_stride, To* to) {
  for (int64_t i = 0; i < outer; ++i, from += outer_stride, to += inner) {
    if (inner_stride == 1) {
      copy_run(from, to, inner);
    } else {
      for (int64_t j = 0; j < inner; ++j) to[j] = static_cast<To>(from[j * inner_stride]);
    }
  }
}

template <typename From, typename To>
Operand copy(const Matrix& from, void* to) {
  const auto* data = static_cast<const From*>(from.data);
  const bool transposed = from.row_stride == 1 && from.col_stride != 1;
  if (transposed) {
    copy_dense(data, from.cols, from.col_stride, from.rows, from.row_stride, static_cast<To*>(to));
  } else {
    copy_dense(data, from.rows, from.row_stride, from.cols, from.col_stride, static_cast<To*>(to));
  }
  return {to, transposed ? from.rows : from.cols, transposed};
}

}  // namespace

Operand pack(const Matrix& from, bool keep_halves, void* to) {
  switch (from.dtype) {
    case DType::float64: return copy<double, double>(from, to);
    case DType::float32: return copy<float, float>(from, to);
    case DType::float16: return copy<float16, float>(from, to);
    case DType::bfloat16: return keep_halves ? copy<bfloat16, bfloat16>(from, to) : copy<bfloat16, float>(from, to);
    default: throw Error("matrix products serve floating dtypes, got " + std::string(name(from.dtype)));
  }
}

void narrow(const float* from, bfloat16* to, int64_t count) {
  DECKLE_SIMD(narrow_bfloat16)(from, reinterpret_cast<uint16_t*>(to), count);
}

void narrow(const float* from, float16* to, int64_t count) {
  DECKLE_SIMD(narrow_float16)(from, reinterpret_cast<uint16_t*>(to), count);
}

}  // namespace deckle::kernels::cpu
#endif
