// Batched matrix products on fixed tiles.                          c[batch, M, N] = a[batch, M, K] b[batch, K, N]
//
// FLOPs 2 M N K; compute-bound from about K = 64 on. Instances: float32 and float64 by blocks of our own with AVX-512
// (blocked_product.cpp); else float32 and bfloat16 (oneDNN), float64 (OpenBLAS), float16 and bfloat16 without its instructions
// (widened to float32 by tile, then oneDNN: a tile of 512 x 1,024 widens 1.5 M elements for 1.07 GFLOP; or split,
// split_tile.cpp).
//
// The partition is a function of M, N, K and batch alone: tiles of up to 512 x 1,024, smaller ones where there would be too few
// for all threads, whole K up to 1,024, longer K in chunks of 1,024 summed in ascending order. So results are bit-equal for any
// number of threads. Row and chunk remainders are cut at multiples of 64: ragged batches bring a new row count at every step,
// and this bounds the distinct shapes that oneDNN compiles (slowly) to 8 + 63 per dim. Of products of several shapes
// (multiply_each) either rows may differ so or, of bfloat16, K, as those of components and of their gradients do. Otherwise there
// is no such bound: float32 goes to OpenBLAS, and bfloat16 too, widened. So the bits of one of several products may depend on
// whether the others are like it, as docs/nested.md says.

#include "deckle/kernels/cpu/matmul/product.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "deckle/base/parallel.h"
#include "deckle/base/scratch.h"
#include "deckle/kernels/cpu/matmul/blocked_product.h"
#include "deckle/kernels/cpu/matmul/direct.h"
#include "deckle/kernels/cpu/matmul/onednn_tile.h"
#include "deckle/kernels/cpu/matmul/openblas_tile.h"
#include "deckle/kernels/cpu/matmul/pack.h"
#include "deckle/kernels/cpu/matmul/split_tile.h"
#include "deckle/kernels/cpu/matmul/thin.h"
#include "deckle/kernels/cpu/simd/halves.h"

namespace deckle::kernels::cpu::matmul {
namespace {

constexpr int64_t kMaxTileRows = 512;
constexpr int64_t kMaxTileCols = 1024;
constexpr int64_t kMinTileSide = 128;  // smaller tiles repack their operands too often
constexpr int64_t kChunk = 1024;       // of K
constexpr int64_t kWantedTiles = 16;
constexpr double kMinTileFlops = 4e6;   // 40 us: well above what starting a tile on a thread costs
constexpr double kMinRangeFlops = 1e6;  // many small products share one range of parallel_for
constexpr int64_t kRemainderStep = 64;

struct Piece {
  int64_t begin;
  int64_t size;
};

// [0, extent) in pieces of `tile`; the rest as one piece of a multiple of 64 and one below 64.
std::vector<Piece> cut(int64_t extent, int64_t tile) {
  std::vector<Piece> pieces;
  int64_t begin = 0;
  for (; extent - begin >= tile; begin += tile) pieces.push_back({begin, tile});
  const int64_t rest = extent - begin;
  if (const int64_t even = rest / kRemainderStep * kRemainderStep; even > 0) pieces.push_back({begin, even});
  if (const int64_t odd = rest % kRemainderStep; odd > 0) pieces.push_back({extent - odd, odd});
  return pieces;
}

struct TileShape {
  int64_t rows = kMaxTileRows;
  int64_t cols = kMaxTileCols;
};

TileShape tile_shape(int64_t m, int64_t n, int64_t k, int64_t batch) {
  TileShape tile;
  const auto count = [](int64_t extent, int64_t side) { return (extent + side - 1) / side; };
  for (;;) {
    const int64_t rows = std::min(tile.rows, m);
    const int64_t cols = std::min(tile.cols, n);
    const double flops = 2.0 * static_cast<double>(rows) * static_cast<double>(cols) * static_cast<double>(k);
    if (count(m, tile.rows) * count(n, tile.cols) * batch >= kWantedTiles || flops < 2 * kMinTileFlops) return tile;
    if (rows >= cols && rows > kMinTileSide)
      tile.rows /= 2;
    else if (cols > kMinTileSide)
      tile.cols /= 2;
    else
      return tile;
  }
}

// How a dtype is multiplied: the operand types of the engines and their accumulator type.
struct Arithmetic {
  DType operands;
  DType sums;
  bool keep_halves;
  bool compiled;  // by oneDNN, for one shape each
  bool split;     // float16 into bfloat16, where a tile is large

