// One tile of float16 as four products of bfloat16 on AMX.                          a b = (a1 + a2) (b1 + b2)
//
// A number of float16, of 11 bits, is exactly the sum of two of bfloat16, of 8, whose products float32 holds exactly too: the
// sums are as accurate as those of float16 widened. AMX multiplies bfloat16 at many times the rate of float32 (simd/amx.h), and a
// tile of 256 x 256 x 1,024 splits 0.5 M elements for 134 MFLOP.
//
// float16, one thread of an Intel 6/167 with AMX, best of nine in turns, ms (ef780afb, 2026-11-30, host shared):
//             1,024^3   a transposed   1,024 x 1,024 x 700   2,048^3   512^3   512 x 512 x 384   512 x 512 x 300
//   widened     13.48          14.49                  9.15     107.0    1.36              1.01              0.79
//   split        9.10          10.58                  6.21      86.0    1.23              0.95              0.79

#include "deckle/kernels/cpu/matmul/split_tile.h"

#include <algorithm>

#include "deckle/base/cpu_cap.h"
#include "deckle/base/scratch.h"
#include "deckle/kernels/cpu/matmul/onednn_tile.h"
#include "deckle/kernels/cpu/simd/halves.h"
#include "deckle/kernels/cpu/simd/transpose.h"

namespace deckle::kernels::cpu::matmul {
namespace {

constexpr int64_t kLeastSide = 128, kLeastDepth = 384;
constexpr int64_t kStep = 32;    // of k: a rest takes oneDNN a third of the time of a tile
constexpr int64_t kTurned = 32;  // columns at a time: a cache line

struct Parts {
  Operand high, low;
  bool finite = true;  // of an infinity and a part that is 0 the product would be NaN
};

/// Dense, column-major where the matrix is, and filled up with zeros to these rows and columns.
Parts split(const Matrix& from, int64_t rows, int64_t cols, Scratch& scratch) {
  const bool transposed = from.row_stride == 1 && from.col_stride != 1;
  const Matrix runs = transposed ? Matrix{from.data, from.dtype, from.cols, from.rows, from.col_stride, from.row_stride} : from;
  const int64_t outer = transposed ? cols : rows, inner = transposed ? rows : cols;
  auto *high = scratch.take<bfloat16>(outer * inner), *low = scratch.take<bfloat16>(outer * inner);
  Parts parts{{high, inner, transposed}, {low, inner, transposed}};
  for (int64_t i = 0; i < outer && parts.finite; ++i, high += inner, low += inner) {
    const int64_t count = i < runs.rows ? runs.cols : 0;
    const auto* const run = static_cast<const float16*>(from.data) + (count == 0 ? 0 : i * runs.row_stride);
    if (runs.col_stride == 1) {
      parts.finite = simd::split(run, high, low, count);
    } else {
      for (int64_t j = 0; j < count && parts.finite; ++j)
        parts.finite = simd::split(run + j * runs.col_stride, high + j, low + j, 1);
    }
    std::fill(high + count, high + inner, bfloat16());
    std::fill(low + count, low + inner, bfloat16());
  }
  return parts;
}

/// oneDNN multiplies a transposed a at three quarters of the rate.
Matrix row_major(const Matrix& a, Scratch& scratch) {
  if (a.row_stride != 1 || a.col_stride == 1) return a;
  const auto* const from = static_cast<const uint16_t*>(a.data);
  auto* const rows = scratch.take<uint16_t>(a.rows * a.cols);
  for (int64_t p = 0; p < a.cols; p += kTurned)
    simd::transpose(from + p * a.col_stride, a.col_stride, std::min(kTurned, a.cols - p), a.rows, rows + p, a.cols);
  return {rows, a.dtype, a.rows, a.cols, a.cols, 1};
}

}  // namespace

bool splits_float16() { return bf16_arithmetic() == Bf16Arithmetic::tiles; }

bool split_tile(TileProduct tile, const Matrix& a, const Matrix& b) {
  if (std::min(tile.m, tile.n) < kLeastSide || tile.k < kLeastDepth) return false;
  Scratch scratch;
  tile.k = (tile.k + kStep - 1) / kStep * kStep;
  const Parts left = split(row_major(a, scratch), tile.m, tile.k, scratch);
  if (!left.finite) return false;
  const Parts right = split(b, tile.k, tile.n, scratch);
  if (!right.finite) return false;
  for (const Operand& x : {left.low, left.high}) {
    for (const Operand& y : {right.low, right.high}) {
      tile.a = x, tile.b = y;
      onednn_tile(tile, DType::bfloat16, DType::float32);
      tile.accumulate = true;
      tile.bias = nullptr;
    }
  }
  return true;
}

}  // namespace deckle::kernels::cpu::matmul
