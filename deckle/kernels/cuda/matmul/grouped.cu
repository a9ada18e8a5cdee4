// C_b = op(A_b) op(B_b) for every component b, and transposes of packed matrices; op transposes or not. Matrices are stored one
// after another in packed values: component b of an operand is [sizes[b, 0], sizes[b, 1]] row-major from element offsets[b] on.
//
// One launch: a block computes 64 x 64 elements of a product, 4 x 4 a thread, from tiles of 16 columns in shared memory; float
// for float32 and the halves, double for float64, else int64, whose low bits are the product of narrower integers. 2 M N K
// operations each. One product of integers, which cuBLASLt has not, is a group of its own.
//
// What blocks look up are the sizes and offsets of the ragged shapes, which lie on the device as long as these live, and the
// first tile of each product, kept beside the sizes of the products: a step uploads nothing.
#include <memory>
#include <vector>

#include "deckle/core/cuda/device.h"
#include "deckle/core/cuda/error.h"
#include "deckle/core/cuda/memory.h"
#include "deckle/core/cuda/mirror.h"
#include "deckle/kernels/args/context.h"
#include "deckle/kernels/args/view.h"
#include "deckle/kernels/cuda/matmul/product.h"
#include "deckle/kernels/cuda/pointwise/operand.cuh"
#include "deckle/kernels/cuda/segment/ragged.cuh"

namespace deckle::kernels::cuda {
namespace {

constexpr int kTile = 64, kStep = 16, kOwn = 4;

/// A product as kernels see it, and its first tile among all.
struct Group {
  int64_t a, b, c;                           // first elements
  int64_t a_row, a_column, b_row, b_column;  // strides
  int64_t m, n, k, first_tile;
};

/// Packed matrices on the device: rows and columns of each as they lie in memory, and its first element.
struct PackedMatrices {
  const int64_t *sizes, *offsets;
};

/// All products of a call.
struct Groups {
  PackedMatrices a, b, c;
  bool transpose_a, transpose_b;
  int64_t count;
  const int64_t* first_tiles;

