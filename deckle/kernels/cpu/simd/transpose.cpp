// Transposes of matrices of any element type. For 4-byte elements, the common case, blocks of 4 x 4 in registers.

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "deckle/kernels/cpu/simd/transpose.cpp"
#include "deckle/kernels/cpu/simd/targets.h"
// After targets.h.
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cstdint>

HWY_BEFORE_NAMESPACE();
namespace deckle::kernels::cpu::simd::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

constexpr int64_t kWide = 16;  // columns processed per pass over the rows

template <typename T>
void transpose_any(const T* from, int64_t from_stride, int64_t rows, int64_t cols, T* to, int64_t to_stride) {
  for (int64_t col = 0; col < cols; col += kWide) {
    for (int64_t c = col; c < std::min(col + kWide, cols); ++c) {
      for (int64_t r = 0; r < rows; ++r) to[c * to_stride + r] = from[r * from_stride + c];
    }
  }
}

#if HWY_TARGET != HWY_SCALAR
HWY_INLINE void transpose_block(const uint32_t* from, int64_t from_stride, uint32_t* to, int64_t to_stride) {
  const hn::FixedTag<uint32_t, 4> d;
  const auto a = hn::LoadU(d, from), b = hn::LoadU(d, from + from_stride);
  const auto c = hn::LoadU(d, from + 2 * from_stride), e = hn::LoadU(d, from + 3 * from_stride);
  const auto ac_low = hn::InterleaveLower(d, a, c), ac_high = hn::InterleaveUpper(d, a, c);
  const auto be_low = hn::InterleaveLower(d, b, e), be_high = hn::InterleaveUpper(d, b, e);
  hn::StoreU(hn::InterleaveLower(d, ac_low, be_low), d, to);
  hn::StoreU(hn::InterleaveUpper(d, ac_low, be_low), d, to + to_stride);
  hn::StoreU(hn::InterleaveLower(d, ac_high, be_high), d, to + 2 * to_stride);
  hn::StoreU(hn::InterleaveUpper(d, ac_high, be_high), d, to + 3 * to_stride);
}
#endif

}  // namespace

void transpose_8(const uint8_t* from, int64_t from_stride, int64_t rows, int64_t cols, uint8_t* to, int64_t to_stride) {
  transpose_any(from, from_stride, rows, cols, to, to_stride);
}
void transpose_16(const uint16_t* from, int64_t from_stride, int64_t rows, int64_t cols, uint16_t* to, int64_t to_stride) {
  transpose_any(from, from_stride, rows, cols, to, to_stride);
}
void transpose_64(const uint64_t* from, int64_t from_stride, int64_t rows, int64_t cols, uint64_t* to, int64_t to_stride) {
  transpose_any(from, from_stride, rows, cols, to, to_stride);
}

void transpose_32(const uint32_t* from, int64_t from_stride, int64_t rows, int64_t cols, uint32_t* to, int64_t to_stride) {
#if HWY_TARGET == HWY_SCALAR
  transpose_any(from, from_stride, rows, cols, to, to_stride);
#else
  const int64_t whole_rows = rows / 4 * 4, whole_cols = cols / 4 * 4;
  for (int64_t col = 0; col < whole_cols; col += kWide) {
    for (int64_t r = 0; r < whole_rows; r += 4) {
      for (int64_t c = col; c < std::min(col + kWide, whole_cols); c += 4)
        transpose_block(from + r * from_stride + c, from_stride, to + c * to_stride + r, to_stride);
    }
  }
  transpose_any(from + whole_rows * from_stride, from_stride, rows - whole_rows, whole_cols, to + whole_rows, to_stride);
  transpose_any(from + whole_cols, from_stride, rows, cols - whole_cols, to + whole_cols * to_stride, to_stride);
#endif
}

}  // namespace deckle::kernels::cpu::simd::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "deckle/kernels/cpu/simd/transpose.h"

namespace deckle::kernels::cpu::simd {
namespace {

HWY_EXPORT(transpose_8);
HWY_EXPORT(transpose_16);
HWY_EXPORT(transpose_32);
HWY_EXPORT(transpose_64);

}  // namespace

template <typename T>
void transpose(const T* from, int64_t from_stride, int64_t rows, int64_t cols, T* to, int64_t to_stride) {
  if constexpr (sizeof(T) == 1)
    DECKLE_SIMD(transpose_8)(from, from_stride, rows, cols, to, to_stride);
  else if constexpr (sizeof(T) == 2)
    DECKLE_SIMD(transpose_16)(from, from_stride, rows, cols, to, to_stride);
  else if constexpr (sizeof(T) == 4)
    DECKLE_SIMD(transpose_32)(from, from_stride, rows, cols, to, to_stride);
  else
    DECKLE_SIMD(transpose_64)(from, from_stride, rows, cols, to, to_stride);
}

template void transpose(const uint8_t*, int64_t, int64_t, int64_t, uint8_t*, int64_t);
template void transpose(const uint16_t*, int64_t, int64_t, int64_t, uint16_t*, int64_t);
template void transpose(const uint32_t*, int64_t, int64_t, int64_t, uint32_t*, int64_t);
template void transpose(const uint64_t*, int64_t, int64_t, int64_t, uint64_t*, int64_t);

}  // namespace deckle::kernels::cpu::simd
#endif
