// embedding_backward, index_add, index_sum and index_add_or: rows added up by index. The positions are sorted by their index,
// stably; then each row of the result adds its own in that order, in double (integers in int64): no atomics, the same bits in
// every run.
#include <algorithm>
#include <string>

#include "deckle/base/error.h"
#include "deckle/core/cuda/device.h"
#include "deckle/core/cuda/memory.h"
#include "deckle/kernels/args/context.h"
#include "deckle/kernels/cpu/index/row_shape.h"
#include "deckle/kernels/cuda/index/fault.cuh"
#include "deckle/kernels/cuda/index/sorted.h"
#include "deckle/kernels/cuda/pointwise/operand.cuh"

namespace deckle::kernels::cuda {
namespace {

using cpu::indexing::RowShape;
using index::Fault;
using index::Indices;

/// keys[i]: the row that source i is added to, `rows` if to none; positions[i] = i.
__global__ void __launch_bounds__(256)
    prepare(Indices indices, uint32_t* keys, uint32_t* positions, int64_t count, int64_t rows, bool or_none, Fault fault) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * 256 + threadIdx.x;
  if (i >= count) return;
  const int64_t row = indices.at(i);
  const bool inside = row >= 0 && row < rows;
  if (!inside && !(or_none && row == -1)) fault.report(row, rows);
  keys[i] = static_cast<uint32_t>(inside ? row : rows);
  positions[i] = static_cast<uint32_t>(i);
}

__device__ int64_t first_not_below(const uint32_t* keys, int64_t count, int64_t row) {
  int64_t low = 0, high = count;
  while (low < high) {
    const int64_t middle = (low + high) / 2;
    if (keys[middle] < row)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

struct Sums {
  const uint32_t* keys;
  const uint32_t* positions;
  int64_t count;  // of sources
  const void* self;
  const void* source;
  void* result;
  DType dtype;
  int64_t rows, inner;
};

/// A block a row of the result: result = self (0 if not given) + its sources.
template <typename T>
__global__ void __launch_bounds__(128) add(Sums sums) {
  const int64_t unit = blockIdx.x, outer = unit / sums.rows, row = unit - outer * sums.rows;
  const int64_t begin = first_not_below(sums.keys, sums.count, row), end = first_not_below(sums.keys, sums.count, row + 1);
  for (int64_t column = threadIdx.x; column < sums.inner; column += 128) {
    T total = sums.self != nullptr ? pointwise::load<T>(sums.self, sums.dtype, unit * sums.inner + column) : T(0);
    for (int64_t i = begin; i < end; ++i)
      total += pointwise::load<T>(sums.source, sums.dtype, (outer * sums.count + sums.positions[i]) * sums.inner + column);
    pointwise::store(total, sums.result, sums.dtype, unit * sums.inner + column);
  }
}

void add_rows(const Context& context, const View& self, const RowShape& shape, const View& indices, const View& source,
              const View& result, bool or_none) {
  if (result.numel() == 0) return;
  const int64_t count = indices.numel(), blocks = shape.outer * shape.rows;
  // Positions and keys have 32 bits, a grid has 2^31 - 1 blocks.
  if (std::max(count, blocks) >= int64_t{1} << 31)
    throw Error("index has " + std::to_string(count) + " elements, the result " + std::to_string(blocks) +
                " rows (expected fewer than 2^31 of both on a GPU)");
  const deckle::cuda::DeviceGuard guard(context.device);
  const cudaStream_t stream = deckle::cuda::stream_handle(context.device);
  const deckle::cuda::Block memory(4 * count * static_cast<int64_t>(sizeof(uint32_t)), context.device);
  uint32_t* const keys = memory.as<uint32_t>();
  uint32_t *const positions = keys + count, *const sorted_keys = keys + 2 * count, *const sorted = keys + 3 * count;
  if (count > 0) {
    prepare<<<static_cast<unsigned>((count + 255) / 256), 256, 0, stream>>>(Indices(indices), keys, positions, count, shape.rows,
                                                                            or_none, Fault(context.device));
    index::sort_positions(context, keys, sorted_keys, positions, sorted, count, shape.rows);
  }
  const Sums sums{sorted_keys, sorted, count, self.data, source.data, result.data, result.dtype, shape.rows, shape.inner};
  if (is_floating(result.dtype))
    add<double><<<static_cast<unsigned>(blocks), 128, 0, stream>>>(sums);
  else
    add<int64_t><<<static_cast<unsigned>(blocks), 128, 0, stream>>>(sums);
  deckle::cuda::check_launch(context.device);
}

}  // namespace

void embedding_backward(const Context& context, const View& gradient, const View& indices, int64_t rows, const View& result) {
  add_rows(context, {}, RowShape(1, rows, result.sizes[1]), indices, gradient, result, false);
}
void index_add(const Context& context, const View& self, int64_t dim, const View& index, const View& source, const View& result) {
  add_rows(context, self, RowShape(self, dim), index, source, result, false);
}
void index_sum(const Context& context, const View& source, int64_t dim, const View& index, int64_t, const View& result) {
  add_rows(context, {}, RowShape(result, dim), index, source, result, false);
}
void index_add_or(const Context& context, const View& source, const View& index, int64_t rows, const View& result) {
  add_rows(context, {}, RowShape(1, rows, rows == 0 ? 0 : result.numel() / rows), index, source, result, true);
}

}  // namespace deckle::kernels::cuda
