// A block of c in registers: up to 14 rows of two vectors.                           c[14, 2 vectors] += a[14, k] b[k, 2 vectors]
//
// Each step of k loads two vectors of b and broadcasts 14 elements of a: 16 loads for 28 FMAs, where two of either run in a
// cycle. b comes from the second cache and is prefetched eight steps ahead; c, sixteen steps before the end. Every element is one
// chain of fused multiply-adds in ascending order, whatever the block it falls in.
//
// GF/s of one core of an Emerald Rapids (FMA peak 171) by processor time, best of 30, float32 [1024]^3 in a driver of its
// own (at fbdd19e1; MKL between the runs: 148 to 159):
//   14 x 2, k in pieces of 384                 132   [336]^3: 159
//   with c prefetched                          134
//   with b prefetched eight steps ahead too    145
//   four panels of a, not eight, for one of b  152
// Not better: 8 x 3 (150), 12 x 2 (150), 512 or 256 of k (147, 150), b sixteen steps ahead (145), the loop unrolled twice (145).
// Instances: float, double, with AVX-512; elsewhere the libraries multiply (product.cpp).

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "deckle/kernels/cpu/matmul/register_blocks.cpp"
#include "deckle/kernels/cpu/simd/targets.h"

#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <utility>

#include "deckle/kernels/cpu/matmul/register_blocks.h"
#include "deckle/kernels/cpu/simd/rows.h"
#include "deckle/kernels/cpu/simd/squares.h"

HWY_BEFORE_NAMESPACE();
namespace deckle::kernels::cpu::HWY_NAMESPACE {
namespace {

#if HWY_TARGET == HWY_AVX3

constexpr int64_t kAhead = 8;       // steps of k between the prefetch of b and its use
constexpr int64_t kAheadOfC = 16;   // steps that are left when c is fetched
constexpr int64_t kPackAhead = 32;  // steps between the prefetch of an operand and its packing; lines where they lie along k
constexpr int64_t kLinesAhead = 4;

template <int kRows, int kVectors, typename T>
HWY_NOINLINE void block_product(const matmul::BlockArgs<T>& args) {
  const hn::ScalableTag<T> d;
  using V = hn::Vec<decltype(d)>;
  constexpr int kN = static_cast<int>(hn::MaxLanes(d));
  const auto last = hn::FirstN(d, static_cast<size_t>(args.last));
  const T *HWY_RESTRICT a = args.a, *HWY_RESTRICT b = args.b;
  const T* next = args.next;
  int64_t next_step = 64 / static_cast<int64_t>(sizeof(T));
  V sum[kRows][kVectors];
#pragma GCC unroll 16
  for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 2
    for (int j = 0; j < kVectors; ++j) sum[i][j] = hn::Zero(d);
  }
  const int64_t b_row = args.b_row, before_c = std::max<int64_t>(args.k - kAheadOfC, 0);
  const int64_t ends[3] = {std::min(args.next_lines, before_c), before_c, args.k};
  int64_t p = 0;
#pragma GCC unroll 1
  for (int phase = 0; phase < 3; ++phase) {
    const int64_t end = ends[phase];
#pragma GCC unroll 1
    for (; p < end; ++p) {
      V right[kVectors];
#pragma GCC unroll 2
      for (int j = 0; j < kVectors; ++j) {
        right[j] = j + 1 < kVectors ? hn::LoadU(d, b + j * kN) : hn::MaskedLoad(last, d, b + j * kN);
        __builtin_prefetch(b + kAhead * b_row + j * kN, 0, 3);
      }
      __builtin_prefetch(next, 0, 2);
      next += next_step;
#pragma GCC unroll 16
      for (int i = 0; i < kRows; ++i) {
        const V left = hn::Set(d, a[i]);
#pragma GCC unroll 2
        for (int j = 0; j < kVectors; ++j) sum[i][j] = hn::MulAdd(left, right[j], sum[i][j]);
      }
      a += kRows;
      b += b_row;
    }
    next_step = 0;
    if (phase == 1) {
#pragma GCC unroll 16
      for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 2
        for (int j = 0; j < kVectors; ++j) __builtin_prefetch(args.c + i * args.c_row + j * kN, 1, 3);
      }
    }
  }
  if (args.start != nullptr) {
#pragma GCC unroll 16
    for (int i = 0; i < kRows; ++i) {
      const T* const row = args.start + i * args.start_row;
#pragma GCC unroll 2
      for (int j = 0; j < kVectors; ++j) {
        const V from = j + 1 < kVectors ? hn::LoadU(d, row + j * kN) : hn::MaskedLoad(last, d, row + j * kN);
        sum[i][j] = hn::Add(from, sum[i][j]);
      }
    }
  }
#pragma GCC unroll 16
  for (int i = 0; i < kRows; ++i) {
    T* const row = args.c + i * args.c_row;
#pragma GCC unroll 2
    for (int j = 0; j + 1 < kVectors; ++j) hn::StoreU(sum[i][j], d, row + j * kN);
    hn::BlendedStore(sum[i][kVectors - 1], last, d, row + (kVectors - 1) * kN);
  }
}

