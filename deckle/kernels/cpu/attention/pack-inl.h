// Between rows in memory (any of the four floating types, any strides) and tiles in scratch (T = float or double, dense).

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
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace deckle::kernels::cpu {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

template <typename T>
constexpr int64_t round_up_lanes(int64_t n) {
  return (n + kLanes<T> - 1) / kLanes<T> * kLanes<T>;
}

/// Leading dim of a tile with n columns: whole vectors, and an odd number of cache lines so that columns spread over the sets.
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

/// Rows [first, first + count) of one head to tile[count, stride], times factor; columns past n are zero up to whole vectors,
/// and so are rows past count up to `padded`.
template <typename T>
void load_rows(DType dtype, const AttentionRows& rows, int64_t first, int64_t count, int64_t padded, int64_t head, int64_t n,
               T factor, T* tile, int64_t stride) {
  const int64_t whole = round_up_lanes<T>(n);
  for (int64_t r = 0; r < count; ++r) {
    load_row(dtype, row_address(dtype, rows, first + r, head), n, factor, tile + r * stride);
    for (int64_t d = n; d < whole; ++d) tile[r * stride + d] = T(0);
  }
  for (int64_t r = count; r < padded; ++r) std::memset(tile + r * stride, 0, static_cast<size_t>(whole) * sizeof(T));
}

template <typename T>
void store_rows(DType dtype, const AttentionRows& rows, int64_t first, int64_t count, int64_t head, int64_t n, const T* tile,
                int64_t stride) {
  for (int64_t r = 0; r < count; ++r) store_row(dtype, tile + r * stride, n, row_address(dtype, rows, first + r, head));
}

/// Elements of the squares that transpose() takes; one where there are no vectors.
template <typename T>
inline constexpr int kTransposeGroup = HWY_TARGET == HWY_SCALAR ? 1 : 16 / static_cast<int>(sizeof(T));

/// to[c, r] = from[r, c]; rows and columns are rounded up to whole 16-byte groups, which both tiles must have room for.
template <typename T>
void transpose(const T* HWY_RESTRICT from, int64_t from_stride, int64_t rows, int64_t columns, T* HWY_RESTRICT to,
               int64_t to_stride) {
#if HWY_TARGET == HWY_SCALAR
  for (int64_t c = 0; c < columns; ++c) {
    for (int64_t r = 0; r < rows; ++r) to[c * to_stride + r] = from[r * from_stride + c];
  }
#else
  constexpr int kGroup = kTransposeGroup<T>;
  const hn::FixedTag<T, kGroup> d;
  for (int64_t c = 0; c < columns; c += kGroup) {
    for (int64_t r = 0; r < rows; r += kGroup) {
      const T* source = from + r * from_stride + c;
      T* target = to + c * to_stride + r;
      const auto row0 = hn::LoadU(d, source), row1 = hn::LoadU(d, source + from_stride);
      if constexpr (kGroup == 4) {
        const auto row2 = hn::LoadU(d, source + 2 * from_stride), row3 = hn::LoadU(d, source + 3 * from_stride);
        const auto low01 = hn::InterleaveLower(d, row0, row1), low23 = hn::InterleaveLower(d, row2, row3);
        const auto high01 = hn::InterleaveUpper(d, row0, row1), high23 = hn::InterleaveUpper(d, row2, row3);
        hn::StoreU(hn::ConcatLowerLower(d, low23, low01), d, target);
        hn::StoreU(hn::ConcatUpperUpper(d, low23, low01), d, target + to_stride);
        hn::StoreU(hn::ConcatLowerLower(d, high23, high01), d, target + 2 * to_stride);
        hn::StoreU(hn::ConcatUpperUpper(d, high23, high01), d, target + 3 * to_stride);
      } else {
        hn::StoreU(hn::InterleaveLower(d, row0, row1), d, target);
        hn::StoreU(hn::InterleaveUpper(d, row0, row1), d, target + to_stride);
      }
    }
  }
#endif
}

}  // namespace HWY_NAMESPACE
}  // namespace deckle::kernels::cpu
HWY_AFTER_NAMESPACE();

#endif
