// embedding_backward, index_add, index_sum and index_add_or: rows added up by index. The positions are sorted by their index,
// stably; then each row of the result adds its own in that order, in double (integers in int64), of many the sums of their parts
// (runs.cuh): no atomics, the same bits in every run.
#include <algorithm>
#include <string>

#include "deckle/base/error.h"
#include "deckle/core/cuda/device.h"
#include "deckle/core/cuda/memory.h"
#include "deckle/kernels/args/context.h"
#include "deckle/kernels/cpu/index/row_shape.h"
#include "deckle/kernels/cuda/index/fault.cuh"
#include "deckle/kernels/cuda/index/runs.cuh"
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

struct Sums {
  const uint32_t* keys;
  const uint32_t* positions;
  int64_t count;  // of sources
  const void* self;
  const void* source;
  void* result;
  DType dtype;
  int64_t rows, inner;

  template <typename T>
  __device__ T element(int64_t outer, int64_t i, int64_t column) const {
    return pointwise::load<T>(source, dtype, (outer * count + positions[i]) * inner + column);
  }
};

/// A block a piece of the order: the sums of its parts of long runs, [outer, pieces, 2, inner].
template <typename T>
__global__ void __launch_bounds__(128) add_parts(Sums sums, int64_t pieces, T* parts) {
  const int64_t outer = blockIdx.x / pieces, piece = blockIdx.x - outer * pieces;
  for (const bool of_last : {false, true}) {
    const index::RunPart part(sums.keys, sums.count, piece, of_last);
    for (int64_t column = threadIdx.x; part.begin < part.end && column < sums.inner; column += 128) {
      T total = 0;
      for (int64_t i = part.begin; i < part.end; ++i) total += sums.element<T>(outer, i, column);
      parts[((outer * pieces + piece) * 2 + (of_last ? 1 : 0)) * sums.inner + column] = total;
    }
  }
}

/// A block a row of the result: result = self (0 if not given) + its sources.
template <typename T>
__global__ void __launch_bounds__(128) add(Sums sums, int64_t pieces, const T* parts) {
  const int64_t unit = blockIdx.x, outer = unit / sums.rows, row = unit - outer * sums.rows;
  const int64_t begin = index::first_not_below(sums.keys, sums.count, row);
  const int64_t end = index::first_not_below(sums.keys, sums.count, row + 1);
  for (int64_t column = threadIdx.x; column < sums.inner; column += 128) {
    T total = sums.self != nullptr ? pointwise::load<T>(sums.self, sums.dtype, unit * sums.inner + column) : T(0);
    if (end - begin > index::kPart) {
      for (int64_t piece = begin / index::kPart; piece <= (end - 1) / index::kPart; ++piece)
        total += parts[(outer * pieces * 2 + index::part_of(sums.keys, piece, row)) * sums.inner + column];
    } else {
      for (int64_t i = begin; i < end; ++i) total += sums.element<T>(outer, i, column);
    }
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
  const Indices at(indices);  // may throw, which must not be between the parts of a launch; so in every file here
  uint32_t* const keys = memory.as<uint32_t>();
  uint32_t *const positions = keys + count, *const sorted_keys = keys + 2 * count, *const sorted = keys + 3 * count;
  if (count > 0) {
    prepare<<<static_cast<unsigned>((count + 255) / 256), 256, 0, stream>>>(at, keys, positions, count, shape.rows, or_none,
                                                                            Fault(context.device));
    index::sort_positions(context, keys, sorted_keys, positions, sorted, count, shape.rows);
  }
  const Sums sums{sorted_keys, sorted, count, self.data, source.data, result.data, result.dtype, shape.rows, shape.inner};
  const int64_t pieces = count > index::kPart ? index::parts_of(count) : 0;
  const deckle::cuda::Block parts(shape.outer * pieces * 2 * shape.inner * static_cast<int64_t>(sizeof(double)), context.device);
  const auto run = [&]<typename T>(TypeTag<T>) {
    if (pieces > 0) add_parts<T><<<static_cast<unsigned>(shape.outer * pieces), 128, 0, stream>>>(sums, pieces, parts.as<T>());
    add<T><<<static_cast<unsigned>(blocks), 128, 0, stream>>>(sums, pieces, parts.as<T>());
  };
  if (is_floating(result.dtype))
    run(TypeTag<double>());
  else
    run(TypeTag<int64_t>());
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
