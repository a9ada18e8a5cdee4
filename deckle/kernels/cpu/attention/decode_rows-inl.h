// How decoding reads rows of keys and values, and sums of several vectors' lanes.

#if defined(DECKLE_ATTENTION_DECODE_ROWS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef DECKLE_ATTENTION_DECODE_ROWS_INL_H_
#undef DECKLE_ATTENTION_DECODE_ROWS_INL_H_
#else
#define DECKLE_ATTENTION_DECODE_ROWS_INL_H_
#endif

#include <algorithm>
#include <cstdint>

#include "deckle/kernels/cpu/attention/pack-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace deckle::kernels::cpu {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

/// Rows of one head of K or V: row r at at + r * stride.
template <typename Element>
struct DecodeBlock {
  const Element* at;
  int64_t stride;
};

/// How rows of K or V are read: where they lie, as T...
template <typename T>
struct InPlace {
  using Element = T;
  static DecodeBlock<T> block(DType dtype, const AttentionRows& rows, int64_t first, int64_t, int64_t head, int64_t, T*) {
    return {reinterpret_cast<const T*>(row_address(dtype, rows, first, head)), rows.row_stride};
  }
  template <class D>
  static HWY_INLINE hn::Vec<D> load(D d, const T* at) {
    return hn::LoadU(d, at);
  }
};

/// ... or as bfloat16, widened in registers ...
struct InPlaceBf16 {
  using Element = uint16_t;
  static DecodeBlock<uint16_t> block(DType dtype, const AttentionRows& rows, int64_t first, int64_t, int64_t head, int64_t,
                                     float*) {
    return {reinterpret_cast<const uint16_t*>(row_address(dtype, rows, first, head)), rows.row_stride};
  }
  template <class D>
  static HWY_INLINE hn::Vec<D> load(D d, const uint16_t* at) {
    const hn::Rebind<uint16_t, D> halves;
    const hn::RebindToUnsigned<D> words;
    return hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(words, hn::LoadU(halves, at))));
  }
};

/// ... or converted, and padded to whole vectors, in a buffer.
template <typename T>
struct Converted : InPlace<T> {
  static DecodeBlock<T> block(DType dtype, const AttentionRows& rows, int64_t first, int64_t count, int64_t head, int64_t n,
                              T* buffer) {
    const int64_t stride = round_up_lanes<T>(n);
    for (int64_t r = 0; r < count; ++r) {
      load_row(dtype, row_address(dtype, rows, first + r, head), n, T(1), buffer + r * stride);
      std::fill(buffer + r * stride + n, buffer + (r + 1) * stride, T(0));
    }
    return {buffer, stride};
  }
};

#if HWY_TARGET != HWY_SCALAR
/// to[0..3] = the sum of the blocks of four lanes of v.
template <class D>
HWY_INLINE void store_sum_of_blocks(D d, hn::Vec<D> v, hn::TFromD<D>* to) {
  if constexpr (hn::MaxLanes(d) == 4) {
    hn::StoreU(v, d, to);
  } else {
    const hn::Half<D> half;
    store_sum_of_blocks(half, hn::Add(hn::LowerHalf(half, v), hn::UpperHalf(half, v)), to);
  }
}
#endif

/// to[s] = the sum of the lanes of sums[s].
template <int kCount, class D, typename T = hn::TFromD<D>>
HWY_INLINE void sums_of_lanes(D d, const hn::Vec<D>* sums, T* to) {
#if HWY_TARGET != HWY_SCALAR
  if constexpr (kCount == 4 && kSquareSide<T> == 4) {  // all four at once take fewer shuffles than two of them
    hn::Vec<D> lanes[4] = {sums[0], sums[1], sums[2], sums[3]};
    transpose_squares(d, lanes);
    const auto blocks = hn::Add(hn::Add(lanes[0], lanes[1]), hn::Add(lanes[2], lanes[3]));
    store_sum_of_blocks(d, blocks, to);
    return;
  }
#endif
  for (int s = 0; s < kCount; ++s) to[s] = hn::GetLane(hn::SumOfLanes(d, sums[s]));
}

}  // namespace HWY_NAMESPACE
}  // namespace deckle::kernels::cpu
HWY_AFTER_NAMESPACE();

#endif
