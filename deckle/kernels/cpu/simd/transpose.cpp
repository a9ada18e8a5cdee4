// Transposes of matrices of any element type, by squares of whole cache lines, these by blocks of 16 bytes square in registers;
// of elements of 4 and 8 bytes, on AVX-512, in registers as a whole.
// Contiguous copies of transposed matrices, two threads of an Emerald Rapids, us:
//                                              [100, 100] of 4 bytes   of 8   [1024, 1024] of 4 bytes     of 8
//   by blocks, through a buffer of a square                      5.7   12.9                       576    1,401
//   squares in registers                                         2.9    5.3                       471      852

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "deckle/kernels/cpu/simd/transpose.cpp"
#include "deckle/kernels/cpu/simd/targets.h"
// After targets.h.
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <cstdint>
#include <cstring>

#include "deckle/kernels/cpu/simd/squares.h"

#ifndef DECKLE_KERNELS_CPU_SIMD_TRANSPOSE_ONCE
#define DECKLE_KERNELS_CPU_SIMD_TRANSPOSE_ONCE
namespace deckle::kernels::cpu::simd {
namespace {

template <typename T>
constexpr int64_t kBlockSide = 16 / static_cast<int64_t>(sizeof(T));

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
/// A block of 16 bytes square, in registers.
template <typename T>
HWY_INLINE void transpose_block(const T* from, int64_t from_stride, T* to, int64_t to_stride) {
  constexpr int64_t kN = kBlockSide<T>;
  const hn::FixedTag<T, kN> d;
  hn::Vec<decltype(d)> in[kN];
  HWY_UNROLL(16)
  for (int64_t i = 0; i < kN; ++i) in[i] = hn::LoadU(d, from + i * from_stride);
  cpu::HWY_NAMESPACE::transpose_squares(d, in);
  HWY_UNROLL(16)
  for (int64_t i = 0; i < kN; ++i) hn::StoreU(in[i], d, to + i * to_stride);
}

/// Rows of two, three or four elements, one after another.
template <typename T>
void transpose_narrow(const T* from, int64_t rows, int64_t cols, T* to, int64_t to_stride) {
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  hn::Vec<decltype(d)> first, second, third, fourth;
  int64_t r = 0;
  for (; r + lanes <= rows; r += lanes) {
    if (cols == 2) {
      hn::LoadInterleaved2(d, from + r * 2, first, second);
    } else if (cols == 3) {
      hn::LoadInterleaved3(d, from + r * 3, first, second, third);
      hn::StoreU(third, d, to + 2 * to_stride + r);
    } else {
      hn::LoadInterleaved4(d, from + r * 4, first, second, third, fourth);
      hn::StoreU(third, d, to + 2 * to_stride + r);
      hn::StoreU(fourth, d, to + 3 * to_stride + r);
    }
    hn::StoreU(first, d, to + r);
    hn::StoreU(second, d, to + to_stride + r);
  }
  transpose_any(from + r * cols, cols, rows - r, cols, to + r, to_stride);
}
#endif

#if HWY_TARGET <= HWY_AVX3
using Words = hn::FixedTag<uint64_t, 8>;
using WordVector = hn::Vec<Words>;

/// Four vectors of four blocks of 16 bytes: block i of vector j becomes block j of vector i.
HWY_INLINE void transpose_quarters(WordVector (&v)[4]) {
  const Words d;
  const auto even0 = hn::OddEvenBlocks(hn::SwapAdjacentBlocks(v[1]), v[0]);
  const auto odd0 = hn::OddEvenBlocks(v[1], hn::SwapAdjacentBlocks(v[0]));
  const auto even1 = hn::OddEvenBlocks(hn::SwapAdjacentBlocks(v[3]), v[2]);
  const auto odd1 = hn::OddEvenBlocks(v[3], hn::SwapAdjacentBlocks(v[2]));
  v[0] = hn::ConcatLowerLower(d, even1, even0);
  v[1] = hn::ConcatLowerLower(d, odd1, odd0);
  v[2] = hn::ConcatUpperUpper(d, even1, even0);
  v[3] = hn::ConcatUpperUpper(d, odd1, odd0);
}

/// Eight vectors of eight words.
HWY_INLINE void transpose_words(WordVector (&v)[8]) {
  const Words d;
  WordVector even[4], odd[4];
  HWY_UNROLL(4)
  for (int i = 0; i < 4; ++i) {
    even[i] = hn::InterleaveLower(d, v[2 * i], v[2 * i + 1]);
    odd[i] = hn::InterleaveUpper(d, v[2 * i], v[2 * i + 1]);
  }
  transpose_quarters(even);
  transpose_quarters(odd);
  HWY_UNROLL(4)
  for (int i = 0; i < 4; ++i) v[2 * i] = even[i], v[2 * i + 1] = odd[i];
}

/// A square whose side is a cache line, in registers.
HWY_INLINE void transpose_square(const uint64_t* from, int64_t from_stride, uint64_t* to, int64_t to_stride) {
  const Words d;
  WordVector v[8];
  HWY_UNROLL(8)
  for (int i = 0; i < 8; ++i) v[i] = hn::LoadU(d, from + i * from_stride);
  transpose_words(v);
  HWY_UNROLL(8)
  for (int i = 0; i < 8; ++i) hn::StoreU(v[i], d, to + i * to_stride);
}

/// Words of two rows each: those of columns 4 i and 4 i + 1, and of the two that follow.
HWY_INLINE void transpose_square(const uint32_t* from, int64_t from_stride, uint32_t* to, int64_t to_stride) {
  const hn::FixedTag<uint32_t, 16> d;
  const Words words;
  WordVector front[8], back[8];
  HWY_UNROLL(8)
  for (int i = 0; i < 8; ++i) {
    const auto first = hn::LoadU(d, from + 2 * i * from_stride), second = hn::LoadU(d, from + (2 * i + 1) * from_stride);
    front[i] = hn::BitCast(words, hn::InterleaveLower(d, first, second));
    back[i] = hn::BitCast(words, hn::InterleaveUpper(d, first, second));
  }
  transpose_words(front);
  transpose_words(back);
  HWY_UNROLL(8)
  for (int i = 0; i < 8; ++i) {
    const int column = i / 2 * 4 + i % 2;
    hn::StoreU(hn::BitCast(d, front[i]), d, to + column * to_stride);
    hn::StoreU(hn::BitCast(d, back[i]), d, to + (column + 2) * to_stride);
  }
}
#endif

/// What is left beside the squares: by blocks, and the rest one by one.
template <typename T>
void transpose_rest(const T* from, int64_t from_stride, int64_t rows, int64_t cols, T* to, int64_t to_stride) {
#if HWY_TARGET != HWY_SCALAR
  if (cols >= 2 && cols <= 4 && from_stride == cols) return transpose_narrow(from, rows, cols, to, to_stride);
  const int64_t tall = rows / kBlockSide<T> * kBlockSide<T>, wide = cols / kBlockSide<T> * kBlockSide<T>;
  for (int64_t c = 0; c < wide; c += kBlockSide<T>) {
    for (int64_t r = 0; r < tall; r += kBlockSide<T>)
      transpose_block(from + r * from_stride + c, from_stride, to + c * to_stride + r, to_stride);
  }
  transpose_any(from + tall * from_stride, from_stride, rows - tall, wide, to + tall, to_stride);
  transpose_any(from + wide, from_stride, rows, cols - wide, to + wide * to_stride, to_stride);
#else
  transpose_any(from, from_stride, rows, cols, to, to_stride);
#endif
}

/// Squares whose sides are a cache line, through a buffer: lines apart by a power of two share a few places of the first cache,
/// so each is to be read, and written, at once. Those of the next square, each on a page of its own, are fetched meanwhile. Rows
/// go first: where to_stride is no multiple of a line, the two halves of a line are written one after the other.
template <typename T>
void transpose_lines(const T* from, int64_t from_stride, int64_t rows, int64_t cols, T* to, int64_t to_stride) {
  constexpr int64_t kSide = 64 / static_cast<int64_t>(sizeof(T));
  alignas(64) T square[kSide * kSide];
  const int64_t whole_rows = rows / kSide * kSide, whole_cols = cols / kSide * kSide;
  for (int64_t col = 0; col < whole_cols; col += kSide) {
    for (int64_t row = 0; row < whole_rows; row += kSide) {
      const T* const corner = from + row * from_stride + col;
      const bool more = row + kSide < whole_rows;
      const int64_t next_row = more ? row + kSide : 0, next_col = more ? col : col + kSide;
      if (next_col < whole_cols) {
        for (int64_t i = 0; i < kSide; ++i) {
          __builtin_prefetch(from + (next_row + i) * from_stride + next_col);
          __builtin_prefetch(to + (next_col + i) * to_stride + next_row, 1);
        }
      }
#if HWY_TARGET <= HWY_AVX3
      if constexpr (sizeof(T) >= 4) {
        transpose_square(corner, from_stride, to + col * to_stride + row, to_stride);
        continue;
      }
#endif
#if HWY_TARGET != HWY_SCALAR
      for (int64_t r = 0; r < kSide; r += kBlockSide<T>) {
        for (int64_t c = 0; c < kSide; c += kBlockSide<T>)
          transpose_block(corner + r * from_stride + c, from_stride, square + c * kSide + r, kSide);
      }
#else
      transpose_any(corner, from_stride, kSide, kSide, square, kSide);
#endif
      for (int64_t c = 0; c < kSide; ++c) std::memcpy(to + (col + c) * to_stride + row, square + c * kSide, 64);
    }
  }
  transpose_rest(from + whole_rows * from_stride, from_stride, rows - whole_rows, whole_cols, to + whole_rows, to_stride);
  transpose_rest(from + whole_cols, from_stride, rows, cols - whole_cols, to + whole_cols * to_stride, to_stride);
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
