// Gather by position within the own component, column by column, and its transpose, scatter-add.
//   segment_gather       result[i, c] = values[index[i, c], c]          index: [index rows, columns], positions in the component
//   segment_scatter_add  values, plus source[i, c] at [index[i, c], c]  that row i belongs to; its columns are some of values'
#include <string>

#include "deckle/base/error.h"
#include "deckle/kernels/args/item.h"
#include "deckle/kernels/cuda/index/additions.h"
#include "deckle/kernels/cuda/index/fault.cuh"
#include "deckle/kernels/cuda/pointwise/copy.h"
#include "deckle/kernels/cuda/segment/fold.cuh"

namespace deckle::kernels::cuda {
namespace {

using index::Fault;
using segment::DeviceRagged;

/// Where element e of the index points to. Its columns are counted in a row of `values`, which has as many dims, none smaller.
struct Places {
  DeviceRagged ragged, index_ragged;
  const int64_t* index;
  int64_t inner = 1, values_inner = 1;
  int dims = 0;
  int64_t sizes[kMaxDims], strides[kMaxDims];  // of a row of the index, and of the values

  Places(const View& values, const View& positions, const DeviceRagged& of_values, const DeviceRagged& of_index)
      : ragged(of_values), index_ragged(of_index), index(positions.ptr<int64_t>()), dims(positions.ndim - 1) {
    for (int d = dims - 1; d >= 0; --d) {
      sizes[d] = positions.sizes[d + 1];
      strides[d] = values_inner;
      values_inner *= values.sizes[d + 1];
      inner *= sizes[d];
    }
  }
  __device__ int64_t at(int64_t e, const Fault& fault) const {
    const int64_t row = e / inner, b = index_ragged.component(row), begin = ragged.offsets[b];
    const int64_t length = ragged.offsets[b + 1] - begin;
    int64_t position = index[e], rest = e - row * inner, column = 0;
    if (position < 0 || position >= length) {
      fault.report(position, length);
      position = 0;
    }
    for (int d = dims - 1; d >= 0; --d) {
      const int64_t quotient = rest / sizes[d];
      column += (rest - quotient * sizes[d]) * strides[d];
      rest = quotient;
    }
    return (begin + position) * values_inner + column;
  }
};

template <typename T>
__global__ void __launch_bounds__(256)
    gather(const __grid_constant__ Places places, const T* values, T* result, int64_t count, int64_t most, Fault fault) {
  const int64_t e = static_cast<int64_t>(blockIdx.x) * 256 + threadIdx.x;
  if (e >= count) return;
  const int64_t at = places.at(e, fault);
  if (at < most) result[e] = values[at];
}

__global__ void __launch_bounds__(256)
    prepare(const __grid_constant__ Places places, uint32_t* keys, uint32_t* positions, int64_t count, Fault fault) {
  const int64_t e = static_cast<int64_t>(blockIdx.x) * 256 + threadIdx.x;
  if (e >= count) return;
  keys[e] = static_cast<uint32_t>(places.at(e, fault));
  positions[e] = static_cast<uint32_t>(e);
}

unsigned blocks_of(int64_t count) { return static_cast<unsigned>((count + 255) / 256); }

/// Of a component without rows there is no place to go on with: it is asked for here.
void refuse_empty(const RaggedView& values, const RaggedView& index) {
  for (int64_t b = 0; b < values.components; ++b) {
    if (values.offsets[b + 1] == values.offsets[b] && index.offsets[b + 1] > index.offsets[b])
      throw Error("component " + std::to_string(b) + " has no rows, and an index of " +
                  std::to_string(index.offsets[b + 1] - index.offsets[b]) + " (expected an empty one)");
  }
}

}  // namespace

void segment_gather(const Context& context, const View& values, const RaggedView& ragged, const View& index,
                    const RaggedView& index_ragged, const View& result) {
  const int64_t count = index.numel();
  if (count == 0) return;
  refuse_empty(ragged, index_ragged);
  const deckle::cuda::DeviceGuard guard(context.device);
  const segment::Uploaded of_values(context, ragged), of_index(context, index_ragged);
  const Places places(values, index, of_values.ragged(), of_index.ragged());
  visit_item(values.dtype, [&]<typename T>(TypeTag<T>) {
    gather<T><<<blocks_of(count), 256, 0, deckle::cuda::stream_handle(context.device)>>>(
        places, values.ptr<T>(), result.ptr<T>(), count, values.numel(), Fault(context.device));
  });
  deckle::cuda::check_launch(context.device);
}

void segment_scatter_add(const Context& context, const View& values, const RaggedView& ragged, const View& index,
                         const RaggedView& index_ragged, const View& source, const View& result) {
  copy(context, values, result);
  const int64_t count = index.numel();
  if (count == 0) return;
  refuse_empty(ragged, index_ragged);
  const deckle::cuda::DeviceGuard guard(context.device);
  const segment::Uploaded of_values(context, ragged), of_index(context, index_ragged);
  const index::Additions additions(context, count, result, source);
  prepare<<<blocks_of(count), 256, 0, deckle::cuda::stream_handle(context.device)>>>(
      Places(values, index, of_values.ragged(), of_index.ragged()), additions.keys(), additions.positions(), count,
      Fault(context.device));
  additions.add(context);
}

}  // namespace deckle::kernels::cuda