  /// The product that `tile` is of: the last that begins at it or before it, since those without tiles begin where the next does.
  __device__ Group at(int64_t tile) const {
    int64_t low = 0, high = count;
    while (high - low > 1) {
      const int64_t middle = (low + high) / 2;
      (first_tiles[middle] <= tile ? low : high) = middle;
    }
    const int64_t a_rows = a.sizes[2 * low], a_columns = a.sizes[2 * low + 1];
    const int64_t b_rows = b.sizes[2 * low], b_columns = b.sizes[2 * low + 1];
    return {a.offsets[low],
            b.offsets[low],
            c.offsets[low],
            transpose_a ? 1 : a_columns,
            transpose_a ? a_columns : 1,
            transpose_b ? 1 : b_columns,
            transpose_b ? b_columns : 1,
            transpose_a ? a_columns : a_rows,
            transpose_b ? b_rows : b_columns,
            transpose_a ? a_rows : a_columns,
            first_tiles[low]};
  }
};

/// Without groups, `only` is all there is.
template <typename T>
__global__ void __launch_bounds__(256) products(Group only, Groups groups, const void* a, const void* b, void* c, DType dtype) {
  __shared__ T left[kStep][kTile + 1], right[kStep][kTile + 1];
  const Group group = groups.count == 0 ? only : groups.at(static_cast<int64_t>(blockIdx.x));
  const int64_t tile = static_cast<int64_t>(blockIdx.x) - group.first_tile, across = (group.n + kTile - 1) / kTile;
  const int64_t row0 = tile / across * kTile, column0 = tile % across * kTile;
  const int thread = static_cast<int>(threadIdx.x), own_row = thread / 16 * kOwn, own_column = thread % 16 * kOwn;
  T sums[kOwn][kOwn] = {};
  for (int64_t k0 = 0; k0 < group.k; k0 += kStep) {
    for (int e = thread; e < kStep * kTile; e += 256) {
      // Neighbouring threads read neighbouring elements, whichever stride is 1.
      const bool rows_first = group.a_row == 1;
      const int i = rows_first ? e % kTile : e / kStep, k = rows_first ? e / kTile : e % kStep;
      const int64_t row = row0 + i, depth = k0 + k;
      left[k][i] = row < group.m && depth < group.k
                       ? pointwise::load<T>(a, dtype, group.a + row * group.a_row + depth * group.a_column)
                       : T(0);
    }
    for (int e = thread; e < kStep * kTile; e += 256) {
      const bool columns_first = group.b_column == 1;
      const int i = columns_first ? e % kTile : e / kStep, k = columns_first ? e / kTile : e % kStep;
      const int64_t column = column0 + i, depth = k0 + k;
      right[k][i] = column < group.n && depth < group.k
                        ? pointwise::load<T>(b, dtype, group.b + depth * group.b_row + column * group.b_column)
                        : T(0);
    }
    __syncthreads();
#pragma unroll
    for (int k = 0; k < kStep; ++k) {
      T x[kOwn], y[kOwn];
#pragma unroll
      for (int i = 0; i < kOwn; ++i) {
        x[i] = left[k][own_row + i];
        y[i] = right[k][own_column + i];
      }
#pragma unroll
      for (int i = 0; i < kOwn; ++i) {
#pragma unroll
        for (int j = 0; j < kOwn; ++j) sums[i][j] += x[i] * y[j];
      }
    }
    __syncthreads();
  }
#pragma unroll
  for (int i = 0; i < kOwn; ++i) {
#pragma unroll
    for (int j = 0; j < kOwn; ++j) {
      const int64_t row = row0 + own_row + i, column = column0 + own_column + j;
      if (row < group.m && column < group.n) pointwise::store(sums[i][j], c, dtype, group.c + row * group.n + column);
    }
  }
}

/// Element i of the result of transposing component by component; elements are runs of `block` pieces.
template <typename Piece>
__global__ void __launch_bounds__(256) transposes(segment::DeviceRagged matrices, const int64_t* sizes, const Piece* from,
                                                  Piece* to, int64_t block, int64_t pieces) {
  const int64_t at = static_cast<int64_t>(blockIdx.x) * 256 + threadIdx.x;
  if (at >= pieces) return;
  const int64_t element = at / block, piece = at - element * block, component = matrices.component(element);
  const int64_t rows = sizes[2 * component], columns = sizes[2 * component + 1], first = matrices.offsets[component];
  const int64_t local = element - first, row = local / rows, column = local - row * rows;  // of [columns, rows]
  to[at] = from[(first + column * columns + row) * block + piece];
}

/// The arrays of a shape of matrices on the device.
struct DeviceShape {
  segment::DeviceArray sizes, offsets;
  DeviceShape(const Context& context, const RaggedView& shape)
      : sizes(context, shape.sizes, 2 * shape.components), offsets(context, shape.offsets, shape.components + 1) {}
  PackedMatrices matrices() const { return {sizes.data, offsets.data}; }
};

constexpr int64_t kFirstTiles = 1;  // what is made of the sizes of products

/// The first tile of each product on the device.
class FirstTiles {
 public:
  FirstTiles(const Context& context, const RaggedView& products) {
    std::vector<int64_t> firsts;
    for (int64_t b = 0; b < products.components; ++b) {
      firsts.push_back(count_);
      count_ += ((products.sizes[2 * b] + kTile - 1) / kTile) * ((products.sizes[2 * b + 1] + kTile - 1) / kTile);
    }
    if (count_ == 0) return;
    const auto bytes = static_cast<int64_t>(firsts.size() * sizeof(int64_t));
    const auto upload = [&](void* to) { deckle::cuda::copy_bytes(to, context.device, firsts.data(), {}, bytes); };
    const int64_t key[] = {kFirstTiles, kTile};
    data_ = static_cast<const int64_t*>(deckle::cuda::made_of(products.sizes, context.device, key, bytes, upload));
    if (data_ != nullptr) return;
    own_ = std::make_unique<deckle::cuda::Block>(bytes, context.device);
    upload(own_->as<void>());
    data_ = own_->as<int64_t>();
  }
  const int64_t* data() const { return data_; }
  /// Of all products.
  int64_t count() const { return count_; }