  static Arithmetic of(DType dtype, bool few_shapes = true) {
    if (dtype == DType::float64) return {DType::float64, DType::float64, false, false, false};
    if (dtype == DType::bfloat16 && few_shapes && onednn_takes_bfloat16())
      return {DType::bfloat16, DType::float32, true, true, false};
    const bool split = dtype == DType::float16 && few_shapes && splits_float16();
    return {DType::float32, DType::float32, false, few_shapes, split};
  }
};

// In place where it has the layout of BLAS, whose strides are 32 bits wide.
Operand operand(const Matrix& matrix, const Arithmetic& arithmetic, Scratch& scratch) {
  constexpr int64_t kMostStride = std::numeric_limits<int32_t>::max();
  if (matrix.dtype == arithmetic.operands && std::max(matrix.row_stride, matrix.col_stride) <= kMostStride) {
    if (matrix.col_stride == 1 && (matrix.row_stride >= matrix.cols || matrix.rows == 1)) {
      return {matrix.data, std::max(matrix.row_stride, matrix.cols), false};
    }
    if (matrix.row_stride == 1 && (matrix.col_stride >= matrix.rows || matrix.cols == 1)) {
      return {matrix.data, std::max(matrix.col_stride, matrix.rows), true};
    }
  }
  const int64_t bytes = matrix.rows * matrix.cols * item_size(arithmetic.operands);
  return pack(matrix, arithmetic.keep_halves, scratch.take<std::byte>(bytes));
}

template <typename T, typename Sum>
const Sum* dense_bias(const Product& product, const Piece& cols, Scratch& scratch) {
  const auto* bias = static_cast<const T*>(product.bias) + cols.begin * product.bias_stride;
  if constexpr (std::is_same_v<T, Sum>) {
    if (product.bias_stride == 1) return bias;
  }
  Sum* dense = scratch.take<Sum>(cols.size);
  for (int64_t i = 0; i < cols.size; ++i) dense[i] = static_cast<Sum>(bias[i * product.bias_stride]);
  return dense;
}

const void* tile_bias(const Product& product, const Piece& cols, Scratch& scratch) {
  if (product.bias == nullptr) return nullptr;
  switch (product.a.dtype) {
    case DType::float64:
      return dense_bias<double, double>(product, cols, scratch);
    case DType::float32:
      return dense_bias<float, float>(product, cols, scratch);
    case DType::float16:
      return dense_bias<float16, float>(product, cols, scratch);
    default:
      return dense_bias<bfloat16, float>(product, cols, scratch);
  }
}

void narrow_tile(const float* sums, int64_t rows, int64_t cols, DType dtype, void* c, int64_t c_leading) {
  for (int64_t row = 0; row < rows; ++row) {
    const float* from = sums + row * cols;
    if (dtype == DType::bfloat16)
      simd::narrow(from, static_cast<bfloat16*>(c) + row * c_leading, cols);
    else
      simd::narrow(from, static_cast<float16*>(c) + row * c_leading, cols);
  }
}

void multiply_tile(const Product& product, const Arithmetic& arithmetic, const std::vector<Piece>& chunks, int64_t item,
                   const Piece& rows, const Piece& cols) {
  Scratch scratch;
  const DType dtype = product.a.dtype;
  const int64_t m = product.a.rows, leading = product.leading();
  Matrix a = product.a, b = product.b;
  const auto at = product.offsets(item);
  if (a.data != nullptr) a.data = static_cast<const char*>(a.data) + at.a * item_size(dtype);
  b.data = static_cast<const char*>(b.data) + at.b * item_size(dtype);
  void* c = static_cast<char*>(product.c) + ((item * m + rows.begin) * leading + cols.begin) * item_size(dtype);

  TileProduct tile;
  tile.m = rows.size;
  tile.n = cols.size;
  tile.bias = tile_bias(product, cols, scratch);
  // oneDNN rounds a bfloat16 result itself if there is nothing left to add to it.
  const bool direct = dtype == arithmetic.sums || (dtype == arithmetic.operands && chunks.size() == 1);
  tile.c = direct ? c : scratch.take<float>(rows.size * cols.size);
  tile.c_leading = direct ? leading : cols.size;
  for (const Piece& chunk : chunks) {
    Scratch packed;
    tile.k = chunk.size;
    const Matrix block = product.a_blocks != nullptr ? (*product.a_blocks)(rows.begin, rows.size, chunk.begin, chunk.size, packed)
                                                     : a.block(rows.begin, rows.size, chunk.begin, chunk.size);
    const Matrix b_block = b.block(chunk.begin, chunk.size, cols.begin, cols.size);
    if (!arithmetic.split || !split_tile(tile, block, b_block)) {
      tile.a = operand(block, arithmetic, packed);
      tile.b = operand(b_block, arithmetic, packed);
      if (arithmetic.compiled)
        onednn_tile(tile, arithmetic.operands, direct ? dtype : arithmetic.sums);
      else
        openblas_tile(tile, arithmetic.operands);
    }
    tile.accumulate = true;
    tile.bias = nullptr;
  }
  if (!direct) narrow_tile(static_cast<const float*>(tile.c), rows.size, cols.size, dtype, c, leading);
}

// K = 0: the empty sum, plus the bias.
void fill_empty(const Product& product) {
  const int64_t rows = product.items() * product.a.rows, cols = product.b.cols;
  visit_floating(product.a.dtype, [&]<typename T>(TypeTag<T>) {
    const auto* bias = static_cast<const T*>(product.bias);
    auto* c = static_cast<T*>(product.c);
    for (int64_t row = 0; row < rows; ++row) {
      for (int64_t col = 0; col < cols; ++col)
        c[row * product.leading() + col] = bias ? bias[col * product.bias_stride] : T(0.0f);
    }
  });
}

std::vector<Piece> chunks_of(int64_t k, int64_t chunk = kChunk) {
  return k <= chunk ? std::vector<Piece>{{0, k}} : cut(k, chunk);
}

/// What of the products' shapes differs, but for those without elements.
struct Differences {
  const Product* first = nullptr;
  bool rows = false, depth = false, others = false;

