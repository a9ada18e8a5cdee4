// Copies between rows in memory (any floating type, any strides) and dense tiles in scratch (T = float or double).

#if defined(DECKLE_ATTENTION_PACK_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef DECKLE_ATTENTION_PACK_INL_H_
#undef DECKLE_ATTENTION_PACK_INL_H_
#else
#define DECKLE_ATTENTION_PACK_INL_H_
#endif

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "deckle/base/half.h"
#include "deckle/kernels/args/attention.h"
#include "deckle/kernels/cpu/attention/matmul-inl.h"
#include "deckle/kernels/cpu/simd/halves.h"
#include "deckle/kernels/cpu/simd/squares.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace deckle::kernels::cpu {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

template <typename T>
constexpr int64_t round_up_lanes(int64_t n) {
  return (n + kLanes<T> - 1) / kLanes<T> * kLanes<T>;
}

/// Leading dim of a tile with n columns: whole vectors, and an odd number of cache lines to avoid set conflicts between columns.
template <typename T>
constexpr int64_t tile_stride(int64_t n) {
  constexpr int64_t kLine = 64 / static_cast<int64_t>(sizeof(T));
  const int64_t lines = (round_up_lanes<T>(n) + kLine - 1) / kLine;
  return (lines | 1) * kLine;
}

/// One row of n values of `dtype` to T, times factor.
template <typename T>
HWY_INLINE void load_row(DType dtype, const void* source, int64_t n, T factor, T* HWY_RESTRICT to) {
  const hn::ScalableTag<T> dt;
  const T* from = static_cast<const T*>(source);
  if constexpr (std::is_same_v<T, float>) {
    if (dtype == DType::bfloat16 || dtype == DType::float16) {
      if (dtype == DType::bfloat16) {
        simd::widen(static_cast<const bfloat16*>(source), to, n);
      } else {
        simd::widen(static_cast<const float16*>(source), to, n);
      }
      if (factor == 1.0f) return;
      for (int64_t d = 0; d < n; ++d) to[d] *= factor;
      return;
    }
  }
  int64_t d = 0;
  for (; d + kLanes<T> <= n; d += kLanes<T>) hn::StoreU(hn::Mul(hn::LoadU(dt, from + d), hn::Set(dt, factor)), dt, to + d);
  for (; d < n; ++d) to[d] = factor * from[d];
}

template <typename T>
HWY_INLINE void store_row(DType dtype, const T* HWY_RESTRICT from, int64_t n, void* target) {
  if constexpr (std::is_same_v<T, float>) {
    if (dtype == DType::bfloat16) return simd::narrow(from, static_cast<bfloat16*>(target), n);
    if (dtype == DType::float16) return simd::narrow(from, static_cast<float16*>(target), n);
  }
  std::memcpy(target, from, static_cast<size_t>(n) * sizeof(T));
}

inline char* row_address(DType dtype, const AttentionRows& rows, int64_t row, int64_t head) {
  return static_cast<char*>(rows.data) + (row * rows.row_stride + head * rows.head_stride) * item_size(dtype);
}

/// to[count, to_stride] = factor * from[count, from_stride], n elements each, a multiple of the lanes.
template <typename T>
HWY_INLINE void copy_rows(const T* HWY_RESTRICT from, int64_t from_stride, int64_t count, int64_t n, T factor, T* HWY_RESTRICT to,
                          int64_t to_stride) {
  const hn::ScalableTag<T> d;
  constexpr int kN = kLanes<T>;
  const auto by = hn::Set(d, factor);
  for (int64_t r = 0; r < count; ++r, from += from_stride, to += to_stride) {
    int64_t c = 0;
    for (; c + 4 * kN <= n; c += 4 * kN) {
      const auto a0 = hn::LoadU(d, from + c), a1 = hn::LoadU(d, from + c + kN), a2 = hn::LoadU(d, from + c + 2 * kN),
                 a3 = hn::LoadU(d, from + c + 3 * kN);
      hn::StoreU(hn::Mul(a0, by), d, to + c);
      hn::StoreU(hn::Mul(a1, by), d, to + c + kN);
      hn::StoreU(hn::Mul(a2, by), d, to + c + 2 * kN);
      hn::StoreU(hn::Mul(a3, by), d, to + c + 3 * kN);
    }
    for (; c < n; c += kN) hn::StoreU(hn::Mul(hn::LoadU(d, from + c), by), d, to + c);
  }
}

