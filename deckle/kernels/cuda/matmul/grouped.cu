// C_b = op(A_b) op(B_b) for every component b, and transposes of packed matrices; op transposes or not. Matrices are stored one
// after another in packed values: component b of an operand is [sizes[b, 0], sizes[b, 1]] row-major from element offsets[b] on.
//
// One launch: a block computes 64 x 64 elements of a product, 4 x 4 a thread, from tiles of 16 columns in shared memory; float
// for float32 and the halves, double for float64, else int64, whose low bits are the product of narrower integers. 2 M N K
// operations each. One product of integers, which cuBLASLt has not, is a group of its own.
#include <vector>

#include "deckle/core/cuda/device.h"
#include "deckle/core/cuda/error.h"
#include "deckle/core/cuda/memory.h"
#include "deckle/kernels/args/context.h"
#include "deckle/kernels/args/view.h"
#include "deckle/kernels/cuda/matmul/product.h"
#include "deckle/kernels/cuda/pointwise/operand.cuh"

namespace deckle::kernels::cuda {
namespace {

constexpr int kTile = 64, kStep = 16, kOwn = 4;

/// A product as kernels see it, and its first tile among all.
struct Group {
  int64_t a, b, c;                           // first elements
  int64_t a_row, a_column, b_row, b_column;  // strides
  int64_t m, n, k, first_tile;
};

template <typename V>
__device__ const Group& group_of(const Group* groups, int64_t count, V tile) {
  int64_t low = 0, high = count;
  while (high - low > 1) {
    const int64_t middle = (low + high) / 2;
    (groups[middle].first_tile <= tile ? low : high) = middle;
  }
  return groups[low];
}

/// Without groups in memory, `only` is all there is.
template <typename T>
__global__ void __launch_bounds__(256)
    products(Group only, const Group* groups, int64_t count, const void* a, const void* b, void* c, DType dtype) {
  __shared__ T left[kStep][kTile + 1], right[kStep][kTile + 1];
  const Group group = groups == nullptr ? only : group_of(groups, count, static_cast<int64_t>(blockIdx.x));
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
__global__ void __launch_bounds__(256)
    transposes(const Group* groups, int64_t count, const Piece* from, Piece* to, int64_t block, int64_t pieces) {
  const int64_t at = static_cast<int64_t>(blockIdx.x) * 256 + threadIdx.x;
  if (at >= pieces) return;
  const int64_t element = at / block, piece = at - element * block;
  const Group& group = group_of(groups, count, element);
  const int64_t local = element - group.first_tile, row = local / group.m, column = local - row * group.m;  // of [n, m]
  to[at] = from[(group.first_tile + column * group.n + row) * block + piece];
}

/// The groups on the device.
struct Upload {
  deckle::cuda::Block memory;
  Upload(const Context& context, const std::vector<Group>& groups)
      : memory(static_cast<int64_t>(groups.size() * sizeof(Group)), context.device) {
    deckle::cuda::copy_bytes(memory.as<void>(), context.device, groups.data(), {},
                             static_cast<int64_t>(groups.size() * sizeof(Group)));
  }
};

}  // namespace

void grouped_mm(const Context& context, const View& self, const RaggedView& self_shape, const View& other,
                const RaggedView& other_shape, const RaggedView& product_shape, bool transpose_self, bool transpose_other,
                const View& result) {
  std::vector<Group> groups;
  int64_t tiles = 0;
  for (int64_t b = 0; b < product_shape.components; ++b) {
    const int64_t a_rows = self_shape.sizes[2 * b], a_columns = self_shape.sizes[2 * b + 1];
    const int64_t b_rows = other_shape.sizes[2 * b], b_columns = other_shape.sizes[2 * b + 1];
    Group group{self_shape.offsets[b],
                other_shape.offsets[b],
                product_shape.offsets[b],
                a_columns,
                1,
                b_columns,
                1,
                a_rows,
                b_columns,
                a_columns,
                tiles};
    if (transpose_self) {
      std::swap(group.a_row, group.a_column);
      group.m = a_columns;
      group.k = a_rows;
    }
    if (transpose_other) {
      std::swap(group.b_row, group.b_column);
      group.n = b_rows;
    }
    const int64_t own = ((group.m + kTile - 1) / kTile) * ((group.n + kTile - 1) / kTile);
    if (own == 0) continue;
    groups.push_back(group);
    tiles += own;
  }
  if (tiles == 0) return;
  const deckle::cuda::DeviceGuard guard(context.device);
  const Upload upload(context, groups);
  const auto run = [&](auto zero) {
    products<decltype(zero)><<<static_cast<unsigned>(tiles), 256, 0, deckle::cuda::stream_handle(context.device)>>>(
        Group{}, upload.memory.as<Group>(), static_cast<int64_t>(groups.size()), self.data, other.data, result.data,
        result.dtype);
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
      group, nullptr, 0, a.data, b.data, result.data, dtype);
  deckle::cuda::check_launch(context.device);
}

}  // namespace matmul

void grouped_transpose(const Context& context, const View& self, const RaggedView& shape, const RaggedView&, const View& result) {
  if (self.numel() == 0) return;
  std::vector<Group> groups;
  for (int64_t b = 0; b < shape.components; ++b) {
    Group group{};
    group.m = shape.sizes[2 * b];
    group.n = shape.sizes[2 * b + 1];
    group.first_tile = shape.offsets[b];
    if (group.m * group.n > 0) groups.push_back(group);
  }
  const int64_t bytes = self.numel() / shape.rows() * item_size(self.dtype);
  const deckle::cuda::DeviceGuard guard(context.device);
  const Upload upload(context, groups);
  const auto run = [&](auto piece) {
    using Piece = decltype(piece);
    const int64_t block = bytes / static_cast<int64_t>(sizeof(Piece)), pieces = shape.rows() * block;
    transposes<Piece><<<static_cast<unsigned>((pieces + 255) / 256), 256, 0, deckle::cuda::stream_handle(context.device)>>>(
        upload.memory.as<Group>(), static_cast<int64_t>(groups.size()), self.ptr<Piece>(), result.ptr<Piece>(), block, pieces);
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