  void take(const Product& product) {
    if (first == nullptr) first = &product;
    const auto strides = [](const Matrix& matrix) { return std::pair(matrix.row_stride, matrix.col_stride); };
    rows = rows || product.a.rows != first->a.rows;
    depth = depth || product.a.cols != first->a.cols;
    others = others || product.b.cols != first->b.cols || strides(product.a) != strides(first->a) ||
             strides(product.b) != strides(first->b);
  }
  bool few_shapes() const { return !others && !(depth && (rows || first->a.dtype != DType::bfloat16)); }
};

}  // namespace

void multiply(const Product& product) {
  const int64_t m = product.a.rows, n = product.b.cols, k = product.a.cols, batch = product.items();
  if (batch == 0 || m == 0 || n == 0) return;
  if (k == 0) return fill_empty(product);
  if (multiply_directly(product) || multiply_thin(product) || multiply_blocked(product)) return;

  const Arithmetic arithmetic = Arithmetic::of(product.a.dtype);
  const TileShape shape = tile_shape(m, n, k, batch);
  const std::vector<Piece> rows = cut(m, shape.rows);
  const std::vector<Piece> cols = cut(n, shape.cols);
  const std::vector<Piece> chunks = chunks_of(k, product.chunk != 0 ? product.chunk : kChunk);

  const auto row_count = static_cast<int64_t>(rows.size()), col_count = static_cast<int64_t>(cols.size());
  const int64_t tiles = batch * row_count * col_count;
  const double flops = 2.0 * static_cast<double>(std::min(m, shape.rows) * std::min(n, shape.cols)) * static_cast<double>(k);
  const auto grain = static_cast<int64_t>(std::max(1.0, kMinRangeFlops / flops));
  parallel_for(tiles, grain, [&](int64_t begin, int64_t end) {
    for (int64_t index = begin; index < end; ++index) {
      // Columns run slowest: neighbouring tiles share the panel of b, which is the larger one as a rule.
      const int64_t row = index % row_count, col = index / row_count % col_count, item = index / (row_count * col_count);
      multiply_tile(product, arithmetic, chunks, item, rows[static_cast<size_t>(row)], cols[static_cast<size_t>(col)]);
    }
  });
}

void multiply_each(std::span<const Product> products) {
  struct Tile {
    const Product* product;
    Piece rows, cols;
  };
  std::vector<Tile> tiles;
  double flops = 0;
  Differences differences;
  const auto count = static_cast<int64_t>(products.size());
  for (const Product& product : products) {
    const int64_t m = product.a.rows, n = product.b.cols, k = product.a.cols;
    if (m == 0 || n == 0) continue;
    differences.take(product);
    flops += 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
    const TileShape shape = tile_shape(m, n, k, count);
    for (const Piece& cols : cut(n, shape.cols)) {
      for (const Piece& rows : cut(m, shape.rows)) tiles.push_back({&product, rows, cols});
    }
  }
  if (tiles.empty()) return;
  const Arithmetic arithmetic = Arithmetic::of(differences.first->a.dtype, differences.few_shapes());
  const auto chunks = [&](int64_t k) { return differences.depth && arithmetic.compiled ? cut(k, kChunk) : chunks_of(k); };
  const auto total = static_cast<int64_t>(tiles.size());
  const double mean = std::max(1.0, flops / static_cast<double>(total));
  parallel_for(total, std::max<int64_t>(1, static_cast<int64_t>(kMinRangeFlops / mean)), [&](int64_t begin, int64_t end) {
    for (int64_t index = begin; index < end; ++index) {
      const Tile& tile = tiles[static_cast<size_t>(index)];
      const int64_t k = tile.product->a.cols;
      if (k > 0)
        multiply_tile(*tile.product, arithmetic, chunks(k), 0, tile.rows, tile.cols);
      else if (tile.rows.begin == 0 && tile.cols.begin == 0)
        fill_empty(*tile.product);
    }
  });
}

Matrix matrix_of(const View& view, int row, int col) {
  return {view.data, view.dtype, view.sizes[row], view.sizes[col], view.strides[row], view.strides[col]};
}

}  // namespace deckle::kernels::cpu::matmul