/// Rows [first, first + count) of one head to tile[count, stride], times factor; columns past n are zero up to whole vectors,
/// and so are rows past count up to `padded`.
template <typename T>
void load_rows(DType dtype, const AttentionRows& rows, int64_t first, int64_t count, int64_t padded, int64_t head, int64_t n,
               T factor, T* tile, int64_t stride) {
  const int64_t whole = round_up_lanes<T>(n);
  if (dtype == dtype_of<T> && whole == n) {
    copy_rows(reinterpret_cast<const T*>(row_address(dtype, rows, first, head)), rows.row_stride, count, n, factor, tile, stride);
  } else {
    for (int64_t r = 0; r < count; ++r) {
      load_row(dtype, row_address(dtype, rows, first + r, head), n, factor, tile + r * stride);
      for (int64_t d = n; d < whole; ++d) tile[r * stride + d] = T(0);
    }
  }
  for (int64_t r = count; r < padded; ++r) std::memset(tile + r * stride, 0, static_cast<size_t>(whole) * sizeof(T));
}

template <typename T>
void store_rows(DType dtype, const AttentionRows& rows, int64_t first, int64_t count, int64_t head, int64_t n, const T* tile,
                int64_t stride) {
  if (dtype == dtype_of<T> && n % kLanes<T> == 0 && count > 0) {
    return copy_rows(tile, stride, count, n, T(1), reinterpret_cast<T*>(row_address(dtype, rows, first, head)), rows.row_stride);
  }
  for (int64_t r = 0; r < count; ++r) store_row(dtype, tile + r * stride, n, row_address(dtype, rows, first + r, head));
}

#if HWY_TARGET != HWY_SCALAR
/// The vector whose 128-bit block b is the one at from + b * step.
template <class D, typename T = hn::TFromD<D>>
HWY_INLINE hn::Vec<D> load_blocks(D d, const T* from, int64_t step) {
  constexpr int kBlocks = kLanes<T> / kSquareSide<T>;
  auto blocks = hn::LoadDup128(d, from + (kBlocks - 1) * step);
#pragma GCC unroll 4
  for (int b = kBlocks - 2; b >= 0; --b)
    blocks = hn::IfThenElse(hn::FirstN(d, (b + 1) * kSquareSide<T>), hn::LoadDup128(d, from + b * step), blocks);
  return blocks;
}
#endif

/// to[c, r] = from[r, c]; rows and columns are rounded up to whole 16-byte groups, which both tiles must have room for.
template <typename T>
void transpose(const T* HWY_RESTRICT from, int64_t from_stride, int64_t rows, int64_t columns, T* HWY_RESTRICT to,
               int64_t to_stride) {
#if HWY_TARGET == HWY_SCALAR
  for (int64_t c = 0; c < columns; ++c) {
    for (int64_t r = 0; r < rows; ++r) to[c * to_stride + r] = from[r * from_stride + c];
  }
#else
  constexpr int kGroup = kSquareSide<T>;
  const auto groups = [&](auto d, int64_t r, int64_t step) {  // as many rows as d has lanes, in whole vectors
    using V = hn::Vec<decltype(d)>;
    for (int64_t c = 0; c < columns; c += kGroup) {
      V v[kGroup];
#pragma GCC unroll 4
      for (int i = 0; i < kGroup; ++i) {
        const T* source = from + (r + i) * from_stride + c;
        if constexpr (hn::MaxLanes(d) == kGroup) {
          v[i] = hn::LoadU(d, source);
        } else {
          v[i] = load_blocks(d, source, step);
        }
      }
      transpose_squares(d, v);
#pragma GCC unroll 4
      for (int i = 0; i < kGroup; ++i) hn::StoreU(v[i], d, to + (c + i) * to_stride + r);
    }
  };
  int64_t r = 0;
  for (; r + kLanes<T> <= rows; r += kLanes<T>) groups(hn::ScalableTag<T>(), r, kGroup * from_stride);
  for (; r < rows; r += kGroup) groups(hn::FixedTag<T, kGroup>(), r, 0);
#endif
}

}  // namespace HWY_NAMESPACE
}  // namespace deckle::kernels::cpu
HWY_AFTER_NAMESPACE();

#endif