/// Two squares of 16 bytes a side, one below the other. Rows past `rows` are read as the last one.
template <typename T>
HWY_INLINE void transpose_two(const T* from, int64_t from_row, int64_t rows, T* to, int64_t to_row) {
  constexpr int64_t kN = kSquareSide<T>;
  const hn::FixedTag<T, kN> half;
  const hn::FixedTag<T, 2 * kN> d;
  hn::Vec<decltype(d)> in[kN];
  HWY_UNROLL(4)
  for (int64_t i = 0; i < kN; ++i) {
    const T* const lower = from + std::min(i, rows - 1) * from_row;
    const T* const upper = from + std::min(i + kN, rows - 1) * from_row;
    in[i] = hn::Combine(d, hn::LoadU(half, upper), hn::LoadU(half, lower));
  }
  transpose_squares(d, in);
  HWY_UNROLL(4)
  for (int64_t i = 0; i < kN; ++i) hn::StoreU(in[i], d, to + i * to_row);
}

/// The lanes' rows lie along k. One cache line of each at a time, fetched some lines ahead: rows a power of two apart share a few
/// places of the first cache, and are more streams than the processor follows. Squares that reach past `width` come first: what
/// they write there, the next step's first lanes, is written over.
template <typename T>
void pack_rows(const T* from, int64_t from_row, int64_t width, int64_t k, T* to, int64_t to_row) {
  constexpr int64_t kSide = 16 / static_cast<int64_t>(sizeof(T)), kHigh = 2 * kSide, kLine = 4 * kSide;
  const int64_t whole = width / kHigh * kHigh, steps = k / kSide * kSide;
  for (int64_t line = 0; line < steps; line += kLine) {
    const int64_t end = std::min(line + kLine, steps);
    for (int64_t i = 0; i < width; ++i) __builtin_prefetch(from + i * from_row + line + kLinesAhead * kLine);
    if (whole < width) {
      for (int64_t p = line; p < end; p += kSide)
        transpose_two(from + whole * from_row + p, from_row, width - whole, to + p * to_row + whole, to_row);
    }
    for (int64_t i = 0; i < whole; i += kHigh) {
      for (int64_t p = line; p < end; p += kSide)
        transpose_two(from + i * from_row + p, from_row, kHigh, to + p * to_row + i, to_row);
    }
  }
  for (int64_t p = steps; p < k; ++p) {
    for (int64_t i = 0; i < width; ++i) to[p * to_row + i] = from[i * from_row + p];
  }
}

template <typename T>
void pack_panel(const T* from, int64_t lane_stride, int64_t k_stride, int64_t width, int64_t k, T* to, int64_t to_row) {
  if (lane_stride == 1) {
    const hn::ScalableTag<T> d;
    for (int64_t p = 0; p < k; ++p) {
      const T* const row = from + p * k_stride;
      for (int64_t i = 0; i < width; i += 64 / static_cast<int64_t>(sizeof(T)))
        __builtin_prefetch(row + kPackAhead * k_stride + i);
      map_run(d, width, [&](auto part, int64_t i) HWY_ATTR { part.store(part.load(row + i), to + p * to_row + i); });
    }
  } else if (k_stride == 1) {
    pack_rows(from, lane_stride, width, k, to, to_row);
  } else {
    for (int64_t p = 0; p < k; ++p) {
      for (int64_t i = 0; i < width; ++i) to[p * to_row + i] = from[i * lane_stride + p * k_stride];
    }
  }
}

template <typename T>
matmul::RegisterBlocks<T> blocks() {
  matmul::RegisterBlocks<T> table;
  table.rows = matmul::kMostBlockRows;
  table.lanes = static_cast<int64_t>(hn::MaxLanes(hn::ScalableTag<T>()));
  [&]<int... kRow>(std::integer_sequence<int, kRow...>) {
    ((table.products[kRow][0] = &block_product<kRow + 1, 1, T>, table.products[kRow][1] = &block_product<kRow + 1, 2, T>), ...);
  }
  (std::make_integer_sequence<int, matmul::kMostBlockRows>());
  table.pack = &pack_panel<T>;
  return table;
}

#else

template <typename T>
matmul::RegisterBlocks<T> blocks() {
  return {};
}

#endif

}  // namespace

const RealTable<matmul::RegisterBlocks>& block_table() {
  static const RealTable<matmul::RegisterBlocks> table{blocks<float>(), blocks<double>()};
  return table;
}

}  // namespace deckle::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace deckle::kernels::cpu {

HWY_EXPORT(block_table);

const RealTable<matmul::RegisterBlocks>& matmul::register_blocks() { return DECKLE_SIMD(block_table)(); }

}  // namespace deckle::kernels::cpu
#endif