 private:
  const int64_t* data_ = nullptr;
  int64_t count_ = 0;
  std::unique_ptr<deckle::cuda::Block> own_;  // where nobody keeps the sizes
};

}  // namespace

void grouped_mm(const Context& context, const View& self, const RaggedView& self_shape, const View& other,
                const RaggedView& other_shape, const RaggedView& product_shape, bool transpose_self, bool transpose_other,
                const View& result) {
  const deckle::cuda::DeviceGuard guard(context.device);
  const FirstTiles tiles(context, product_shape);
  if (tiles.count() == 0) return;
  const DeviceShape a(context, self_shape), b(context, other_shape), c(context, product_shape);
  const Groups groups{a.matrices(), b.matrices(), c.matrices(), transpose_self, transpose_other, product_shape.components,
                      tiles.data()};
  const auto run = [&](auto zero) {
    products<decltype(zero)><<<static_cast<unsigned>(tiles.count()), 256, 0, deckle::cuda::stream_handle(context.device)>>>(
        Group{}, groups, self.data, other.data, result.data, result.dtype);
  };
  if (result.dtype == DType::float64)
    run(double());
  else if (is_floating(result.dtype))
    run(float());
  else
    run(int64_t());
  deckle::cuda::check_launch(context.device);
}

namespace matmul {

void integer_product(const Context& context, DType dtype, const Matrices& a, const Matrices& b, const Matrices& result) {
  const int64_t tiles = ((result.rows + kTile - 1) / kTile) * ((result.columns + kTile - 1) / kTile);
  if (tiles == 0) return;
  const Group group{0, 0, 0, a.row, a.column, b.row, b.column, result.rows, result.columns, a.columns, 0};
  const deckle::cuda::DeviceGuard guard(context.device);
  products<int64_t><<<static_cast<unsigned>(tiles), 256, 0, deckle::cuda::stream_handle(context.device)>>>(
      group, Groups{}, a.data, b.data, result.data, dtype);
  deckle::cuda::check_launch(context.device);
}

}  // namespace matmul

void grouped_transpose(const Context& context, const View& self, const RaggedView& shape, const RaggedView&, const View& result) {
  if (self.numel() == 0) return;
  const int64_t bytes = self.numel() / shape.rows() * item_size(self.dtype);
  const deckle::cuda::DeviceGuard guard(context.device);
  const segment::Uploaded offsets(context, shape);
  const segment::DeviceArray sizes(context, shape.sizes, 2 * shape.components);
  const auto run = [&](auto piece) {
    using Piece = decltype(piece);
    const int64_t block = bytes / static_cast<int64_t>(sizeof(Piece)), pieces = shape.rows() * block;
    transposes<Piece><<<static_cast<unsigned>((pieces + 255) / 256), 256, 0, deckle::cuda::stream_handle(context.device)>>>(
        offsets.ragged(), sizes.data, self.ptr<Piece>(), result.ptr<Piece>(), block, pieces);
  };
  const uintptr_t fits =
      reinterpret_cast<uintptr_t>(self.data) | reinterpret_cast<uintptr_t>(result.data) | static_cast<uintptr_t>(bytes);
  if (fits % 16 == 0)
    run(uint4());
  else if (fits % 4 == 0)
    run(uint32_t());
  else if (fits % 2 == 0)
    run(uint16_t());
  else
    run(uint8_t());
  deckle::cuda::check_launch(context.device);
}

}  // namespace deckle::kernels::cuda
