// Transposes of matrices of any element type, by squares of whole cache lines. For 4-byte elements, the common case, blocks of 4
// x 4 in registers.

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "deckle/kernels/cpu/simd/transpose.cpp"
#include "deckle/kernels/cpu/simd/targets.h"
// After targets.h.
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <cstdint>
#include <cstring>
#include <type_traits>

#ifndef DECKLE_KERNELS_CPU_SIMD_TRANSPOSE_ONCE
#define DECKLE_KERNELS_CPU_SIMD_TRANSPOSE_ONCE
namespace deckle::kernels::cpu::simd {
namespace {

template <typename T>
using Transpose = void(const T* from, int64_t from_stride, int64_t rows, int64_t cols, T* to, int64_t to_stride);
struct TransposeTable {
  Transpose<uint8_t>* of_8;
  Transpose<uint16_t>* of_16;
  Transpose<uint32_t>* of_32;
  Transpose<uint64_t>* of_64;
};

}  // namespace
}  // namespace deckle::kernels::cpu::simd
#endif

HWY_BEFORE_NAMESPACE();
namespace deckle::kernels::cpu::simd::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

template <typename T>
void transpose_any(const T* from, int64_t from_stride, int64_t rows, int64_t cols, T* to, int64_t to_stride) {
  for (int64_t c = 0; c < cols; ++c) {
    for (int64_t r = 0; r < rows; ++r) to[c * to_stride + r] = from[r * from_stride + c];
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

/// Squares whose sides are a cache line, through a buffer: lines apart by a power of two share a few places of the first cache,
/// so each is to be read, and written, at once. Rows go first: where to_stride is no multiple of a line, the two halves of a line
/// are written one after the other.
template <typename T>
void transpose_lines(const T* from, int64_t from_stride, int64_t rows, int64_t cols, T* to, int64_t to_stride) {
  constexpr int64_t kSide = 64 / static_cast<int64_t>(sizeof(T));
  alignas(64) T square[kSide * kSide];
  const int64_t whole_rows = rows / kSide * kSide, whole_cols = cols / kSide * kSide;
  for (int64_t col = 0; col < whole_cols; col += kSide) {
    for (int64_t row = 0; row < whole_rows; row += kSide) {
      const T* const corner = from + row * from_stride + col;
#if HWY_TARGET != HWY_SCALAR
      if constexpr (std::is_same_v<T, uint32_t>) {
        for (int64_t r = 0; r < kSide; r += 4) {
          for (int64_t c = 0; c < kSide; c += 4)
            transpose_block(corner + r * from_stride + c, from_stride, square + c * kSide + r, kSide);
        }
      } else
#endif
      {
        for (int64_t r = 0; r < kSide; ++r) {
          for (int64_t c = 0; c < kSide; ++c) square[c * kSide + r] = corner[r * from_stride + c];
        }
      }
      for (int64_t c = 0; c < kSide; ++c) std::memcpy(to + (col + c) * to_stride + row, square + c * kSide, 64);
    }
  }
  transpose_any(from + whole_rows * from_stride, from_stride, rows - whole_rows, whole_cols, to + whole_rows, to_stride);
  transpose_any(from + whole_cols, from_stride, rows, cols - whole_cols, to + whole_cols * to_stride, to_stride);
}

constexpr TransposeTable kTable = {&transpose_lines<uint8_t>, &transpose_lines<uint16_t>, &transpose_lines<uint32_t>,
                                   &transpose_lines<uint64_t>};

}  // namespace

const TransposeTable& transpose_table() { return kTable; }

}  // namespace deckle::kernels::cpu::simd::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "deckle/kernels/cpu/simd/transpose.h"

namespace deckle::kernels::cpu::simd {
namespace {

HWY_EXPORT(transpose_table);

}  // namespace

template <typename T>
void transpose(const T* from, int64_t from_stride, int64_t rows, int64_t cols, T* to, int64_t to_stride) {
  const TransposeTable& table = DECKLE_SIMD(transpose_table)();
  if constexpr (sizeof(T) == 1)
    table.of_8(from, from_stride, rows, cols, to, to_stride);
  else if constexpr (sizeof(T) == 2)
    table.of_16(from, from_stride, rows, cols, to, to_stride);
  else if constexpr (sizeof(T) == 4)
    table.of_32(from, from_stride, rows, cols, to, to_stride);
  else
    table.of_64(from, from_stride, rows, cols, to, to_stride);
}

template void transpose(const uint8_t*, int64_t, int64_t, int64_t, uint8_t*, int64_t);
template void transpose(const uint16_t*, int64_t, int64_t, int64_t, uint16_t*, int64_t);
template void transpose(const uint32_t*, int64_t, int64_t, int64_t, uint32_t*, int64_t);
template void transpose(const uint64_t*, int64_t, int64_t, int64_t, uint64_t*, int64_t);

}  // namespace deckle::kernels::cpu::simd
#endif
